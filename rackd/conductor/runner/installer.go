package runner

import (
	"encoding/json"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// report is what an installer has said, until a checkpoint has it.
type report struct {
	driver.Reported
	kept chan error // one place: nil once a checkpoint has it, else why it is not taken
}

// answer ends the wait of who has said it. It is called once.
func (r report) answer(err error) {
	select {
	case r.kept <- err:
	default:
	}
}

// Installs reports whether the ramdisk of the flow is an installer, which is no agent.
func (r *Runner) Installs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.installs
}

// Report takes in what the installer of boot says of itself. Once it returns nil a successor knows it, too: an installer says each
// thing once. Else it is refusal.ErrNotKept, or refusal.ErrBadToken for one of another boot, and for one that begins where its boot's last
// word was heard: the machine has started again by itself, and must not lose what was installed.
func (r *Runner) Report(boot work.Boot, hb ask.Heartbeat) error {
	said := report{driver.Reported{Status: hb.Status, Message: work.Text(hb.StatusMessage), Boot: boot.Number}, make(chan error, 1)}
	r.mu.Lock()
	if r.boots.Number != boot.Number || !r.installs {
		r.mu.Unlock()
		return refusal.ErrBadToken // the machine has been booted again meanwhile, or the installer is over
	}
	if len(r.reports) >= maxReports {
		r.mu.Unlock()
		return refusal.ErrNotKept
	}
	r.reports, r.heartbeat = append(r.reports, said), true
	r.answers()
	r.mu.Unlock()
	r.Nudge()
	patience := time.NewTimer(keepWithin)
	defer patience.Stop()
	select {
	case err := <-said.kept:
		return err
	case <-patience.C:
		return refusal.ErrNotKept
	}
}

// maxReports bounds the reports that wait for a checkpoint.
const maxReports = 8

// hear takes reports into the work's facts, for the checkpoint that comes next, and reports whether there were any. The last word
// of a boot stays.
func (r *Runner) hear() bool {
	r.mu.Lock()
	reports, number := r.reports, r.boots.Number
	r.reports = nil
	r.mu.Unlock()
	for _, said := range reports {
		var before driver.Reported
		over := false
		if raw := r.doc.Checkpoint.Facts[driver.FactReported]; raw != "" && json.Unmarshal([]byte(raw), &before) == nil {
			over = before.Boot == number && before.Final()
		}
		if over && !said.Final() {
			r.Phase("installer refused", "it begins again, and had ended: its machine has started by itself")
			said.answer(refusal.ErrBadToken)
			continue
		}
		if r.unkept = append(r.unkept, said); over {
			continue
		}
		if said.Boot != number {
			continue
		}
		r.Phase("installer "+said.Status, said.Message)
		raw, err := json.Marshal(said.Reported)
		if err != nil {
			continue
		}
		r.doc.Checkpoint.Facts[driver.FactReported] = string(raw)
	}
	return len(reports) > 0
}

// confirmReports tells installers that a checkpoint has what they have said.
func (r *Runner) confirmReports() {
	for _, said := range r.unkept {
		said.answer(nil)
	}
	r.unkept = nil
}
