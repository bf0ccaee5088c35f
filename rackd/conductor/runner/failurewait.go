package runner

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// failsLater waits, before a failure does anything to the machine, while the node is in maintenance: a person may be at the machine. The
// failure is written by then, so that the next owner waits, too, and does not run the step again. The state is the waiting one where there
// is such, so that an abort and requests for power are accepted; they are done at once.
func (r *Runner) failsLater(ctx context.Context) error {
	if r.doc.Args.AbortAfter { // of a provide, too, whose steps of the agent park
		return nil
	}
	cp, since := &r.doc.Checkpoint, time.Time{}
	said := r.taken.Doc.Checkpoint.Leaving != nil && r.taken.Doc.Checkpoint.Parked.Is() // by an owner before
	for told := false; ; told = true {
		if cp.Parked.Is() {
			since = cp.Parked.Since
		}
		if err := fits(r.keepTime(ctx)); err != nil {
			return err
		}
		if !cp.Parked.Is() {
			if !told {
				return nil
			}
			return r.tellFailing(ctx, "goes on", "the maintenance has ended: the machine is left as the failure asks for", max(time.Since(since), 0))
		}
		if r.leave.Load() {
			return r.release(ctx)
		}
		if !told {
			r.display.none = true // no step runs that an abort had to wait for
			if err := fits(r.move(ctx, provision.EventWait, "")); err != nil {
				return err
			}
			r.log.Info("the failure waits: the node is in maintenance", "step", cp.Step)
		}
		if !said {
			said = true
			why := "step " + cp.Step + " has failed, and the node is in maintenance: the machine is left as it is until that ends"
			if err := r.tellFailing(ctx, "parked", why, 0); err != nil {
				return err
			}
		}
		if err := r.tellAgain(ctx); err != nil {
			return err
		}
		switch r.park(ctx, nil, tellEvery) {
		case byEnd:
			return ctx.Err()
		case byNudge:
			if err := fits(r.flush(ctx)); err != nil {
				return err
			}
		}
	}
}

// tellFailing puts into the node's history how a failure stands that waits.
func (r *Runner) tellFailing(ctx context.Context, phase, detail string, took time.Duration) error {
	e := r.event(work.PhaseEntered)
	e.Phase, e.Detail, e.Seconds = phase, detail, took.Seconds()
	return r.publish(ctx, e)
}

// fits returns err unless that says that the checkpoint is too large for the bus: the end of the work takes out what is too much.
func fits(err error) error {
	if errors.Is(err, bus.ErrTooLarge) {
		return nil
	}
	return err
}
