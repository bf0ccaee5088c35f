package conductor

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// fail ends the work badly: it leaves the machine as docs/flows.md says, and says why. A rackd that has lost
// the node before the machine is left so leaves the end to the next owner, who finds the failure again.
func (r *runner) fail(ctx context.Context, cause error) {
	cause = r.keepsPower(cause)
	res := work.Result{Error: work.Text(cause.Error())}
	r.log.Error("work failed", "step", r.doc.Checkpoint.Step, "error", res.Error)
	if to, back := r.spared(); back {
		r.doc.State, r.doc.Target = to, provision.NoState
	} else if r.doc.Verb == work.Abort {
		r.log.Warn("the abort has failed: the machine stays as it is")
	} else if t, ok := provision.Next(r.doc.State, provision.EventFail); ok && !r.doc.Verb.Rests() {
		if err := r.failInto(ctx, t, cause, &res); err != nil {
			r.log.Info("failure left to the work's next owner", "error", err)
			return
		}
	}
	if err := r.end(ctx, res); err != nil {
		r.log.Warn("failure not written; the next owner runs the step again", "error", err)
	}
}

// failInto leaves the machine as a failure by transition t does, and puts the work into that state. Its error means
// that the node is lost.
func (r *runner) failInto(ctx context.Context, t provision.Transition, cause error, res *work.Result) error {
	res.Fault = r.fault(t.To, cause)
	res.SetMaintenance = res.Fault != ""
	aborted := errors.Is(cause, errAborted)
	to, target := t.To, provision.TargetOf(t.To, provision.EventFail, r.doc.Target)
	leave := (func(context.Context, *driver.Task) (driver.Outcome, error))(nil)
	switch {
	case r.leavesOff(to, res.Fault != "", aborted):
		leave = r.c.stopRamdisk
	case r.hasReadied() && r.busyWith() == nil:
		leave = takeBack
	}
	if leave != nil {
		switch err := r.leaveMachine(ctx, leave); {
		case errors.Is(err, driver.ErrFenced):
			return err
		case err != nil:
			res.Error = work.Text(res.Error + ". The machine was not left as it should be: it may be on, boot the ramdisk, or have the ramdisk's medium inserted: " + err.Error())
		}
	}
	if aborted && to == provision.ServiceFail {
		switch err := r.runsInstance(ctx); {
		case errors.Is(err, driver.ErrFenced):
			return err
		case err != nil:
			res.Error = work.Text(res.Error + ". The machine could not be brought back into its instance: " + err.Error())
		default:
			to, target = provision.Active, provision.NoState
		}
	}
	r.doc.State, r.doc.Target = to, target
	return nil
}

// spared returns the state of a node whose instance runs on: the flow was to take its place
// and has sent nothing to the machine.
func (r *runner) spared() (provision.State, bool) {
	rebuilds := r.doc.Flow() == work.Rebuild && r.doc.Args.From == provision.Active
	return provision.Active, rebuilds && !r.hasTouched()
}

// fault is the reason for which an operator has to look at a node, empty for none.
func (r *runner) fault(to provision.State, cause error) string {
	const cleaning, service = "clean failure", "service failure"
	switch {
	case errors.Is(cause, errAborted):
		return "" // as was asked for
	case to == provision.ServiceFail && r.findsOut(cause):
		return service
	case r.shown.stepInfo() == nil:
		return "" // none of the flow's steps has begun, so that the machine is as it was
	case to == provision.CleanFail:
		return cleaning
	case to == provision.ServiceFail:
		return service
	}
	return ""
}

// findsOut reports whether cause is what Ironic finds out only when it runs the steps of a service: it
// looks at them before where a ramdisk is booted for them, whose agent may have some of them.
func (r *runner) findsOut(cause error) bool {
	var wrong *plan.StepError
	if r.task == nil || !errors.As(cause, &wrong) {
		return false
	}
	_, ramdisk := r.task.Hardware.Deploy().(driver.InBand)
	return !ramdisk
}

// leavesOff reports whether a machine is switched off when its flow ends in a state of
// failure. What this flow has not booted is left alone, and so is what an operator has to look at.
func (r *runner) leavesOff(to provision.State, fault, aborted bool) bool {
	if !r.hasBooted() || r.busyWith() != nil || fault || r.node.DisablePowerOff && !aborted {
		return false
	}
	switch to {
	case provision.DeployFail, // a half-written disk must not boot
		provision.InspectFail, provision.RescueFail,
		provision.CleanFail: // that was aborted
		return true
	}
	return false
}

// leaveWithin bounds what a flow that fails still does to its machine.
const leaveWithin = 40 * time.Second

// leaveMachine does what the end of a flow still does to its machine. A failure here, other than to have lost
// the node, is told in the node's last_error and changes nothing else about how the work ends.
func (r *runner) leaveMachine(ctx context.Context, do func(context.Context, *driver.Task) (driver.Outcome, error)) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	_, err := do(ctx, r.task)
	if err != nil {
		r.log.Warn("machine not left as it should be after the failure", "error", err)
	}
	return err
}
