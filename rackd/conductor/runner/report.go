package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
)

// publish sends an event of the work.
func (r *Runner) publish(ctx context.Context, e work.Event) error {
	return r.deps.Conductor.Insist(ctx, e)
}

// event returns the next event of this epoch, which is to be published. The number is
// saved with the next checkpoint; a successor begins to count under its own epoch.
func (r *Runner) event(kind work.EventKind) work.Event {
	r.doc.Seq++
	return work.Event{ID: work.EventID(r.id, r.doc.Epoch, r.doc.Seq), Kind: kind, Node: r.doc.Node, Group: r.doc.Group,
		Rackd: r.deps.Name, Time: time.Now().UTC(), Work: r.id, Verb: r.doc.Verb, Generation: r.doc.Generation,
		Epoch: r.doc.Epoch, Seq: r.doc.Seq, Step: r.doc.Checkpoint.Step, StepInfo: r.display.stepInfo(), Before: r.untold()}
}

// untold takes what the next event is to tell besides.
func (r *Runner) untold() []work.Line {
	lines := r.doc.Checkpoint.Untold
	r.doc.Checkpoint.Untold = nil
	return lines
}

func (r *Runner) stateEvent(lastError string) work.Event {
	e := r.event(work.StateChanged)
	e.State, e.Target, e.Error = r.doc.State, r.doc.Target, lastError
	e.Internal = r.listed()
	return e
}

// move applies ev when the state machine has it for the node's state, writes the
// document and reports the change. Where it has none it does nothing: waiting in a
// waiting state, or resuming in a busy one, is no change. Work during which the state rests
// moves it in none.
func (r *Runner) move(ctx context.Context, ev provision.Event, lastError string) error {
	if r.doc.Verb.Rests() || r.doc.Verb == work.Abort {
		return nil
	}
	if ev == provision.EventWait || ev == provision.EventResume {
		if info, _ := provision.Describe(r.doc.State); (ev == provision.EventWait) == (info.Kind == provision.Waiting) {
			return nil
		}
	}
	t, ok := provision.Next(r.doc.State, ev)
	if !ok || t.Cause != provision.ByRackd {
		return nil
	}
	r.doc.Target = provision.TargetOf(t.To, ev, r.doc.Target)
	r.doc.State = t.To
	r.setDeadline()
	r.tells()
	if err := r.save(ctx); err != nil {
		return err
	}
	e := r.stateEvent(lastError)
	if ev == provision.EventWait {
		e.Power = string(r.observeBoot(ctx))
	}
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.deps.Conductor.ForgetPower(e)
	return nil
}

// leaveStep writes that s has ended and makes the transition that it leads to.
func (r *Runner) leaveStep(ctx context.Context, s flow.Step) error {
	if s.Then == "" {
		return r.save(ctx)
	}
	t, ok := provision.Next(r.doc.State, s.Then)
	if !ok {
		return fmt.Errorf("node %s: no transition %q from state %q", r.node.Label(), s.Then, r.doc.State)
	}
	r.doc.Target = provision.TargetOf(t.To, s.Then, r.doc.Target)
	r.doc.State = t.To
	r.setDeadline()
	if err := r.save(ctx); err != nil {
		return err
	}
	e := r.stateEvent("")
	e.ClearInstance = s.ClearInstance
	return r.publish(ctx, e)
}

// tell publishes the phases that wait for an event, and reports whether there were any.
func (r *Runner) tell(ctx context.Context) (bool, error) {
	lines := r.untold()
	for _, l := range lines {
		e := r.event(work.PhaseEntered)
		e.Time, e.Phase, e.Detail, e.Seconds = l.Time, l.Phase, l.Detail, l.Seconds
		if err := r.publish(ctx, e); err != nil {
			return false, err
		}
	}
	return len(lines) > 0, nil
}
