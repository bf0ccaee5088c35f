package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// beside accepts a request beside the node's flow: another work takes the place of w, and goes on with its flow.
func (f *fixture) beside(w *store.Work) *store.Work {
	f.Helper()
	n := f.node(w.Node)
	n.Accept(provision.InspectWait, provision.Manageable, time.Now())
	next := storetest.NewWork(n, w.Verb)
	if next.Args = w.Args; next.Args.Continues == "" {
		next.Args.Continues = w.ID
	}
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.UpdateNode(ctx, n), tx.EndWork(ctx, w.ID, store.WorkSuperseded, ""), tx.InsertWork(ctx, next))
	})
	if err != nil {
		f.Fatal(err)
	}
	return next
}

// found is an event of w by which the rack tells that the machine has so many processors.
func found(w *store.Work, epoch, seq uint64, processors int) work.Event {
	e := about(w, work.InventoryFound, seq)
	e.ID, e.Epoch = work.EventID(w.ID, epoch, seq), epoch
	e.Inventory = machine()
	e.Inventory.CPU.Count = processors
	return e
}

// What a rack finds before it hears of a request beside its flow counts: the work that goes on with the flow ends without
// finding it again. An earlier flow's does not, nor what is read again, nor what an owner of before says late.
func TestWhatIsFoundBeforeARequestBesideTheFlow(t *testing.T) {
	processors := func(f *fixture, n *store.Node) string {
		inv, err := f.store.Inventory(f.Context(), n.UUID)
		if errors.Is(err, store.ErrNotFound) {
			return "none"
		}
		var seen agentapi.Inventory
		if err := errors.Join(err, json.Unmarshal(inv.Data, &seen)); err != nil {
			f.Fatal(err)
		}
		return strings.Repeat("|", seen.CPU.Count)
	}
	f := newFixture(t)
	n, old := f.inspect("n")
	f.follow()
	ended := about(old, work.WorkEnded, 2)
	ended.State = provision.Manageable
	f.publish(found(old, 1, 1, 1))
	f.publish(ended)
	f.drained()

	first := f.inspectAgain(n.UUID)
	waiting := about(first, work.StateChanged, 1)
	waiting.State, waiting.Target = provision.InspectWait, provision.Manageable
	f.publish(waiting)
	f.drained()
	second := f.beside(first)
	observed := about(first, work.HardwareObserved, 3)
	observed.Hardware = &hardware.Observation{RAID: map[string]any{"logical_disks": []any{}}}
	wrong := about(first, work.WorkEnded, 4)
	wrong.State, wrong.Error = provision.InspectFail, "of a work that is over"
	for _, e := range []work.Event{found(first, 1, 2, 2), found(old, 9, 9, 7), observed, wrong} {
		f.publish(e)
	}
	f.drained()
	if got := f.node(n.UUID); processors(f, n) != "||" || got.RAIDConfig == nil || got.ProvisionState != provision.InspectWait || got.WorkID != second.ID || got.LastError != "" {
		t.Errorf("of the work before: %s processors, RAID %v, state %q, work %q, last_error %q", processors(f, n), got.RAIDConfig, got.ProvisionState, got.WorkID, got.LastError)
	}

	third := f.beside(second) // and once more, so that the second is neither open nor the root
	f.publish(found(second, 3, 1, 3))
	f.drained()
	if got := processors(f, n); got != "|||" {
		t.Errorf("of a sibling: %s processors", got)
	}
	again := found(first, 1, 2, 2)
	again.ID += " read again"
	late := found(first, 1, 5, 5)
	for _, e := range []work.Event{again, late, found(third, 4, 1, 4)} {
		f.publish(e)
	}
	f.drained()
	if got := processors(f, n); got != "||||" {
		t.Errorf("of the open work: %s processors", got)
	}
	late = found(second, 3, 9, 9)
	last := about(third, work.WorkEnded, 2)
	last.ID, last.Epoch, last.State = work.EventID(third.ID, 4, 2), 4, provision.Manageable
	f.publish(late)
	f.publish(last)
	f.publish(found(first, 1, 9, 9))
	f.drained()
	if got := f.node(n.UUID); processors(f, n) != "||||" || got.ProvisionState != provision.Manageable || got.LastError != "" || got.InspectionFinished.IsZero() {
		t.Errorf("in the end: %s processors, state %q, %q", processors(f, n), got.ProvisionState, got.LastError)
	}
}
