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

// fail ends the work badly: it leaves the machine as docs/flows.md says, and says why.
func (r *runner) fail(ctx context.Context, cause error) {
	cause = r.keepsPower(cause)
	res := work.Result{Error: work.Text(cause.Error())}
	r.log.Error("work failed", "step", r.doc.Checkpoint.Step, "error", res.Error)
	if to, back := r.spared(); back {
		r.doc.State, r.doc.Target = to, provision.NoState
	} else if r.doc.Verb == work.Abort {
		r.log.Warn("the abort has failed: the machine stays as it is")
	} else if t, ok := provision.Next(r.doc.State, provision.EventFail); ok && !r.doc.Verb.Rests() {
		res.Fault = r.fault(t.To, cause)
		res.SetMaintenance = res.Fault != ""
		aborted := errors.Is(cause, errAborted)
		if r.leavesOff(t.To, res.Fault != "", aborted) {
			r.leaveOff(ctx)
		}
		r.doc.Target = provision.TargetOf(t.To, provision.EventFail, r.doc.Target)
		r.doc.State = t.To
		if aborted && t.To == provision.ServiceFail {
			if err := r.runsInstance(ctx); err != nil {
				res.Error = work.Text(res.Error + ". The machine could not be brought back into its instance: " + err.Error())
			} else {
				r.doc.State, r.doc.Target = provision.Active, provision.NoState
			}
		}
	}
	if err := r.end(ctx, res); err != nil {
		r.log.Warn("failure not written; the next owner runs the step again", "error", err)
	}
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

// leaveOff switches the machine off and takes out what it has booted from. A failure here
// changes nothing about how the work ends.
func (r *runner) leaveOff(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	if _, err := stopRamdisk(ctx, r.task); err != nil {
		r.log.Warn("machine not left as it should be after the failure", "error", err)
	}
}
