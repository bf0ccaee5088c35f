package runner

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
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// writing is what a save that fails does, for the log.
const writing = "writing checkpoints"

// save writes the document by compare-and-set, taking in what came from outside.
// While the bus does not answer it tries again, until the context ends.
func (r *Runner) save(ctx context.Context) error {
	r.mu.Lock()
	if boot := r.doc.Checkpoint.Facts[driver.FactBoot]; boot != r.bootFact || r.bootsAgain {
		// A boot into the ramdisk is counted here, and nowhere else, before it is caused: the agent of
		// before is gone then. One that is to boot something else next keeps its agent until it does.
		r.bootFact, r.bootsAgain = boot, false
		if boot == driver.BootRamdisk {
			r.agent = nil
			r.boots = r.boots.Next(r.doc.Epoch)
			// A rackd that hears no DHCP would give the script to each that asks, until the machine asks for its address again.
			for _, a := range r.deps.Conductor.Addresses(r.node, r.boots) {
				r.boots, _ = r.boots.WithAddress(a)
			}
			clear(r.bootPhases)
			r.wonder()
		}
	}
	r.installs = r.doc.Checkpoint.Facts[driver.FactInstaller] != "" && r.bootFact == driver.BootRamdisk
	r.doc.Checkpoint.Agent, r.doc.Checkpoint.Mark, r.doc.Checkpoint.Boot = nil, r.clockMark, r.boots
	r.doc.Checkpoint.Touched = r.touched
	if r.agent != nil {
		a := *r.agent
		r.doc.Checkpoint.Agent = &a
		if key := r.deps.Keys.Of(r.node.Group); key != nil {
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
		rev, err := r.deps.Documents.UpdateWork(attempt, r.doc, r.revision)
		cancel()
		switch {
		case err == nil:
			r.deps.Away.Tried(r.deps.Log, writing, nil)
			r.revision, r.saved = rev, time.Now()
			r.confirmReports()
			r.confirmAgent()
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
		r.deps.Away.Tried(r.deps.Log, writing, err, "node", r.doc.Node, "work", r.doc.ID)
		if err := driver.Pause(ctx, time.Second); err != nil {
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
func (r *Runner) refreshPast(ctx context.Context) error {
	for end := time.Now().Add(lagWithin); ; {
		err := r.refresh(ctx)
		if w := r.deps.Documents.Work(r.node.UUID); err != nil || w == nil || w.Lost || w.Revision != r.revision || time.Now().After(end) {
			return err
		}
		if err := driver.Pause(ctx, lagEvery); err != nil {
			return err
		}
	}
}

// refresh brings the view up to date with the node's work document, or waits a little
// where that fails: the caller tries again.
func (r *Runner) refresh(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := r.deps.Documents.RefreshWork(attempt, r.doc.Group, r.doc.Node)
	if err != nil {
		driver.Pause(ctx, time.Second) // an ended context ends the runner anyway
	}
	return err
}

// wroteIt reports whether the bus holds a write of this runner that it was never
// told of, and moves on to that revision.
func (r *Runner) wroteIt() bool {
	w := r.deps.Documents.Work(r.node.UUID)
	if w == nil || w.Doc.ID != r.id || w.Doc.Owner != r.deps.Name || w.Doc.Lease != r.lease || w.Doc.Epoch != r.doc.Epoch || w.Revision <= r.revision {
		return false
	}
	r.revision = w.Revision
	return true
}

// saveEvery is how often heartbeats alone cause a checkpoint.
const saveEvery = 2 * time.Second

// metEvery is how often addresses that a machine is given cause a checkpoint.
const metEvery = 200 * time.Millisecond

// flush takes in heartbeats and phases, and writes a checkpoint where that is due.
func (r *Runner) flush(ctx context.Context) error {
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

// untoldLines bounds what checkpoints carry of phases that wait for an event.
const untoldLines = 16

// takeIn is flush for a caller that writes a checkpoint next. The checkpoint keeps the phases, which the next event tells.
// So steps that follow each other at once do not wait for events of phases.
func (r *Runner) takeIn(ctx context.Context) error {
	_, err := r.absorb(ctx)
	if err == nil && len(r.doc.Checkpoint.Untold) > untoldLines {
		_, err = r.tell(ctx)
	}
	return err
}

// absorb moves the deadline when the agent has answered or got on, takes in the phases and publishes what
// else has been found. due: there is something besides phases that a successor must
// know, or the last checkpoint is old.
func (r *Runner) absorb(ctx context.Context) (due bool, err error) {
	said := r.hear()
	r.mu.Lock()
	phases, beat, heard, agent, inv := r.phases, r.heartbeat || r.replied, r.replied, r.agent, r.inventory
	observed := r.observed
	r.phases, r.inventory, r.replied, r.observed = nil, nil, false, hardware.Observation{}
	known, met := r.doc.Checkpoint.Agent, !slices.Equal(r.doc.Checkpoint.Boot.Addresses, r.boots.Addresses) || r.doc.Checkpoint.Boot.BMC != r.boots.BMC
	first := agent != nil && (known == nil || known.URL != agent.URL || known.VerifyCA != agent.VerifyCA || known.BootID != agent.BootID || known.TokenGiven != agent.TokenGiven)
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
		observed := observed // what is pointed to lies on the heap, and each heartbeat passes here
		e := r.event(work.HardwareObserved)
		e.Hardware = &observed
		if observed.Vendor != "" {
			e.Properties = map[string]any{"vendor": observed.Vendor}
		}
		if err := r.publish(ctx, e); err != nil {
			return false, fmt.Errorf("report the state of the hardware: %w", err)
		}
		r.deps.Conductor.NoteHardware(r.node.UUID, &observed, nil)
	}
	if pause := metEvery - time.Since(r.saved); met && pause > 0 { // strangers may ask DHCP as often as they like
		met = false
		if now := time.Now(); !now.Before(r.wakesAt) {
			r.wakesAt = now.Add(pause)
			time.AfterFunc(pause, r.Nudge)
		}
	}
	return first || met || said || inv != nil || !observed.Empty() || (beat && time.Since(r.saved) > saveEvery), nil
}

// foundDisks is what later boots of the machine are expected to show.
func foundDisks(inv *agentapi.Inventory) (map[string]json.RawMessage, error) {
	known, err := json.Marshal(inv.KnownDisks())
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{node.DisksKey: known}, nil
}
