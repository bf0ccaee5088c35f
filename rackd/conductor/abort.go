package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// errAborted ends work that an operator wanted to end.
var errAborted = errors.New("aborted by request")

// abortFlow lists what an abort does once no step of the flow runs. A machine that the flow has
// not booted keeps its power. A serviced machine runs its instance again; any other is off.
func abortFlow(c *Conductor, d *work.Document, t *driver.Task) ([]flowStep, error) {
	booted := t.Facts[driver.FactBooted] != "" || d.Args.Aborts == "" && d.Args.AbortedBoot == driver.BootRamdisk
	switch {
	case !booted && t.Facts[driver.FactReadied] != "":
		return c.abortStep(d, "boot_not_taken", parting{cleanUp: true}), nil
	case !booted:
		return nil, nil
	case d.Entry == provision.ServiceFail:
		return plain(downFromService(t)), nil
	}
	return c.abortStep(d, "power_off", parting{off: !t.Node.DisablePowerOff, cleanUp: true, reset: t.Node.DisablePowerOff}), nil
}

func downFromService(t *driver.Task) []driver.Step {
	b, ok := t.Hardware.Deploy().(driver.InBand)
	if !ok {
		return nil
	}
	return b.Down(t.Node, driver.InService)
}

// cutShort makes the list of an abort from the checkpoint of the flow that it ends. A step that
// runs and must not be cut short is its first: it is run to its end.
func (c *Conductor) cutShort(d *work.Document, t *driver.Task) ([]flowStep, error) {
	cp := &d.Checkpoint
	running, runs, err := c.runningStep(d, t)
	if err != nil {
		return nil, fmt.Errorf("node %s: this rackd cannot tell which step runs, so it does not cut the step short: %w", t.Node.Label(), err)
	}
	if cp.Leaving != nil { // the flow had failed, and this does what was left to do
		cp.Leaving, runs = nil, false
	}
	if runs && running.Boots { // how far it is no checkpoint tells
		t.Facts[driver.FactReadied] = "yes"
	}
	tail, err := abortFlow(c, d, t)
	if err != nil {
		return nil, err
	}
	steps := tail
	cp.Touched = cp.Touched || runs && !running.own && !running.Apart
	if runs && !running.own && (!running.Abortable || cp.BMC != nil) {
		steps = numbered(append([]flowStep{running}, tail...))
		cp.Step = steps[0].id()
	} else {
		steps = numbered(steps)
		cp.Step, cp.Phase, cp.Handle, cp.Progress = "", "", nil, nil
	}
	cp.Index, cp.Plan, cp.Aborting = 0, listOf(steps), true
	return steps, nil
}

// runningStep returns the step that has begun and not ended, of the flow that d aborts.
func (c *Conductor) runningStep(d *work.Document, t *driver.Task) (s flowStep, runs bool, err error) {
	cp := &d.Checkpoint
	if cp.Step == "" || cp.Phase == work.Ended {
		return s, false, nil
	}
	aborted := *d
	aborted.Verb = d.Args.Aborts
	steps, err := c.fixed(&aborted, t)
	if err != nil {
		return s, false, err
	}
	if cp.Index >= len(steps) || steps[cp.Index].id() != cp.Step {
		return s, false, fmt.Errorf("step %d of %s was %q when the work began and is a different one now", cp.Index, d.Args.Aborts, cp.Step)
	}
	return steps[cp.Index], true, nil
}

// abortsNow reports whether a flow that is to end after its step ends before step s goes on:
// s has not begun, or may be cut short.
func (r *runner) abortsNow(s flowStep) error {
	begun := r.doc.Checkpoint.Step == s.id()
	switch {
	case !r.doc.Args.AbortAfter || r.doc.Verb == work.Abort:
		return nil
	case !begun:
		return fmt.Errorf("%w before step %s", errAborted, s.id())
	case r.doc.Checkpoint.Phase != work.Ended && s.Abortable && r.busyWith() == nil:
		return fmt.Errorf("%w during step %s", errAborted, s.id())
	}
	return nil
}

// runsInstance brings a machine whose service was aborted back into its instance, as an
// abort that takes effect at once does.
func (r *runner) runsInstance(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restingDeadline)
	defer cancel()
	for _, s := range downFromService(r.task) {
		if err := r.runErrandStep(ctx, flowStep{Step: s}); err != nil {
			return fmt.Errorf("step %s.%s: %w", s.Interface, s.Name, err)
		}
	}
	return nil
}

// tooLate returns how a flow had ended before the request that goes on with it came. What
// an abort has come too late for is said: the node was shown as aborted meanwhile.
func (r *runner) tooLate(over work.Result) work.Result {
	if r.doc.Verb == work.Abort && over.Error == "" {
		over.Error = fmt.Sprintf("The abort came too late: the %s had ended.", r.doc.Flow())
	}
	return over
}
