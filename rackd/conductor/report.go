package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// writing is what a save that fails does, for the log.
const writing = "writing checkpoints"

// save writes the document by compare-and-set, taking in what came from outside.
// While the bus does not answer it tries again, until the context ends.
func (r *runner) save(ctx context.Context) error {
	r.mu.Lock()
	if boot := r.doc.Checkpoint.Facts[driver.FactBoot]; boot != r.boot || r.again {
		// A boot into the ramdisk is counted here, and nowhere else, before it is caused: the agent of
		// before is gone then. One that is to boot something else next keeps its agent until it does.
		r.boot, r.again = boot, false
		if boot == driver.BootRamdisk {
			r.agent = nil
			r.count = r.count.Next(r.doc.Epoch)
			// A rackd that hears no DHCP would give the script to each that asks, until the machine asks for its address again.
			for _, a := range r.c.addresses(r.node, r.count) {
				r.count, _ = r.count.WithAddress(a)
			}
			clear(r.seen)
			r.wonder()
		}
	}
	r.doc.Checkpoint.Agent, r.doc.Checkpoint.Mark, r.doc.Checkpoint.Boot = nil, r.marked, r.count
	r.doc.Checkpoint.Touched = r.touched
	if r.agent != nil {
		a := *r.agent
		r.doc.Checkpoint.Agent = &a
		if key := r.c.cfg.Keys.Of(r.node.Group); key != nil {
			r.doc.SignAgent(key)
		}
	}
	r.doc.Checkpoint.BMC = r.busy
	if r.progress != nil {
		r.doc.Checkpoint.Progress, _ = json.Marshal(r.progress)
	}
	r.mu.Unlock()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		rev, err := r.c.cfg.Documents.UpdateWork(attempt, r.doc, r.revision)
		cancel()
		switch {
		case err == nil:
			r.c.away.Tried(r.c.log, writing, nil)
			r.revision, r.saved = rev, time.Now()
			return nil
		case errors.Is(err, view.ErrConflict):
			// The view may lag behind the bus, for as long as its watch is away.
			if err := r.refreshPast(ctx); err != nil {
				r.log.Warn("the work document has changed and cannot be read", "error", err)
			}
			if r.wroteIt() {
				continue // our own write, whose answer was lost
			}
			r.lose(err)
			return err
		case errors.Is(err, bus.ErrTooLarge): // now and ever
			return fmt.Errorf("the work's checkpoint cannot be written: %w", err)
		}
		r.c.away.Tried(r.c.log, writing, err, "node", r.doc.Node, "work", r.doc.ID)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// How long a replica of the bus may show what was there before a write that the leader knows of,
// and how often it is asked.
const (
	lagWithin = 5 * time.Second
	lagEvery  = 100 * time.Millisecond
)

// refreshPast brings the view up to date after the leader has refused a write. The replica that
// answers may lag: while it shows the very revision that the leader says is not the last, it is
// asked again. A rackd may not ask the leader itself, whose answers know no borders of groups.
func (r *runner) refreshPast(ctx context.Context) error {
	for end := time.Now().Add(lagWithin); ; {
		err := r.refresh(ctx)
		if w := r.c.cfg.Documents.Work(r.node.UUID); err != nil || w == nil || w.Lost || w.Revision != r.revision || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, lagEvery); err != nil {
			return err
		}
	}
}

// refresh brings the view up to date with the node's work document, or waits a little
// where that fails, so that nobody tries again at once.
func (r *runner) refresh(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := r.c.cfg.Documents.RefreshWork(attempt, r.doc.Group, r.doc.Node)
	if err != nil {
		pause(ctx, time.Second) // an ended context ends the runner anyway
	}
	return err
}

// wroteIt reports whether the bus holds a write of this runner that it was never
// told of, and moves on to that revision.
func (r *runner) wroteIt() bool {
	w := r.c.cfg.Documents.Work(r.node.UUID)
	if w == nil || w.Doc.ID != r.id || w.Doc.Owner != r.c.cfg.Name || w.Doc.Lease != r.lease || w.Doc.Epoch != r.doc.Epoch || w.Revision <= r.revision {
		return false
	}
	r.revision = w.Revision
	return true
}

// publish sends an event of the work.
func (r *runner) publish(ctx context.Context, e work.Event) error { return r.c.insist(ctx, e) }

// insist sends an event, trying until the context ends: events are few, the next step must
// not overtake them, and no step fails because the bus is away. One that is too large for the
// bus is an error at once.
func (c *Conductor) insist(ctx context.Context, e work.Event) error {
	e.Cut()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := c.cfg.Documents.Publish(attempt, e)
		cancel()
		if errors.Is(err, bus.ErrTooLarge) {
			return err
		}
		c.away.Tried(c.log, "publishing events", err, "node", e.Node, "kind", string(e.Kind), "event", e.ID)
		if err == nil {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// event returns the next event of this epoch, which is to be published. The number is
// saved with the next checkpoint; a successor counts anew under its own epoch.
func (r *runner) event(kind work.EventKind) work.Event {
	r.doc.Seq++
	return work.Event{ID: work.EventID(r.id, r.doc.Epoch, r.doc.Seq), Kind: kind, Node: r.doc.Node, Group: r.doc.Group,
		Rackd: r.c.cfg.Name, Time: time.Now().UTC(), Work: r.id, Verb: r.doc.Verb, Generation: r.doc.Generation,
		Epoch: r.doc.Epoch, Seq: r.doc.Seq, Step: r.doc.Checkpoint.Step, StepInfo: r.shown.stepInfo(), Before: r.untold()}
}

// untold takes what the next event is to tell besides.
func (r *runner) untold() []work.Line {
	lines := r.doc.Checkpoint.Untold
	r.doc.Checkpoint.Untold = nil
	return lines
}

func (r *runner) stateEvent(lastError string) work.Event {
	e := r.event(work.StateChanged)
	e.State, e.Target, e.Error = r.doc.State, r.doc.Target, lastError
	e.Internal = r.listed()
	return e
}

// move applies ev when the state machine has it for the node's state, writes the
// document and reports the change. Where it has none it does nothing: waiting in a
// waiting state, or resuming in a busy one, is no change. Work during which the state rests
// moves it in none.
func (r *runner) move(ctx context.Context, ev provision.Event, lastError string) error {
	if r.doc.Verb.Rests() || r.doc.Verb == work.Abort {
		return nil
	}
	if ev == provision.EventWait || ev == provision.EventResume {
		if info, _ := provision.Describe(r.doc.State); (ev == provision.EventWait) == (info.Kind == provision.Waiting) {
			return nil
		}
	}
	t, ok := provision.Next(r.doc.State, ev)
	if !ok || t.Cause != provision.ByRackd {
		return nil
	}
	r.doc.Target = provision.TargetOf(t.To, ev, r.doc.Target)
	r.doc.State = t.To
	r.setDeadline()
	r.tells()
	if err := r.save(ctx); err != nil {
		return err
	}
	e := r.stateEvent(lastError)
	if ev == provision.EventWait {
		e.Power = string(r.observeBoot(ctx))
	}
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.c.forgetPower(e)
	return nil
}

// leaveStep writes that s has ended and makes the transition that it leads to.
func (r *runner) leaveStep(ctx context.Context, s flowStep) error {
	if s.then == "" {
		return r.save(ctx)
	}
	t, ok := provision.Next(r.doc.State, s.then)
	if !ok {
		return fmt.Errorf("node %s: no transition %q from state %q", r.node.Label(), s.then, r.doc.State)
	}
	r.doc.Target = provision.TargetOf(t.To, s.then, r.doc.Target)
	r.doc.State = t.To
	r.setDeadline()
	if err := r.save(ctx); err != nil {
		return err
	}
	e := r.stateEvent("")
	e.ClearInstance = s.clearInstance
	return r.publish(ctx, e)
}

// setDeadline lets the state's time begin. The deadline keeps its monotonic reading, which
// UTC would take away: in this process a step of the wall clock must not move it.
func (r *runner) setDeadline() {
	r.doc.Checkpoint.Deadline = time.Time{}
	if d := r.limit(); d > 0 {
		r.grant(d)
	}
}

// saveEvery is how often heartbeats alone cause a checkpoint.
const saveEvery = 2 * time.Second

// metEvery is how often addresses that a machine is given cause a checkpoint.
const metEvery = 200 * time.Millisecond

// flush takes in heartbeats and phases, and writes a checkpoint where that is due.
func (r *runner) flush(ctx context.Context) error {
	due, err := r.absorb(ctx)
	if err != nil {
		return err
	}
	told, err := r.tell(ctx)
	if err != nil || !due && !told {
		return err
	}
	return r.save(ctx)
}

// tell publishes the phases that wait for an event, and reports whether there were any.
func (r *runner) tell(ctx context.Context) (bool, error) {
	lines := r.untold()
	for _, l := range lines {
		e := r.event(work.PhaseEntered)
		e.Time, e.Phase, e.Detail, e.Seconds = l.Time, l.Phase, l.Detail, l.Seconds
		if err := r.publish(ctx, e); err != nil {
			return false, err
		}
	}
	return len(lines) > 0, nil
}

// untoldLines bounds what checkpoints carry of phases that wait for an event.
const untoldLines = 16

// takeIn is flush for whoever writes a checkpoint next. That keeps the phases, which
// the next event tells: while steps follow each other at once, nobody waits for them.
func (r *runner) takeIn(ctx context.Context) error {
	_, err := r.absorb(ctx)
	if err == nil && len(r.doc.Checkpoint.Untold) > untoldLines {
		_, err = r.tell(ctx)
	}
	return err
}

// absorb moves the deadline when the agent has answered or got on, takes in the phases and publishes what
// else has been found. due: there is something besides phases that a successor must
// know, or the last checkpoint is old.
func (r *runner) absorb(ctx context.Context) (due bool, err error) {
	r.mu.Lock()
	phases, beat, heard, agent, inv := r.phases, r.beat || r.heard, r.heard, r.agent, r.inventory
	observed := r.observed
	r.phases, r.inventory, r.heard, r.observed = nil, nil, false, hardware.Observation{}
	known, met := r.doc.Checkpoint.Agent, !slices.Equal(r.doc.Checkpoint.Boot.Addresses, r.count.Addresses) || r.doc.Checkpoint.Boot.BMC != r.count.BMC
	first := agent != nil && (known == nil || known.URL != agent.URL || known.VerifyCA != agent.VerifyCA || known.TokenGiven != agent.TokenGiven)
	r.mu.Unlock()
	if heard {
		if d := r.limit(); d > 0 {
			r.grant(d)
		}
	}
	r.doc.Checkpoint.Untold = append(r.doc.Checkpoint.Untold, phases...)
	if inv != nil {
		e := r.event(work.InventoryFound)
		e.Inventory = inv.Carried()
		if len(inv.Sent) > 0 { // of a ramdisk: a BMC counts the disks behind a RAID controller
			if e.Internal, err = foundDisks(inv); err != nil {
				return false, err
			}
		}
		if err := r.publish(ctx, e); err != nil {
			r.mu.Lock() // what the hardware says is told next
			observed.Merge(r.observed)
			r.observed = observed
			r.mu.Unlock()
			return false, fmt.Errorf("report the inventory (%d bytes as it was sent, %d bytes of other data): %w", len(inv.Sent), len(inv.PluginData), err)
		}
	}
	if !observed.Empty() {
		e := r.event(work.HardwareObserved)
		e.Hardware = &observed
		if err := r.publish(ctx, e); err != nil {
			return false, fmt.Errorf("report the state of the hardware: %w", err)
		}
		r.c.noteHardware(r.node.UUID, &observed, nil)
	}
	if pause := metEvery - time.Since(r.saved); met && pause > 0 { // strangers may ask DHCP as often as they like
		met = false
		if now := time.Now(); !now.Before(r.meets) {
			r.meets = now.Add(pause)
			time.AfterFunc(pause, r.nudge)
		}
	}
	return first || met || inv != nil || !observed.Empty() || (beat && time.Since(r.saved) > saveEvery), nil
}

// finish ends the work well.
func (r *runner) finish(ctx context.Context) error {
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
		if undone := r.doc.Checkpoint.Facts[factUndone]; undone != "" {
			r.Phase("not cleaned up", undone)
			res.Error = work.Text(joined(res.Error, undone))
		}
	}
	return r.end(ctx, res)
}

// observePower reads how the work leaves the machine when it waits or ends, empty for not
// known. It is an observation like those of the power sync: when it does not come about,
// the next of those does it.
func (r *runner) observePower(ctx context.Context) driver.PowerState {
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

// observeBoot does so when the work begins to wait, which may be long, and in some states
// nobody else looks meanwhile: once for each boot, for a BMC takes its time to answer.
func (r *runner) observeBoot(ctx context.Context) driver.PowerState {
	r.mu.Lock()
	boot := r.marked
	r.mu.Unlock()
	if r.toldBoot != nil && r.toldBoot.Equal(boot) {
		return ""
	}
	r.toldBoot = &boot
	return r.observePower(ctx)
}

func (r *runner) end(ctx context.Context, res work.Result) error {
	res.Power = string(r.observePower(ctx))
	res.At = time.Now().UTC()
	if r.doc.Verb == work.Inspect && res.OK && r.task != nil {
		res.Source = r.task.Hardware.Source()
	}
	res.ClearInstance = r.doc.Verb == work.Delete && r.doc.State != provision.Error
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
	r.c.cfg.Metrics.WorkEnded(r.doc.Verb, res.OK, time.Since(r.doc.Requested))
	r.log.Info("work ended", "ok", res.OK, "state", string(r.doc.State), "took", time.Since(r.doc.Requested).Round(time.Millisecond))
	// Should this be lost, reconcile reports the end again.
	e := endedEvent(r.c.cfg.Name, r.doc)
	if err := r.publish(ctx, e); err != nil {
		return err
	}
	r.c.noteReported(e)
	if e.Power != "" {
		r.c.notePower(e, nil)
	}
	return nil
}

// shed takes out of the checkpoint what a work that has ended can do without: what its steps have
// learnt. It is for a document that is too large for the bus.
func (r *runner) shed() {
	cp := &r.doc.Checkpoint
	facts := map[string]string{}
	for _, name := range []string{driver.FactBoot, driver.FactBooted, driver.FactReadied} {
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

// endedEvent reports the end of d; it is the same whoever makes it.
func endedEvent(rackd string, d work.Document) work.Event {
	return work.Event{ID: work.EventID(d.ID, d.Epoch, d.Seq), Kind: work.WorkEnded, Node: d.Node, Group: d.Group,
		Rackd: rackd, Time: d.Result.At, Work: d.ID, Verb: d.Verb, Generation: d.Generation, Epoch: d.Epoch, Seq: d.Seq,
		State: d.State, Target: d.Target, Error: d.Result.Error, Step: d.Checkpoint.Step, Power: d.Result.Power, Before: d.Checkpoint.Untold,
		Internal: internal(d), SetMaintenance: d.Result.SetMaintenance, Fault: d.Result.Fault, ClearInstance: d.Result.ClearInstance, Source: d.Result.Source}
}

// Handle implements driver.Recorder.
func (r *runner) Handle() json.RawMessage { return r.doc.Checkpoint.Handle }

// Phase implements driver.Recorder and may be called from any goroutine.
func (r *runner) Phase(name, detail string) {
	r.mu.Lock()
	r.phase(name, detail)
	r.mu.Unlock()
	r.nudge()
}

// phase is Phase with r.mu held.
func (r *runner) phase(name, detail string) {
	now := time.Now()
	if name == "power on" {
		clear(r.seen) // a new boot
	}
	if !r.seen[name] {
		r.seen[name] = true
		r.phases = append(r.phases, work.Line{Time: now.UTC(), Phase: name, Detail: work.Text(detail), Seconds: now.Sub(r.phaseAt).Seconds()})
		r.phaseAt = now
	}
}

// Progress implements driver.Recorder.
func (r *runner) Progress(p agentapi.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = &p
}

// Observe implements driver.Recorder.
func (r *runner) Observe(o hardware.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.Merge(o)
}

// foundDisks is what later boots of the machine are expected to show.
func foundDisks(inv *agentapi.Inventory) (map[string]json.RawMessage, error) {
	known, err := json.Marshal(inv.KnownDisks())
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{node.DisksKey: known}, nil
}

// Inventory implements driver.Recorder.
func (r *runner) Inventory(inv agentapi.Inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inventory = &inv
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
