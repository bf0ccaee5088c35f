package runner

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Check is the fence: the lease is held and no other rackd has taken the work.
func (r *Runner) Check() error {
	r.mu.Lock()
	lost := r.lost
	r.mu.Unlock()
	if lost == nil {
		lost = r.deps.Members.Check()
	}
	if lost == nil && r.lease != r.deps.Members.ID() {
		// The lease is held again, but in between others may have taken the work, and
		// this rackd's view may not show that yet.
		lost = errors.New("the lease under which the work was taken has ended")
	}
	if lost == nil {
		switch w := r.deps.Documents.Work(r.node.UUID); {
		case w == nil || w.Doc.ID != r.id:
			lost = errors.New("the node's work has moved on")
		case w.Lost:
			lost = errors.New("the bus has lost the work document")
		case w.Doc.Epoch != r.Epoch():
			lost = fmt.Errorf("rackd %q has taken the work under epoch %d", w.Doc.Owner, w.Doc.Epoch)
		}
	}
	if lost != nil {
		if r.continuedHere() {
			lost = fmt.Errorf("%w: %w", driver.ErrContinued, lost)
		}
		r.deps.Metrics.Fenced()
		return fmt.Errorf("node %s: %w: %w", r.node.Label(), driver.ErrFenced, lost)
	}
	return nil
}

// continuedHere reports whether the work that has taken this one's place goes on with its flow, on this rackd and under the same lease. An
// abort that takes effect at once ends what the flow does.
func (r *Runner) continuedHere() bool {
	w := r.deps.Documents.Work(r.node.UUID)
	return w != nil && !w.Lost && w.Doc.Open() && w.Doc.ID != r.id && w.Doc.Root() == r.root && w.Doc.Verb != work.Abort &&
		w.Doc.Owner == r.deps.Name && w.Doc.Lease == r.lease && r.lease == r.deps.Members.ID() && r.deps.Members.Check() == nil
}

// Work is the id of the work.
func (r *Runner) Work() string { return r.id }

// Epoch is the epoch under which this runner holds the work.
func (r *Runner) Epoch() uint64 { r.mu.Lock(); defer r.mu.Unlock(); return r.epoch }

// Aside returns the fence for a write beside the work, and what is to be called after the write. ok is false
// unless the work does nothing but wait, for the machine or for an operator. The fence lets nothing pass while the BMC is at work.
func (r *Runner) Aside() (f driver.Fence, done func(), ok bool) {
	if !r.turn.TryLock() {
		return nil, nil, false
	}
	if in, _ := provision.Describe(r.doc.State); r.parked && (in.Kind == provision.Waiting || in.Kind == provision.Held) {
		return asideFence{besideFence{r}}, r.turn.Unlock, true
	}
	r.turn.Unlock()
	return nil, nil, false
}

// flowFence is the fence of a flow's steps. What passes it is about to be sent to the
// machine, its BMC or its agent.
type flowFence struct{ *Runner }

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
type besideFence struct{ *Runner }

// Check implements driver.Fence.
func (f besideFence) Check() error {
	if err := f.Runner.Check(); err != nil {
		return err
	}
	if err := f.deps.Members.Confirm(); err != nil {
		f.deps.Metrics.Fenced()
		return fmt.Errorf("node %s: %w: %w", f.node.Label(), driver.ErrFenced, err)
	}
	return f.Runner.Check() // the lease of before, and the work as the bus showed it meanwhile
}

// hasTouched reports whether the flow may have sent something to the machine.
func (r *Runner) hasTouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.touched
}

// hasBooted reports whether this flow has the machine boot the ramdisk.
func (r *Runner) hasBooted() bool {
	return r.task != nil && r.task.Facts[driver.FactBooted] != ""
}

// hasReadied reports whether this flow has made the machine's boot into the ramdisk ready, or has begun to, and has not started
// the machine.
func (r *Runner) hasReadied() bool {
	return r.task != nil && r.task.Facts[driver.FactReadied] != "" && !r.hasBooted()
}

// inheritTouch takes over what the owners before may have sent. A step that was running may
// have sent something that no checkpoint tells of yet, and so may all of a document that was lost.
func (r *Runner) inheritTouch(steps []flow.Step) {
	cp := &r.doc.Checkpoint
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched = r.touched || cp.Touched || r.doc.Lost
	if cp.Step == "" || cp.Phase == work.Ended {
		return
	}
	if cp.Index >= len(steps) { // this rackd cannot tell which step it was
		r.touched = true
		return
	}
	running := steps[cp.Index]
	r.touched = r.touched || !running.Own && !running.Pure && !running.Apart
	if running.Boots { // lists of rackds of before do not say so
		r.task.Facts[driver.FactReadied] = "yes"
	}
}

// inheritReadied notes that an owner before may have made the machine's boot into the ramdisk ready, or into the instance.
// It goes by the list in the checkpoint, for this rackd may lack the step that ran.
func (r *Runner) inheritReadied() {
	cp := &r.doc.Checkpoint
	if cp.Step != "" && cp.Phase != work.Ended && cp.Index < len(cp.Plan) && cp.Plan[cp.Index].Boots {
		cp.Facts[driver.FactReadied] = "yes"
	}
	// A rackd of an older program notes what a deploy makes the machine boot, and not that it is about to.
	if deploys := r.doc.Flow() == work.Deploy || r.doc.Flow() == work.Rebuild; deploys && cp.Facts[driver.FactBoot] == driver.BootInstance {
		cp.Facts[driver.FactPrepared] = "yes"
	}
}
