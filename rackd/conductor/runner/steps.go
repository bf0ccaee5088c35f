package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

func (r *Runner) runSteps(ctx context.Context, steps []flow.Step) error {
	i := r.doc.Checkpoint.Index
	if name := r.doc.Checkpoint.Step; name != "" && (i >= len(steps) || steps[i].ID() != name) {
		return fmt.Errorf("node %s: step %d of %s was %q when the work began and is a different one now: send the request again", r.node.Label(), i, r.doc.Verb, name)
	}
	var err error
	var ended *flow.Step // the step before, whose end the next checkpoint tells
	for ; i < len(steps); i++ {
		s := steps[i]
		if i > 0 && steps[i-1].Then != "" && r.doc.Checkpoint.Step != s.ID() {
			if err := flow.Bootable(r.task, steps[i:]); err != nil {
				return err
			}
		}
		r.show(steps, i)
		if err := r.abortsNow(s); err != nil {
			return err
		}
		cp := &r.doc.Checkpoint
		r.inBand = s.InBand
		if cp.Step != s.ID() && !s.Pure {
			if err := r.handsOff(ctx, steps, i); err != nil {
				return err
			}
		}
		if doubt := s.Kind == driver.Neither && (cp.Step == s.ID() && cp.Phase != work.Ended || cp.Step != s.ID() && r.doc.Lost); doubt && s.Doubt != nil {
			s.Run, s.Kind = s.Doubt, driver.Repeatable
		}
		switch {
		case cp.Step != s.ID() && s.Kind == driver.Neither && r.doc.Lost:
			return fmt.Errorf("node %s: the bus had lost the checkpoint of this %s, so step %s may have run; it can be neither repeated nor re-attached, so the %[2]s fails here: check the machine, then send the request again",
				r.node.Label(), r.doc.Verb, s.ID())
		case cp.Step != s.ID():
			pointBegin.Hit(r.at(s))
			r.Idle()
			cp.Step, cp.Index, cp.Phase, cp.Handle, cp.Progress, cp.Entered = s.ID(), i, work.Begun, nil, nil, time.Now().UTC()
			r.setDeadline()
			if s.Pure {
				break
			}
			if err := r.save(ctx); err != nil {
				return err
			}
		case cp.Phase == work.Ended:
			if r.doc.Args.AbortAfter && !s.Own { // who ended it died before it could say so
				return fmt.Errorf("%w after step %s", flow.ErrAborted, s.ID())
			}
			continue
		case s.Kind == driver.Neither:
			return fmt.Errorf("node %s: step %s was running when its rackd was lost, or when another request came; it can be neither repeated nor re-attached, so the %s fails here: check the machine, then send the request again",
				r.node.Label(), s.ID(), r.doc.Verb)
		}
		if ended != nil {
			pointEnded.Hit(r.at(*ended))
		}
		pointBegun.Hit(r.at(s))
		if cp.Parked.Before == s.ID() { // it has failed under an owner before
			if err := r.untilFree(ctx, s); err != nil {
				return err
			}
		}
		if err := r.runStep(ctx, s); err != nil {
			return err
		}
		pointEnd.Hit(r.at(s))
		if r.follows(steps, i) {
			ended = &s
			continue
		}
		ended = nil
		cp.Phase, cp.Progress = work.Ended, nil
		if r.concludes(steps, i) {
			return nil
		}
		if s.Discovers {
			if steps, err = r.deps.Flows.Grow(&r.doc, r.task, i); err != nil {
				return err
			}
		}
		if err := r.leaveStep(ctx, s); err != nil {
			return err
		}
		pointEnded.Hit(r.at(s))
		if r.doc.Args.AbortAfter && !s.Own {
			return fmt.Errorf("%w after step %s", flow.ErrAborted, s.ID())
		}
		if r.leave.Load() && i+1 < len(steps) {
			return r.release(ctx)
		}
	}
	return nil
}

// follows reports whether the step after i begins as soon as that one has ended: then
// one checkpoint says both.
func (r *Runner) follows(steps []flow.Step, i int) bool {
	s := steps[i]
	if s.Then != "" || s.Discovers || i+1 == len(steps) || r.doc.Args.AbortAfter || r.leave.Load() {
		return false
	}
	next := steps[i+1]
	return !next.Pure && !(next.Kind == driver.Neither && r.doc.Lost)
}

// concludes reports whether the work ends well as soon as step i has ended: then the
// result says both. A step that cannot be repeated has its end written at once.
func (r *Runner) concludes(steps []flow.Step, i int) bool {
	s := steps[i]
	return i+1 == len(steps) && s.Then == "" && !s.Discovers && !r.doc.Args.AbortAfter && s.Kind != driver.Neither
}

// runStep runs s until it is done, waiting in between as it asks.
func (r *Runner) runStep(ctx context.Context, s flow.Step) error {
	var err error
	if r.task.Args, err = r.openArgs(ctx, s); err != nil {
		return fmt.Errorf("step %s: its arguments: %w", s.ID(), err)
	}
	r.task.Entered = r.doc.Checkpoint.Entered
	retries, wait := s.Retries, awaited{}
	for {
		r.renew()
		began := time.Now()
		r.mu.Lock()
		r.heartbeat = len(r.reports) > 0 // those are not in the facts yet, so that the step does not see them now
		r.mu.Unlock()
		out, err := r.attempt(ctx, s)
		pointRan.Hit(r.at(s))
		r.deps.Metrics.StepRan(s.ID(), time.Since(began), err)
		save := r.flush
		if _, waiting := out.Waiting(); err == nil && !waiting && !out.Held() {
			save = r.takeIn // the checkpoint that it has ended comes next
		}
		if lost := errors.Join(save(ctx), r.Check()); errors.Is(lost, bus.ErrTooLarge) && err != nil {
			return fmt.Errorf("step %s: %w; in addition: %w", s.ID(), err, lost)
		} else if lost != nil {
			return lost
		}
		poll, waiting := out.Waiting()
		next, again := out.Again()
		switch {
		case wait.goesOn(r, s, err):
			poll = awaitEvery
		case err != nil && retries > 0 && flow.MayPass(err):
			retries--
			r.log.Warn("step failed, trying again", "step", s.ID(), "left", retries, "error", err)
			if err := r.pauseUntilFree(ctx, s, driver.PauseAfter(err, s.Pause)); err != nil {
				return wait.also(err)
			}
			continue
		case err != nil:
			return fmt.Errorf("step %s: %w", s.ID(), err)
		case again:
			r.setDeadline()
			if err := r.SaveHandle(ctx, next); err != nil {
				return err
			}
			if ends, err := r.endsHere(ctx, s); ends || err != nil {
				return err
			}
			continue
		case out.Held():
			if err := r.move(ctx, provision.EventHold, ""); err != nil {
				return err
			}
		case !waiting:
			return r.move(ctx, provision.EventResume, "")
		default:
			if err := r.move(ctx, provision.EventWait, ""); err != nil {
				return err
			}
		}
		if err := r.sleep(ctx, s, poll); err != nil {
			return wait.also(err)
		}
	}
}
