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

// finish ends the work well.
func (r *Runner) finish(ctx context.Context) error {
	ev, aborted := provision.EventDone, r.doc.State
	if to, back := r.spared(); back && r.doc.Verb == work.Abort {
		r.doc.State, r.doc.Target = to, provision.NoState
	}
	if r.doc.Verb == work.Abort && r.doc.State == provision.ServiceFail {
		// An aborted service ends where it began.
		r.doc.State, r.doc.Target = provision.Active, provision.NoState
	}
	if r.doc.State == provision.Cleaning && (r.doc.Target == provision.Manageable || r.node.Retired) {
		ev = provision.EventManage
	}
	if t, ok := provision.Next(r.doc.State, ev); ok && t.Cause == provision.ByRackd && !r.doc.Verb.Rests() {
		r.doc.State, r.doc.Target = t.To, provision.NoState
	}
	res := work.Result{OK: true}
	if r.doc.Verb == work.Abort {
		res.Error = provision.Aborted(aborted, r.doc.Args.AbortedStep)
		if undone := r.doc.Checkpoint.Facts[flow.FactUndone]; undone != "" {
			r.Phase("not cleaned up", undone)
			res.Error = work.Text(flow.Joined(res.Error, undone))
		}
	}
	return r.end(ctx, res)
}

func (r *Runner) end(ctx context.Context, res work.Result) error {
	res.Power = string(r.observePower(ctx))
	res.At = time.Now().UTC()
	if r.doc.Verb == work.Inspect && res.OK && r.task != nil {
		res.Source = r.task.Hardware.Source()
	}
	res.ClearInstance = r.doc.Flow() == work.Delete && r.doc.State != provision.Error // an abort is taken once it is torn down
	if res.ClearInstance {
		r.tellLeftOn(driver.PowerState(res.Power))
	}
	r.doc.Result = &res
	r.doc.Checkpoint.Progress, r.doc.Checkpoint.Handle = nil, nil
	err := r.takeIn(ctx)
	for errors.Is(err, bus.ErrTooLarge) { // each was taken out of what waits: what is left is less
		r.log.Error("the agent's data is too large for the bus and is left out of the report of the work's end", "error", err)
		r.Phase("left out", err.Error())
		if !res.OK {
			res.Error = work.Text(res.Error + "; left out: " + err.Error())
		}
		err = r.takeIn(ctx)
	}
	if err != nil {
		return err
	}
	r.doc.Seq++
	pointFinish.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	err = r.save(ctx)
	if errors.Is(err, bus.ErrTooLarge) {
		r.shed()
		err = r.save(ctx)
	}
	if err != nil {
		return err
	}
	pointResult.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	r.deps.Metrics.WorkEnded(r.doc.Verb, res.OK, time.Since(r.doc.Requested))
	r.log.Info("work ended", "ok", res.OK, "state", string(r.doc.State), "took", time.Since(r.doc.Requested).Round(time.Millisecond))
	// Should this be lost, reconcile reports the end again.
	e := EndedEvent(r.deps.Name, r.doc)
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.deps.Conductor.NoteReported(e)
	if e.Power != "" {
		r.deps.Conductor.NotePower(e, nil)
	}
	return nil
}

// tellLeftOn tells in the history that an undeploy has left the former instance running, because disable_power_off forbids to switch the
// machine off. A cleaning that has booted the ramdisk has ended that instance. power is what was read last, empty if that failed.
func (r *Runner) tellLeftOn(power driver.PowerState) {
	n := r.node
	if r.task != nil {
		n = r.task.Node
	}
	if !n.DisablePowerOff || power == driver.PowerOff || r.doc.Checkpoint.Facts[driver.FactBooted] != "" {
		return
	}
	left := "the machine was left running, with the system of the instance that was undeployed"
	if power == "" {
		left = "the machine was left as it was, and may run the system of the instance that was undeployed"
	}
	r.Phase("power off", fmt.Sprintf("not done: the node's disable_power_off forbids it, and no ramdisk was booted for a cleaning: %s. Reset it or clean it if that must not be", left))
}

// shed takes out of the checkpoint what a work that has ended can do without: what its steps have
// learnt. It is for a document that is too large for the bus.
func (r *Runner) shed() {
	cp := &r.doc.Checkpoint
	facts := map[string]string{}
	for _, name := range []string{driver.FactBoot, driver.FactBooted, driver.FactReadied, driver.FactPrepared} {
		if v := cp.Facts[name]; v != "" {
			facts[name] = v
		}
	}
	*cp = work.Checkpoint{Step: cp.Step, Index: cp.Index, Phase: cp.Phase, Entered: cp.Entered, Deadline: cp.Deadline, Mark: cp.Mark, Errand: cp.Errand,
		Facts: facts}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = nil
}

// EndedEvent reports the end of d; each rackd that makes it makes the same one.
func EndedEvent(rackd string, d work.Document) work.Event {
	return work.Event{ID: work.EventID(d.ID, d.Epoch, d.Seq), Kind: work.WorkEnded, Node: d.Node, Group: d.Group,
		Rackd: rackd, Time: d.Result.At, Work: d.ID, Verb: d.Verb, Generation: d.Generation, Epoch: d.Epoch, Seq: d.Seq,
		State: d.State, Target: d.Target, Error: d.Result.Error, Step: d.Checkpoint.Step, Power: d.Result.Power, Before: d.Checkpoint.Untold,
		Internal: internal(d), SetMaintenance: d.Result.SetMaintenance, Fault: d.Result.Fault, ClearInstance: d.Result.ClearInstance, Source: d.Result.Source}
}

// observePower reads how the work leaves the machine when it waits or ends, empty for not
// known. It is an observation like those of the power sync: when it does not come about,
// the next of those does it.
func (r *Runner) observePower(ctx context.Context) driver.PowerState {
	if r.task == nil || r.doc.Verb.Rests() || r.doc.Verb == work.Manage {
		return "" // these have reported it
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	state, err := r.task.Hardware.Power().PowerState(ctx, r.task.Node)
	if err != nil {
		r.log.Debug("power state of the node's machine not read", "error", err)
		return ""
	}
	return state
}

// observeBoot is observePower for work that begins to wait. The wait may be long, and in some states no other program
// looks meanwhile. The runner reads once for each boot, for a BMC takes its time to answer.
func (r *Runner) observeBoot(ctx context.Context) driver.PowerState {
	r.mu.Lock()
	boot := r.clockMark
	r.mu.Unlock()
	if r.reportedBoot != nil && r.reportedBoot.Equal(boot) {
		return ""
	}
	r.reportedBoot = &boot
	return r.observePower(ctx)
}
