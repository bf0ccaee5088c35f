package runner

import (
	"context"
	"errors"
	"strings"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// fail ends the work badly: it leaves the machine as docs/flows.md says, and says why. What it is to do is written before it does
// anything. So a rackd that dies, or has lost the node, leaves the rest to the next owner.
func (r *Runner) fail(ctx context.Context, cause error) {
	cause = r.keepsPower(cause)
	l := &work.Leaving{Error: work.Text(cause.Error()), State: r.doc.State, Target: r.doc.Target, Aborted: errors.Is(cause, flow.ErrAborted), Late: r.unseen || errors.As(cause, new(lateError))}
	r.log.Error("work failed", "step", r.doc.Checkpoint.Step, "error", l.Error)
	to, back := r.spared()
	t, ok := provision.Next(r.doc.State, provision.EventFail)
	switch {
	case back:
		l.State, l.Target = to, provision.NoState
	case r.doc.Verb == work.Abort && r.unmade():
		r.log.Warn("the abort has failed: the machine stays as it is")
	case r.doc.Verb == work.Abort: // a step failed that must not be cut short, or the way back into the instance
		l.Aborted = l.State != provision.ServiceFail
		l.Error = work.Text(flow.Joined(provision.Aborted(l.State, r.doc.Args.AbortedStep), l.Error))
	case ok && !r.doc.Verb.Rests():
		l.State, l.Target, l.Fault = t.To, provision.TargetOf(t.To, provision.EventFail, l.Target), r.fault(t.To, cause)
	}
	r.part(ctx, l, nil)
}

// part ends the work with the failure l, or goes on with that. The machine is left alone where handsOff says why.
func (r *Runner) part(ctx context.Context, l *work.Leaving, handsOff error) {
	err := r.leaveMachine(ctx, l, handsOff)
	if errors.Is(err, errReleased) {
		r.deps.Metrics.Released()
	}
	if err != nil {
		r.log.Info("failure left to the work's next owner", "error", err)
		return
	}
	r.doc.State, r.doc.Target, r.doc.Checkpoint.Leaving = l.State, l.Target, nil
	if err := r.end(ctx, work.Result{Error: work.Text(l.Error), Fault: l.Fault, SetMaintenance: l.Fault != ""}); err != nil {
		r.log.Warn("failure not written; the next owner goes on with it", "error", err)
	}
}

// goOnLeaving does the rest of a failure that an owner before has begun. unready is why this one cannot run the flow's steps.
func (r *Runner) goOnLeaving(ctx context.Context, unready error) {
	var handsOff error
	if r.task == nil {
		handsOff = unready
	} else if err := r.errand(ctx); err != nil {
		r.log.Info("failure left to the work's next owner", "error", err)
		return
	} else if handsOff = r.proveBMC(ctx); flow.LostFor(ctx, handsOff) != nil {
		return
	}
	l := *r.doc.Checkpoint.Leaving // shared with the view
	r.part(ctx, &l, handsOff)
}

// leaveMachine does to the machine what l asks for, and adds to l what could not be done. Its error means that the node is lost.
func (r *Runner) leaveMachine(ctx context.Context, l *work.Leaving, handsOff error) error {
	facts, began := r.doc.Checkpoint.Facts, r.doc.Checkpoint.Leaving != nil
	endsService := l.Aborted && l.State == provision.ServiceFail // the instance is to run again
	switch {
	case l.State == provision.Active: // nothing was sent to the machine, whose instance runs
		return nil
	case facts[driver.FactBooted] == "" && facts[driver.FactReadied] == "" && facts[driver.FactPrepared] == "":
		if endsService {
			l.State, l.Target = provision.Active, provision.NoState
		}
		return nil
	case r.doc.Verb == work.Abort && r.unmade():
		r.undone(l, "The machine was left as it is: it may be on, run the ramdisk, and have the ramdisk's medium in its drive"+r.instanceLeft(), nil)
		return nil
	}
	if r.task != nil && handsOff == nil {
		r.renew()
		if handsOff = r.proveWay(ctx); flow.LostFor(ctx, handsOff) != nil {
			return flow.LostFor(ctx, handsOff)
		}
	}
	if r.task == nil || handsOff != nil {
		what := "The machine that was booted is left as it is, and was not taken out of the ramdisk, for this rackd cannot or must not touch it: it may be on, and have the ramdisk's medium in its drive"
		if facts[driver.FactBooted] == "" && facts[driver.FactReadied] == "" {
			what = "The machine is left as it is, for this rackd cannot or must not touch it: it may be on"
		}
		r.undone(l, what+r.instanceLeft(), handsOff)
		return nil
	}
	at := string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step
	if !began {
		pointFailing.Hit(at)
		saved := *l
		r.doc.Checkpoint.Handle, r.doc.Checkpoint.Leaving = nil, &saved // the handle was the failed step's
		if err := fits(r.save(ctx)); err != nil {
			return err
		}
	}
	if err := r.failsLater(ctx); err != nil {
		return err
	}
	r.renew()
	pointFailed.Hit(at)
	undone := ""
	if endsService && r.hasBooted() {
		err := r.runsInstance(ctx)
		if lost := flow.LostFor(ctx, err); lost != nil {
			return lost
		}
		if err != nil {
			endsService = false
			undone = "The machine could not be brought back into its instance: " + err.Error()
		}
	}
	if !endsService || !r.hasBooted() {
		more, err := r.deps.Flows.Leave(ctx, r.task, r.partingOf(l), at)
		if err != nil {
			return err
		}
		undone = flow.Joined(undone, more)
		if r.busyWith() != nil && flow.BootsFromMedium(r.task) {
			undone = flow.Joined(undone, "The medium of its ramdisk was left in its drive, for the BMC may use it")
		}
		if r.busyWith() != nil && flow.TakesBackInstance(&r.doc, r.task) {
			undone = flow.Joined(undone, "What makes it boot its instance was left, for the BMC is at work: undeploy the node")
		}
	}
	r.undone(l, undone, nil)
	if endsService {
		l.State, l.Target = provision.Active, provision.NoState
	}
	pointLeft.Hit(at)
	return nil
}

// instanceLeft says, of a machine that cannot be touched, what it may have of an instance that is not to be; empty: nothing.
func (r *Runner) instanceLeft() string {
	if r.doc.Checkpoint.Facts[driver.FactPrepared] == "" {
		return ""
	}
	return ", and boot the instance that was not deployed, whose medium or volume it may have"
}

// unmade reports whether an abort ends before it has made the list of what it does: it does not know what runs.
func (r *Runner) unmade() bool { return r.doc.Args.Aborts != "" && !r.doc.Checkpoint.Aborting }

// undone tells, with the failure and in the node's history, what was not done to the machine, and why; nil: what says that too.
func (r *Runner) undone(l *work.Leaving, what string, why error) {
	if what == "" {
		return
	}
	whole := what
	if why != nil {
		whole = flow.Joined(what, why.Error())
	}
	r.log.Warn("the machine is not left as it should be after the failure", "why", whole)
	r.Phase("not cleaned up", whole)
	if why == nil || !strings.Contains(l.Error, why.Error()) {
		what = whole
	}
	l.Error = work.Text(flow.Joined(l.Error, what))
}

// spared returns the state of a node whose instance runs on: the flow was to take its place
// and has sent nothing to the machine.
func (r *Runner) spared() (provision.State, bool) {
	rebuilds := r.doc.Flow() == work.Rebuild && r.doc.Args.From == provision.Active
	return provision.Active, rebuilds && !r.hasTouched()
}

// fault is the reason for which an operator has to look at a node, empty for none.
func (r *Runner) fault(to provision.State, cause error) string {
	const cleaning, service = "clean failure", "service failure"
	switch {
	case errors.Is(cause, flow.ErrAborted):
		return "" // as was asked for
	case to == provision.ServiceFail && r.findsOut(cause):
		return service
	case r.display.stepInfo() == nil:
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
func (r *Runner) findsOut(cause error) bool {
	var wrong *plan.StepError
	if r.task == nil || !errors.As(cause, &wrong) {
		return false
	}
	_, ramdisk := r.task.Hardware.Deploy().(driver.InBand)
	return !ramdisk
}
