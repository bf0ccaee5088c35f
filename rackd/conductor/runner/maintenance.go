package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// parks reports whether the flow begins no step now, and its time stands still. Of a node that is not known here any
// more, which was deleted, nothing is heard either: then it is as before.
func (r *Runner) parks() bool {
	if !work.Parks(r.doc.Verb, &r.doc.Args) && !(r.inBand && work.ParksInBand(r.doc.Verb)) {
		return false
	}
	n := r.deps.Documents.Node(r.node.UUID)
	if n == nil {
		return r.doc.Checkpoint.Parked.Is()
	}
	return node.Attended(n.Maintenance, n.Fault)
}

// keepTime lets the flow's time stand still when its node goes into maintenance, and go on when that ends.
func (r *Runner) keepTime(ctx context.Context) error {
	cp, parks := &r.doc.Checkpoint, r.parks()
	if parks == cp.Parked.Is() {
		return nil
	}
	if parks {
		cp.Parked = work.Parked{Since: time.Now().UTC(), Before: r.failed}
		if !cp.Deadline.IsZero() {
			cp.Parked.Left = max(time.Until(cp.Deadline), 0)
		}
	} else {
		if !cp.Deadline.IsZero() {
			cp.Deadline = time.Now().Add(cp.Parked.Left)
		}
		cp.Parked = work.Parked{}
	}
	return r.save(ctx)
}

// grant gives the state d from now on.
func (r *Runner) grant(d time.Duration) {
	cp := &r.doc.Checkpoint
	if cp.Deadline = time.Now().Add(d); cp.Parked.Is() {
		cp.Parked.Left = d
	}
}

// handsOff waits before step i, which has not begun, while the node is in maintenance. The state is the waiting
// one where there is such, so that an abort and requests for power are accepted.
func (r *Runner) handsOff(ctx context.Context, steps []flow.Step, i int) error {
	if err := r.keepTime(ctx); err != nil || !r.doc.Checkpoint.Parked.Is() {
		return err
	}
	defer r.show(steps, i)
	r.display.none = true
	for r.parks() {
		if err := r.stopBefore(ctx, steps[i]); err != nil {
			return err
		}
		if r.leave.Load() {
			return r.release(ctx)
		}
		if err := r.tellAgain(ctx); err != nil {
			return err
		}
		switch r.park(ctx, nil, tellEvery) {
		case byEnd:
			return ctx.Err()
		case byNudge:
			if err := r.flush(ctx); err != nil {
				return err
			}
			if err := r.fate(); err != nil {
				return err
			}
		}
	}
	return r.goOnFrom(ctx)
}

// lookEvery is how often a failed step looks whether the maintenance has ended.
const lookEvery = 5 * time.Second

// pauseUntilFree waits before another try of s, which has failed: for pause, and while the node is in maintenance.
func (r *Runner) pauseUntilFree(ctx context.Context, s flow.Step, pause time.Duration) error {
	r.failed = s.ID() // an abort that comes in the pause tries nothing in maintenance either
	defer func() { r.failed = "" }()
	if err := r.untilFree(ctx, s); err != nil {
		return err
	}
	if err := r.sleep(ctx, s, pause); err != nil {
		return err
	}
	return r.untilFree(ctx, s)
}

// untilFree waits, before another try of s, while the node is in maintenance. The checkpoint says so: the next owner
// waits with the try, too, and an abort tries nothing. While s is tried no checkpoint says so.
func (r *Runner) untilFree(ctx context.Context, s flow.Step) error {
	cp := &r.doc.Checkpoint
	for waited := false; ; waited = true {
		if err := r.keepTime(ctx); err != nil {
			return err
		}
		if !cp.Parked.Is() {
			if !waited {
				return nil
			}
			return r.move(ctx, provision.EventResume, "")
		}
		if cp.Parked.Before != s.ID() {
			cp.Parked.Before = s.ID()
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		if err := r.move(ctx, provision.EventWait, ""); err != nil {
			return err
		}
		if err := r.sleep(ctx, s, lookEvery); err != nil {
			return err
		}
	}
}

// stopBefore writes and tells that the flow stands before s, once.
func (r *Runner) stopBefore(ctx context.Context, s flow.Step) error {
	cp := &r.doc.Checkpoint
	if cp.Parked.Before == s.ID() {
		return nil
	}
	if cp.Step != "" { // its end was to be told by the checkpoint that s begins
		cp.Phase, cp.Progress = work.Ended, nil
	}
	cp.Parked.Before = s.ID()
	if err := r.save(ctx); err != nil {
		return err
	}
	if err := r.move(ctx, provision.EventWait, ""); err != nil {
		return err
	}
	r.log.Info("the flow is parked: the node is in maintenance", "before", s.ID())
	e := r.event(work.PhaseEntered)
	e.Phase, e.Detail = "parked", fmt.Sprintf("the node is in maintenance: step %s begins when the maintenance has ended", s.ID())
	return r.publish(ctx, e)
}

// goOnFrom lets a flow go on that stood between two steps.
func (r *Runner) goOnFrom(ctx context.Context) error {
	p := r.doc.Checkpoint.Parked
	if err := r.keepTime(ctx); err != nil {
		return err
	}
	stood := max(time.Since(p.Since), 0)
	e := r.event(work.PhaseEntered)
	e.Phase, e.Detail, e.Seconds = "goes on", "the maintenance has ended: the flow goes on with step "+p.Before, stood.Seconds()
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	return r.move(ctx, provision.EventResume, "")
}
