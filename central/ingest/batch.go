package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// outcome counts what became of the events of a batch.
type outcome struct {
	applied map[work.EventKind]int
	dropped map[dropped]int
	lies    []refusal
	calls   []inspection.Call
	// corrections are power states that machines are to be brought back into, by node.
	corrections map[string]string
}

// placed is an event with its place in the stream of its site.
type placed struct {
	*work.Event
	place uint64
	// stored is when the stream took it in, in nanoseconds since 1970 by the bus's clock.
	stored int64
	// subject and raw are the event as it came.
	subject string
	raw     []byte
}

// replayed reports whether e is part of no work, whose order its own numbers tell, and
// was applied before, by another replica perhaps: then what came after it has been
// applied too, and must not be undone. A bus that has come back from an older copy of its
// disk gives places once more, but later: so an event at a place that was passed is an old
// one only if it was also stored by then. A clock of the bus that is set back does no harm:
// places go on meanwhile.
func (e placed) replayed(n *store.Node, site string) bool {
	return e.Work == "" && n.ObservedSite == site && e.place <= n.ObservedPlace && (n.ObservedStored == 0 || e.stored <= n.ObservedStored)
}

// note remembers in n that e was applied.
func (e placed) note(n *store.Node, site string) {
	if n.ObservedSite != site {
		n.ObservedStored = 0
	}
	n.ObservedSite, n.ObservedPlace, n.ObservedStored = site, e.place, max(n.ObservedStored, e.stored)
}

// Apply applies events, in their order, in one transaction.
func (g *Ingest) apply(ctx context.Context, site string, events []placed) (outcome, error) {
	var out outcome
	err := g.cfg.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = outcome{applied: map[work.EventKind]int{}, dropped: map[dropped]int{}}
		return g.applyBatch(ctx, tx, site, events, &out)
	})
	if err == nil {
		g.cfg.Calls.Make(out.calls)
		g.correct(ctx, out.corrections)
	}
	return out, err
}

func (g *Ingest) applyBatch(ctx context.Context, tx *store.Tx, site string, events []placed, out *outcome) error {
	ids := map[string]bool{}
	var list []string
	for _, e := range events {
		if !ids[e.Node] {
			ids[e.Node] = true
			list = append(list, e.Node)
		}
	}
	nodes, err := tx.Observed(ctx, list)
	if err != nil {
		return err
	}
	fx, changed, of := newEffects(), map[string]bool{}, newFlows()
	fx.records = g.cfg.Correct == nil
	now := tx.Now()
	for _, e := range events {
		e.Event = by(e.Event, now)
		n := nodes[e.Node]
		if n == nil {
			out.dropped[unknownNode]++
			continue
		}
		why := repeated
		if lie := g.disbelieve(n, site, e.Event); lie != nil {
			out.lies = append(out.lies, refusal{e.Event, lie})
			continue
		}
		before, err := of.earlier(ctx, tx, n, e.Event)
		switch {
		case err != nil:
			return err
		case before:
			why = applyEarlier(n, e.Event, fx)
		case !e.replayed(n, site):
			why = apply(n, e.Event, fx)
		}
		if why != applied {
			out.dropped[why]++
			continue
		}
		e.note(n, site)
		out.applied[e.Kind]++
		changed[e.Node] = true
	}
	out.corrections = fx.corrections
	if len(changed) == 0 {
		return nil
	}
	var save []*store.Node
	for _, id := range list { // in the order of the events, alike in each attempt
		if changed[id] {
			save = append(save, nodes[id])
		}
	}
	if err := saveInventories(ctx, tx, fx); err != nil {
		return err
	}
	if out.calls, err = g.judge(ctx, tx, nodes, fx); err != nil {
		return err
	}
	if err := tx.SaveObserved(ctx, save); err != nil {
		return err
	}
	if err := g.applyRare(ctx, tx, fx); err != nil {
		return err
	}
	if err := tx.EndWorks(ctx, fx.ended); err != nil {
		return err
	}
	for _, h := range fx.history {
		h.Revision = nodes[h.Node].Revision
	}
	if err := tx.AppendHistory(ctx, fx.history...); err != nil {
		return err
	}
	var dirty []*store.Outbox
	for _, id := range list {
		if fx.dirty[id] {
			dirty = append(dirty, &store.Outbox{Kind: store.OutboxNode, Node: id, Group: nodes[id].ConductorGroup})
		}
	}
	return tx.Enqueue(ctx, dirty...)
}

// correctWithin bounds the work of making a correction.
const correctWithin = 10 * time.Second

// correct asks for what the events of a batch want of machines. What fails is asked for again when the rackd has read the
// machine once more.
func (g *Ingest) correct(ctx context.Context, corrections map[string]string) {
	for node, power := range corrections {
		asking, cancel := context.WithTimeout(ctx, correctWithin)
		err := g.cfg.Correct(asking, node, power)
		cancel()
		if err != nil && ctx.Err() == nil {
			g.cfg.Log.Warn("a machine is not brought back into its power state", "node", node, "power", power, "error", err)
		}
	}
}

func saveInventories(ctx context.Context, tx *store.Tx, fx *effects) error {
	for node, e := range fx.inventory {
		found := store.Inventory{Data: e.Inventory.Sent, Plugin: e.Inventory.PluginData}
		if len(found.Data) == 0 {
			known := *e.Inventory
			known.PluginData = nil
			var err error
			if found.Data, err = json.Marshal(known); err != nil {
				return contentError{fmt.Errorf("inventory of node %s: %w", node, err)}
			}
		}
		if err := tx.SetInventory(ctx, node, found); err != nil {
			return err
		}
	}
	return nil
}

// applyRare writes what few events carry, one node at a time, whatever the number of
// its events.
func (g *Ingest) applyRare(ctx context.Context, tx *store.Tx, fx *effects) error {
	for id, events := range fx.rare {
		n, err := tx.Node(ctx, id)
		if err != nil {
			return err
		}
		intent, observation, emptied := n.ForgetRescue(), false, false
		for _, e := range events {
			undeploy, err := undeployOf(ctx, tx, e)
			if err != nil {
				return err
			}
			cleared := undeploy != "" && n.DriverInternalInfo[node.ClearedByKey] != undeploy // else it is said again, and the fields are the next one's
			if cleared {
				if err := allocation.Drop(ctx, tx, n); err != nil {
					return err
				}
				if n.InstanceInfo[store.DriveKey] != nil {
					if err := tx.DropConfigDrive(ctx, n.UUID); err != nil {
						return err
					}
				}
				n.ClearInstance()
				for _, key := range []string{node.BootSetKey, node.InstanceFilesKey, node.DeployBootModeKey, node.SecureBootBeforeKey} {
					if n.DriverInternalInfo[key] != nil { // it was the instance's
						delete(n.DriverInternalInfo, key)
						observation = true
					}
				}
				if n.DriverInternalInfo == nil {
					n.DriverInternalInfo = map[string]any{}
				}
				n.DriverInternalInfo[node.ClearedByKey] = undeploy
				emptied, observation = true, true
			}
			if n.Properties == nil && len(e.Properties) > 0 {
				n.Properties = map[string]any{}
			}
			maps.Copy(n.Properties, e.Properties)
			changed, err := mergeInternal(n, e.Internal)
			if err != nil {
				return err
			}
			if changed || len(e.Properties) > 0 {
				if err := roomFor(n); err != nil {
					return err
				}
			}
			replaced, err := g.replaceSecrets(n, e, fx)
			if err != nil {
				return err
			}
			fx.dirty[id] = fx.dirty[id] || changed || replaced
			if e.Hardware != nil {
				if err := observe(ctx, tx, n, e.Hardware); err != nil {
					return err
				}
			}
			intent = intent || cleared || len(e.Properties) > 0 || replaced
			observation = observation || changed || e.Hardware != nil
		}
		if intent {
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
		}
		if observation {
			if err := tx.UpdateObservation(ctx, n); err != nil {
				return err
			}
		}
		if emptied { // last: it moves the node's revision on
			if err := tx.DetachVIFs(ctx, n.UUID); err != nil {
				return err
			}
		}
	}
	return nil
}

// undeployOf is the work with which the undeploy began that takes an instance off a node, as e says; empty: e says no such thing. A change
// of the machine beside its cleaning, and an abort, go on with it and say that once more.
func undeployOf(ctx context.Context, tx *store.Tx, e *work.Event) (string, error) {
	if !e.ClearInstance {
		return "", nil
	}
	w, err := tx.Work(ctx, e.Work)
	if err = orNone(err); err != nil || w == nil {
		return e.Work, err
	}
	return cmp.Or(w.Args.Continues, e.Work), nil
}

// mergeInternal merges changes into driver_internal_info; null removes a key. It reports whether anything is
// otherwise then.
func mergeInternal(n *store.Node, changes map[string]json.RawMessage) (changed bool, err error) {
	if n.DriverInternalInfo == nil {
		n.DriverInternalInfo = map[string]any{}
	}
	for k, raw := range changes {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return changed, contentError{fmt.Errorf("driver_internal_info %s of node %s: %w", k, n.UUID, err)}
		}
		changed = changed || !reflect.DeepEqual(n.DriverInternalInfo[k], v)
		if v == nil {
			delete(n.DriverInternalInfo, k)
			continue
		}
		n.DriverInternalInfo[k] = v
	}
	return changed, nil
}

// maxEvent bounds an event: an inventory of a large machine has some 100 kB.
const maxEvent = 1 << 20

// parse reads an event that was published at a subject.
func parse(subject string, data []byte) (*work.Event, error) {
	if len(data) > maxEvent {
		return nil, fmt.Errorf("event has %d bytes, more than %d", len(data), maxEvent)
	}
	e, err := bus.ReadEvent(subject, withoutNUL(data))
	if err != nil {
		return nil, err
	}
	switch {
	case e.Kind == "":
		return nil, errors.New("event has no kind")
	case e.Time.IsZero():
		return nil, errors.New("event has no time")
	case (e.Kind == work.StateChanged || e.Kind == work.WorkEnded || e.Kind == work.ErrandEnded) && (e.Work == "" || e.State == ""):
		return nil, fmt.Errorf("event %q names no work or no state", e.Kind)
	}
	if e.Epoch > 1<<62 || e.Seq > 1<<62 {
		return nil, errors.New("event has an impossible epoch or sequence number")
	}
	err = bounded(e)
	e.Cut() // an honest rackd has done so
	return e, err
}

// withoutNUL puts the replacement character in place of the NUL characters in the texts of JSON: what a BMC or a
// ramdisk says may hold some, and PostgreSQL takes no such text, so that the event would hold up all behind it.
func withoutNUL(text []byte) []byte {
	const nul, instead = `\u0000`, `\ufffd`
	if !bytes.Contains(text, []byte(nul)) {
		return text
	}
	out := bytes.Clone(text)
	for i := 0; i < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(out[i:], []byte(nul)) {
			copy(out[i:], instead)
		}
		i++ // what is escaped is no backslash that escapes
	}
	return out
}
