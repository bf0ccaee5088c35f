package flow

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ErrAborted ends work that an operator wanted to end.
var ErrAborted = errors.New("aborted by request")

// abortFlow lists what an abort does once no step of the flow runs. A machine that the flow has
// not booted, nor told to boot an instance, keeps its power. A serviced machine runs its instance again; any other is off.
func abortFlow(c *Catalog, d *work.Document, t *driver.Task) ([]Step, error) {
	booted := t.Facts[driver.FactBooted] != "" || d.Args.Aborts == "" && d.Args.AbortedBoot == driver.BootRamdisk
	readied, instance := t.Facts[driver.FactReadied] != "", TakesBackInstance(d, t)
	switch {
	case !booted && !instance && readied:
		return c.abortStep(d, "boot_not_taken", Parting{CleanUp: true}), nil
	case !booted && !instance:
		return nil, nil
	case d.Entry == provision.ServiceFail:
		return plain(DownFromService(t)), nil
	}
	return c.abortStep(d, "power_off", Parting{Off: !t.Node.DisablePowerOff, CleanUp: booted || readied, Instance: instance, Reset: t.Node.DisablePowerOff}), nil
}

// DownFromService are the steps that bring a machine whose service ends back into its instance.
func DownFromService(t *driver.Task) []driver.Step {
	b, ok := t.Hardware.Deploy().(driver.InBand)
	if !ok {
		return nil
	}
	return b.Down(t.Node, driver.InService)
}

// cutShort makes the list of an abort from the checkpoint of the flow that it ends. A step that
// runs and must not be cut short is its first: it is run to its end. One that only waits for another try is not tried again.
func (c *Catalog) cutShort(d *work.Document, t *driver.Task) ([]Step, error) {
	cp := &d.Checkpoint
	running, runs, err := c.runningStep(d, t)
	if err != nil {
		return nil, fmt.Errorf("node %s: this rackd cannot tell which step runs, so it does not cut the step short: %w", t.Node.Label(), err)
	}
	switch {
	case cp.Leaving != nil && cp.BMC != nil: // the failure keeps the machine's power, and so must this: the rest of it is done
		cp.Leaving = tooLateFor(cp.Leaving, d)
	case cp.Leaving != nil: // the flow had failed, and this does what was left to do
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
	cp.Touched = cp.Touched || runs && !running.Own && !running.Apart
	cuts := running.Abortable || Stands(cp)
	if runs && !running.Own && (!cuts || cp.BMC != nil) {
		steps = numbered(append([]Step{running}, tail...))
		cp.Step = steps[0].ID()
	} else {
		steps = numbered(steps)
		cp.Step, cp.Phase, cp.Handle, cp.Progress = "", "", nil, nil
	}
	cp.Index, cp.Plan, cp.Aborting = 0, listOf(steps), true
	return steps, nil
}

// Stands reports whether no try of cp's step is under way: the last has failed, and the next waits for the end of the maintenance.
func Stands(cp *work.Checkpoint) bool { return cp.Step != "" && cp.Parked.Before == cp.Step }

// tooLateFor returns the failure l with the word that d, which aborts its flow, came too late. l is shared with the view.
func tooLateFor(l *work.Leaving, d *work.Document) *work.Leaving {
	late := *l
	if !late.Aborted {
		late.Error = work.Text(Joined(late.Error, fmt.Sprintf("The abort came too late: the %s had failed", d.Args.Aborts)))
	}
	return &late
}

// runningStep returns the step that has begun and not ended, of the flow that d aborts.
func (c *Catalog) runningStep(d *work.Document, t *driver.Task) (s Step, runs bool, err error) {
	cp := &d.Checkpoint
	if cp.Step == "" || cp.Phase == work.Ended {
		return s, false, nil
	}
	aborted := *d
	aborted.Verb = d.Args.Aborts
	steps, err := c.Fixed(&aborted, t)
	if err != nil {
		return s, false, err
	}
	if cp.Index >= len(steps) || steps[cp.Index].ID() != cp.Step {
		return s, false, fmt.Errorf("step %d of %s was %q when the work began and is a different one now", cp.Index, d.Args.Aborts, cp.Step)
	}
	return steps[cp.Index], true, nil
}
