package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Handle implements driver.Recorder. Only the step that runs may call it.
func (r *Runner) Handle() json.RawMessage { return r.doc.Checkpoint.Handle }

// SaveHandle implements driver.Recorder. Only the step that runs may call it.
func (r *Runner) SaveHandle(ctx context.Context, handle any) error {
	body, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	r.doc.Checkpoint.Handle, r.doc.Checkpoint.Phase = body, work.Started
	pointHandle.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	return r.saveStep(ctx)
}

// saveStep is save for a step: where the work is lost, the error wraps ErrFenced.
func (r *Runner) saveStep(ctx context.Context) error {
	err := r.save(ctx)
	if errors.Is(err, view.ErrConflict) {
		return fmt.Errorf("%w: %w", driver.ErrFenced, err)
	}
	return err
}

// Now implements driver.Recorder.
func (r *Runner) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clockMark = r.tick()
	return r.clockMark
}

// tick is the wall clock's time. If the clock has been set back since the last tick, here or by going from one rackd to
// another, it is a little more than that tick. r.mu is held.
func (r *Runner) tick() time.Time {
	now := time.Now().UTC().Round(0) // what is read back from a document has no monotonic part
	if !now.After(r.clock) {
		now = r.clock.Add(1)
	}
	r.clock = now
	return now
}

// AgentGone implements driver.Recorder.
func (r *Runner) AgentGone() {
	r.mu.Lock()
	r.agent, r.bootsAgain = nil, true
	r.mu.Unlock()
}

// mostOfAPhase is how many lines of one name steps may say in one boot.
const mostOfAPhase = 20

// Phase implements driver.Recorder and may be called from any goroutine. A step that runs again says the same again: the history has it
// once for each boot.
func (r *Runner) Phase(name, detail string) {
	r.mu.Lock()
	r.phase(name, detail, mostOfAPhase)
	r.mu.Unlock()
	r.Nudge()
}

// phase is Phase with r.mu held, for at most so many lines of that name. What machines are seen to do has one: they ask again and again.
func (r *Runner) phase(name, detail string, most int) {
	now := time.Now()
	if name == "power on" {
		clear(r.bootPhases) // a new boot
	}
	line := name + "\x00" + detail
	if r.bootPhases[name] >= most || r.bootPhases[line] > 0 {
		return
	}
	r.bootPhases[name]++
	r.bootPhases[line]++
	r.phases = append(r.phases, work.Line{Time: now.UTC(), Phase: name, Detail: work.Text(detail), Seconds: now.Sub(r.lastPhase).Seconds()})
	r.lastPhase = now
}

// Progress implements driver.Recorder.
func (r *Runner) Progress(p agentapi.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = &p
}

// Observe implements driver.Recorder.
func (r *Runner) Observe(o hardware.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.Merge(o)
}

// Inventory implements driver.Recorder.
func (r *Runner) Inventory(inv agentapi.Inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory = &inv
}
