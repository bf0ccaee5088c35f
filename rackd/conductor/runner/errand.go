package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// errand does what the request asks of the machine before the flow that waited goes on
// where it stands. Whatever becomes of it is told, and the flow goes on: an
// error of errand's own means that the node is lost.
func (r *Runner) errand(ctx context.Context) error {
	verb, progress := r.doc.Errand(), &r.doc.Checkpoint.Errand
	if verb == "" {
		return nil
	}
	if progress.Phase != work.Ended {
		began := time.Now()
		if err := r.doErrand(ctx, verb); err != nil {
			return err
		}
		if d := &r.doc.Checkpoint.Deadline; !d.IsZero() {
			*d = d.Add(time.Since(began)) // the flow stood still meanwhile
		}
	}
	if progress.Told {
		return nil
	}
	if err := r.tellErrand(ctx, verb); err != nil {
		return err
	}
	progress.Told = true
	return r.save(ctx)
}

// tellErrand says that the errand has ended, and in which power state the machine is after one for power.
func (r *Runner) tellErrand(ctx context.Context, verb work.Verb) error {
	e := r.stateEvent("")
	e.Kind, e.Error = work.ErrandEnded, r.doc.Checkpoint.Errand.Error
	if verb == work.Power {
		if state, err := r.task.Hardware.Power().PowerState(ctx, r.task.Node); err == nil {
			e.Power = string(state)
		}
	}
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.deps.Conductor.ForgetPower(e)
	return nil
}

// doErrand does it, and saves what became of it.
func (r *Runner) doErrand(ctx context.Context, verb work.Verb) error {
	progress := &r.doc.Checkpoint.Errand
	if why := r.leavesErrand(verb); why != "" {
		progress.Phase, progress.Error = work.Ended, work.Text(why)
		return r.save(ctx)
	}
	var doubt string // why it may have been done already, empty for no doubt
	switch {
	case progress.Phase == work.Begun:
		doubt = "was running when its rackd was lost"
	case r.doc.Lost:
		doubt = "may have run, because the bus had lost its checkpoint,"
	}
	progress.Phase = work.Begun
	if err := r.save(ctx); err != nil {
		return err
	}
	cause := r.runErrand(ctx, verb, doubt)
	if err := r.Check(); err != nil {
		return errors.Join(err, cause)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	progress.Before = nil
	if progress.Phase = work.Ended; cause != nil {
		r.log.Warn("request beside the flow failed", "request", string(verb), "error", cause)
		progress.Error = work.Text(cause.Error())
	}
	return errors.Join(r.takeIn(ctx), r.save(ctx))
}

// runErrand runs the steps of the errand. In doubt whether they have run before, what can
// not be repeated is not.
func (r *Runner) runErrand(ctx context.Context, verb work.Verb, doubt string) error {
	if err := r.proveWay(ctx); err != nil { // before anything is made ready
		return err
	}
	d := r.doc
	d.Verb = verb
	steps, err := r.deps.Flows.Steps(&d, r.task)
	if err != nil {
		return err
	}
	done := 1 + slices.IndexFunc(steps, func(s flow.Step) bool { return s.ID() == r.doc.Checkpoint.Errand.Step })
	steps = steps[done:]
	if at := slices.IndexFunc(steps, func(s flow.Step) bool { return s.Kind == driver.Neither }); doubt != "" && at >= 0 {
		if steps[at].Doubt != nil {
			return r.endInDoubt(ctx, steps[at])
		}
		return fmt.Errorf("node %s: step %s %s and cannot be repeated: check the machine, then send the request again", r.node.Label(), steps[at].ID(), doubt)
	}
	if verb == work.Adjust && d.Args.Change.Console == nil { // a console is read by rackd, and the BMC works on
		if err := r.sparesBMC(); err != nil {
			return err
		}
	}
	if verb == work.Power && done == 0 {
		if err := r.readyPower(ctx, driver.PowerState(d.Args.PowerTarget)); err != nil {
			return err
		}
	}
	if verb == work.Power && done > 0 {
		if err := r.readyAgain(ctx, driver.PowerState(d.Args.PowerTarget)); err != nil {
			return err
		}
	}
	for i, s := range steps {
		if err := r.switchOver(ctx, s); err != nil {
			return fmt.Errorf("step %s: %w", s.ID(), err)
		}
		if !s.Pure && i+1 < len(steps) {
			r.doc.Checkpoint.Errand.Step = s.ID()
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// endInDoubt ends an errand of which it is not known how far its step s came. What that finds switched off it switches on: a machine whose
// flow runs in the ramdisk boots it again, which is made ready and counted before. One that was not reset keeps its agent.
func (r *Runner) endInDoubt(ctx context.Context, s flow.Step) error {
	if s.Resets && r.inRamdisk() {
		off, err := r.task.LeftOff(ctx)
		if err != nil {
			return fmt.Errorf("step %s: %w", s.ID(), err)
		}
		if off {
			if err := r.task.Hardware.Boot().PrepareRamdisk(ctx, r.task); err != nil {
				return fmt.Errorf("prepare another boot of the ramdisk: %w", err)
			}
			r.doc.Checkpoint.Errand.Before = nil
			r.AgentGone()
			if err := r.save(ctx); err != nil {
				return err
			}
		} else if agent := r.agentOfBefore(ctx); agent != "" {
			return fmt.Errorf("node %s: %q was asked for by a rackd that was lost since, and no reset shows: the agent of before still answers at %s. The flow goes on with it. Send the request again",
				r.node.Label(), r.doc.Args.PowerTarget, agent)
		}
	}
	s.Run = s.Doubt
	if err := r.runErrandStep(ctx, s); err != nil {
		return fmt.Errorf("step %s: %w", s.ID(), err)
	}
	return nil
}

// runErrandStep runs s, again where that may help. Steps of errands end by themselves.
func (r *Runner) runErrandStep(ctx context.Context, s flow.Step) error {
	for left := s.Retries; ; left-- {
		if err := r.Check(); err != nil {
			return err
		}
		if err := r.proveWay(ctx); err != nil {
			return err
		}
		_, err := s.Run(ctx, r.task)
		if err == nil || left <= 0 || !flow.MayPass(err) {
			return err
		}
		r.log.Warn("step failed, trying again", "step", s.ID(), "left", left, "error", err)
		if err := driver.Pause(ctx, driver.PauseAfter(err, s.Pause)); err != nil {
			return err
		}
	}
}

// inRamdisk reports whether the flow runs in the ramdisk, and goes on.
func (r *Runner) inRamdisk() bool {
	return r.task.Facts[driver.FactBoot] == driver.BootRamdisk && r.doc.Checkpoint.Over == nil && r.doc.Checkpoint.Leaving == nil
}

// readyPower makes ready for a request for power, before the machine is asked for anything. A machine whose flow runs
// in the ramdisk was asked for one boot of it, which is behind it.
func (r *Runner) readyPower(ctx context.Context, target driver.PowerState) error {
	if err := r.mayPower(); err != nil {
		return err
	}
	if r.inRamdisk() && target != driver.PowerOff && target != driver.SoftPowerOff {
		if err := r.task.Hardware.Boot().PrepareRamdisk(ctx, r.task); err != nil {
			return fmt.Errorf("prepare another boot of the ramdisk: %w", err)
		}
		return r.save(ctx)
	}
	if r.task.Facts[driver.FactBoot] == driver.BootInstance && target != driver.PowerOn {
		r.task.Facts[driver.FactRestarted] = string(target)
		return r.save(ctx)
	}
	return nil
}

// readyAgain makes ready for the rest of a request for power that another owner has begun. The machine is off by now. What was
// set for its next start may be forgotten.
func (r *Runner) readyAgain(ctx context.Context, target driver.PowerState) error {
	if !r.inRamdisk() || target == driver.PowerOff || target == driver.SoftPowerOff {
		return nil
	}
	if err := r.task.Hardware.Boot().PrepareRamdisk(ctx, r.task); err != nil {
		return fmt.Errorf("prepare another boot of the ramdisk: %w", err)
	}
	return nil
}

// switchOver runs a step of an errand. The ramdisk's agent is gone once the machine was seen to be off, and not before:
// a machine that the BMC does not switch off runs on, and its agent with it. The checkpoint that follows counts the next boot.
func (r *Runner) switchOver(ctx context.Context, s flow.Step) error {
	if !r.inRamdisk() || !s.Off && !s.Resets {
		return r.runErrandStep(ctx, s)
	}
	if s.Resets {
		return r.resetRamdisk(ctx, s)
	}
	err := r.runErrandStep(ctx, s)
	if err == nil {
		r.AgentGone()
	}
	return err
}
