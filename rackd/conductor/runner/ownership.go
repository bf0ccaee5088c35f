package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// The places where a rackd may die in the middle of work, in the order in which a
// step passes them; the detail is VERB/INTERFACE.STEP.
var (
	pointTake   = failpoint.New("conductor.take")   // before the document is taken
	pointTaken  = failpoint.New("conductor.taken")  // taken, not yet reported
	pointBegin  = failpoint.New("conductor.begin")  // before the checkpoint that a step begins
	pointBegun  = failpoint.New("conductor.begun")  // after it: the side effect comes next
	pointHandle = failpoint.New("conductor.handle") // before a step's handle is written
	pointRan    = failpoint.New("conductor.ran")    // the step has done something, or looked
	pointEnd    = failpoint.New("conductor.end")    // before the checkpoint that a step has ended
	pointEnded  = failpoint.New("conductor.ended")  // after it

	pointSecret     = failpoint.New("conductor.secret")      // before the checkpoint with a secret that a BMC is to be told
	pointSecretKept = failpoint.New("conductor.secret_kept") // after it: the BMC is told next
	pointSecretSure = failpoint.New("conductor.secret_sure") // the BMC takes it, and that is not written
	pointSecretTold = failpoint.New("conductor.secret_told") // that is written, and central does not know

	pointFailing = failpoint.New("conductor.failing") // before it is written that the work fails
	pointFailed  = failpoint.New("conductor.failed")  // after it: the machine is left as the failure asks for
	pointLeft    = failpoint.New("conductor.left")    // nothing is left to do to the machine

	pointFinish = failpoint.New("conductor.finish") // before the result is written
	pointResult = failpoint.New("conductor.result") // after it, before it is reported
)

// at is where a point is hit.
func (r *Runner) at(s flow.Step) string { return string(r.doc.Verb) + "/" + s.ID() }

// errReleased ends a runner that has given its work away.
var errReleased = errors.New("the work was given to another rackd")

// release gives the work away, between two steps: the rackd that the ring names takes it.
func (r *Runner) release(ctx context.Context) error {
	r.doc.Owner, r.doc.Lease = "", ""
	if err := r.save(ctx); err != nil {
		return err
	}
	r.lose(errReleased)
	return errReleased
}

// graceAfterTake is the least time that a new owner gives a waiting state: while
// the node had no owner, its agent could not say that it lives.
const graceAfterTake = time.Minute

// take makes this rackd the owner, under a new epoch.
func (r *Runner) take(ctx context.Context) error {
	from := r.doc.Owner
	r.doc.Owner, r.doc.Lease = r.deps.Name, r.lease
	if r.doc.Epoch++; r.taken.Lost {
		// A rackd that saw it under an epoch that was lost has lost the node.
		r.doc.Epoch += work.LostEpochs
		r.doc.Lost = true
	}
	r.doc.Seq = 1
	if r.doc.State == "" {
		r.doc.State, r.doc.Target = r.doc.Entry, r.doc.EntryTarget
	}
	r.inheritTimes()
	if r.doc.Checkpoint.Facts == nil {
		r.doc.Checkpoint.Facts = map[string]string{}
	}
	r.mu.Lock()
	r.epoch = r.doc.Epoch
	r.mu.Unlock()
	pointTake.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	if err := r.save(ctx); err != nil {
		return err
	}
	pointTaken.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	r.deps.Metrics.WorkTaken(r.doc.Verb)
	r.log.Info("work taken", "from", from, "epoch", r.doc.Epoch, "step", r.doc.Checkpoint.Step, "state", string(r.doc.State))
	return nil
}

// tellTaken says where the work stands that was taken from another, empty for none, and which
// of its steps runs: events of the one before may be lost. Without steps none is named.
func (r *Runner) tellTaken(ctx context.Context, from string, steps []flow.Step) error {
	if cp := &r.doc.Checkpoint; cp.Over == nil && cp.Index < len(steps) && steps[cp.Index].ID() == cp.Step {
		r.show(steps, cp.Index)
		r.display.none = cp.Phase == work.Ended || cp.Leaving != nil
	}
	r.lastReport = time.Now()
	e := r.stateEvent("")
	e.ClearInstance = r.doc.Verb == work.Delete && r.doc.State.In([]provision.State{provision.Cleaning, provision.CleanWait, provision.CleanHold})
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	return r.reportTakeover(ctx, from)
}

// inheritTimes turns the times of a document, by its last owner's clock, into times
// that this process can measure from: a clock that is off, here or there, neither
// ends a wait early nor makes it endless.
func (r *Runner) inheritTimes() {
	cp, now := &r.doc.Checkpoint, time.Now()
	limit := r.limit()
	if cp.Entered.After(now) {
		cp.Entered = now.UTC()
	}
	if held(r.doc.State) {
		cp.Deadline = time.Time{}
		return
	}
	left, least := limit, min(graceAfterTake, limit)
	switch {
	case cp.Parked.Is():
		left = min(max(cp.Parked.Left, least), limit)
	case !cp.Deadline.IsZero():
		left = min(max(time.Until(cp.Deadline), least), limit)
	}
	r.grant(left)
}

// reportTakeover puts into the node's history whose work this rackd goes on with.
func (r *Runner) reportTakeover(ctx context.Context, from string) error {
	if r.taken.Doc.Seq == 0 {
		return nil // no rackd has begun this work
	}
	step := r.doc.Checkpoint.Step
	if step == "" {
		step = "the beginning"
	}
	e := r.event(work.PhaseEntered)
	switch {
	case from == r.deps.Name:
		e.Phase, e.Detail = "resumed", fmt.Sprintf("%s goes on with it after a restart, at step %s", from, step)
	case from == "":
		e.Phase, e.Detail = "handed over", fmt.Sprintf("to %s, at step %s", r.deps.Name, step)
	default:
		e.Phase, e.Detail = "takeover", fmt.Sprintf("from %s, which is dead, to %s, at step %s", from, r.deps.Name, step)
		if seen, ok := r.deps.Members.LastSeen(from); ok {
			took := time.Since(seen)
			e.Seconds = took.Seconds()
			e.Detail += fmt.Sprintf(", %.1f s after its last sign of life", took.Seconds())
			r.deps.Metrics.TakenOver(took)
		}
	}
	return r.publish(ctx, e)
}

// tellEvery is how often the state of running work is reported although it has not
// changed: an event may have been lost with the bus.
const tellEvery = 5 * time.Minute

func (r *Runner) tellAgain(ctx context.Context) error {
	if time.Since(r.lastReport) < tellEvery {
		return nil
	}
	r.lastReport = time.Now()
	if verb := r.doc.Errand(); verb != "" && r.doc.Checkpoint.Errand.Told { // central refuses what comes next until it knows
		if err := r.tellErrand(ctx, verb); err != nil {
			return err
		}
	}
	return r.publish(ctx, r.stateEvent(""))
}
