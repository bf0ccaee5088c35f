package conductor

import (
	"fmt"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// flowFence is the fence of a flow's steps. What passes it is about to be sent to the
// machine, its BMC or its agent.
type flowFence struct{ *runner }

// Check implements driver.Fence.
func (f flowFence) Check() error {
	err := besideFence(f).Check()
	if err == nil {
		f.mu.Lock()
		f.touched = true
		f.mu.Unlock()
	}
	return err
}

// besideFence is the fence of a request beside a flow that waits. The bus has confirmed the lease
// when it lets a write pass: a machine whose clocks stood still, with rackd on it, believes its own.
type besideFence struct{ *runner }

// Check implements driver.Fence.
func (f besideFence) Check() error {
	if err := f.runner.Check(); err != nil {
		return err
	}
	if err := f.c.cfg.Members.Confirm(); err != nil {
		f.c.cfg.Metrics.Fenced()
		return fmt.Errorf("node %s: %w: %w", f.node.Label(), driver.ErrFenced, err)
	}
	return f.runner.Check() // the lease of before, and the work as the bus showed it meanwhile
}

// hasTouched reports whether the flow may have sent something to the machine.
func (r *runner) hasTouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.touched
}

// hasBooted reports whether this flow has the machine boot the ramdisk.
func (r *runner) hasBooted() bool {
	return r.task != nil && r.task.Facts[driver.FactBooted] != ""
}

// hasReadied reports whether this flow has made the machine's boot into the ramdisk ready, or has begun to, and has not started
// the machine.
func (r *runner) hasReadied() bool {
	return r.task != nil && r.task.Facts[driver.FactReadied] != "" && !r.hasBooted()
}

// inheritTouch takes over what the owners before may have sent. A step that was running may
// have sent something that no checkpoint tells of yet, and so may all of a document that was lost.
func (r *runner) inheritTouch(steps []flow.Step) {
	cp := &r.doc.Checkpoint
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = r.touched || cp.Touched || r.doc.Lost
	if cp.Step == "" || cp.Phase == work.Ended || cp.Index >= len(steps) {
		return
	}
	running := steps[cp.Index]
	r.touched = r.touched || !running.Own && !running.Pure && !running.Apart
	if running.Boots {
		r.task.Facts[driver.FactReadied] = "yes"
	}
}
