package runner

import (
	"context"
	"errors"
	"fmt"
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
	e := r.stateEvent("")
	e.Kind, e.Error = work.ErrandEnded, progress.Error
	if verb == work.Power {
		if state, err := r.task.Hardware.Power().PowerState(ctx, r.task.Node); err == nil {
			e.Power = string(state)
		}
	}
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.deps.Conductor.ForgetPower(e)
	progress.Told = true
	return r.save(ctx)
}

// doErrand does it, and saves what became of it.
func (r *Runner) doErrand(ctx context.Context, verb work.Verb) error {
	progress := &r.doc.Checkpoint.Errand
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
	if progress.Phase = work.Ended; cause != nil {
		r.log.Warn("request beside the flow failed", "request", string(verb), "error", cause)
		progress.Error = work.Text(cause.Error())
	}
	return errors.Join(r.takeIn(ctx), r.save(ctx))
}

// runErrand runs the steps of the errand. In doubt whether they have run before, what can
// not be repeated is not.
func (r *Runner) runErrand(ctx context.Context, verb work.Verb, doubt string) error {
	d := r.doc
	d.Verb = verb
	steps, err := r.deps.Flows.Steps(&d, r.task)
	if err != nil {
		return err
	}
	if verb == work.Power {
		if err := r.mayPower(); err != nil {
			return err
		}
		if err := r.ramdiskAgain(ctx, driver.PowerState(d.Args.PowerTarget)); err != nil {
			return err
		}
		if r.task.Facts[driver.FactBoot] == driver.BootInstance && driver.PowerState(d.Args.PowerTarget) != driver.PowerOn {
			r.task.Facts[driver.FactRestarted] = d.Args.PowerTarget
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	for _, s := range steps {
		if doubt != "" && s.Kind == driver.Neither {
			return fmt.Errorf("node %s: step %s %s and cannot be repeated: check the machine, then send the request again", r.node.Label(), s.ID(), doubt)
		}
		if err := r.runErrandStep(ctx, s); err != nil {
			return fmt.Errorf("step %s: %w", s.ID(), err)
		}
	}
	return nil
}

// runErrandStep runs s, again where that may help. Steps of errands end by themselves.
func (r *Runner) runErrandStep(ctx context.Context, s flow.Step) error {
	for left := s.Retries; ; left-- {
		if err := r.Check(); err != nil {
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

// ramdiskAgain prepares a machine whose flow runs in the ramdisk for another boot of it: it
// was asked for one boot, which is behind it, and the agent of before is gone with its power.
func (r *Runner) ramdiskAgain(ctx context.Context, target driver.PowerState) error {
	if r.task.Facts[driver.FactBoot] != driver.BootRamdisk || r.doc.Checkpoint.Over != nil || r.doc.Checkpoint.Leaving != nil {
		return nil
	}
	if target != driver.PowerOn {
		r.AgentGone()
	}
	if target != driver.PowerOff && target != driver.SoftPowerOff {
		if err := r.task.Hardware.Boot().PrepareRamdisk(ctx, r.task); err != nil {
			return fmt.Errorf("prepare another boot of the ramdisk: %w", err)
		}
	}
	return r.save(ctx) // a boot is counted before it is caused
}
