package runner

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// stalled is how long a BMC may say that it works, without getting on, before that is no sign of
// life any more. Ironic gives a firmware update as long.
const stalled = 2 * time.Hour

// Busy implements driver.Recorder: an answer of the BMC that it still works moves the deadline.
func (r *Runner) Busy(far string) { r.ChildBusy("", far) }

// ChildBusy implements driver.Recorder. Without a child it is the node's own BMC.
func (r *Runner) ChildBusy(child, far string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, far := time.Now(), work.Text(far)
	switch {
	case r.busy == nil || r.busy.Far != far || r.busy.Child != child:
		r.busy = &work.Busy{Far: far, Since: now, Child: child}
	case r.busy.Since.After(now): // by this host's clock, before it was set
		r.busy = &work.Busy{Far: far, Since: now, Child: child}
	case now.Sub(r.busy.Since) > stalled:
		return
	}
	r.replied = true
}

// inherited is what a BMC is at work on, for a rackd that takes its work. What another has written of the time counts from now:
// its clock may be behind, and a BMC that gets on would pass for one that does not.
func inherited(b *work.Busy, own bool) *work.Busy {
	if b == nil || own {
		return b
	}
	return &work.Busy{Far: b.Far, Since: time.Now(), Child: b.Child}
}

// Idle implements driver.Recorder.
func (r *Runner) Idle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = nil
}

// busyWith returns what the node's own BMC may be at work on, nil for nothing.
func (r *Runner) busyWith() *work.Busy {
	if b := r.bmcBusy(); b != nil && b.Child == "" {
		return b
	}
	return nil
}

// bmcBusy returns what a BMC may be at work on for the step, the node's or a child's; nil: nothing.
func (r *Runner) bmcBusy() *work.Busy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

// keepsPower says, of a failure, that the machine keeps its power because its BMC may be at work.
func (r *Runner) keepsPower(cause error) error {
	b := r.bmcBusy()
	switch {
	case b == nil:
		return cause
	case b.Child != "":
		return fmt.Errorf("%w. The BMC of child node %s may still be at work (%s, unchanged for %s): look at that BMC's tasks before you switch the child",
			cause, b.Child, b.Far, time.Since(b.Since).Round(time.Second))
	}
	return fmt.Errorf("%w. The machine keeps its power, because its BMC may still be at work (%s, unchanged for %s): look at the BMC's tasks before you switch it",
		cause, b.Far, time.Since(b.Since).Round(time.Second))
}

// mayPower refuses a request for power while the BMC is at work, or where a flow would lose its agent by it.
func (r *Runner) mayPower() error {
	if !r.task.Hardware.Can(driver.PowerOff) && r.task.Facts[driver.FactBoot] == driver.BootRamdisk {
		return fmt.Errorf("node %s: its flow runs in the ramdisk, whose agent alone could restart this machine, and would end the flow's step: send the request again when the flow has ended, or abort it: %w",
			r.node.Label(), driver.ErrInvalid)
	}
	return r.sparesBMC()
}

// sparesBMC refuses what a request asks of the machine beside its flow while the BMC is at work.
func (r *Runner) sparesBMC() error {
	if b := r.busyWith(); b != nil {
		return fmt.Errorf("node %s: its BMC is at work (%s), and a change of power or of anything else may destroy what it writes: send the request again when step %s has ended: %w",
			r.node.Label(), b.Far, r.doc.Checkpoint.Step, driver.ErrInvalid)
	}
	return nil
}

// asideFence is the fence of a write that belongs to no work, while the node's work waits (Aside).
type asideFence struct{ besideFence }

// Check implements driver.Fence.
func (f asideFence) Check() error {
	if err := f.besideFence.Check(); err != nil {
		return err
	}
	return f.sparesBMC()
}
