package ingest_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A rack says every five minutes in which state its work is. The node has entered nothing then: the history gets no line,
// why an errand had failed stays, and no rack is told of the node. Power and the step are taken in; what differs is too.
func TestAStateThatIsSaidAgain(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	told := make(chan struct{}, 100)
	defer f.store.WatchOutbox(func([]*store.Outbox) { told <- struct{}{} })()
	f.follow()
	list := func(at string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"deploy_steps": json.RawMessage(`[{"step":"hold"}]`), "deploy_step_index": json.RawMessage(at)}
	}
	held := func(seq uint64, at string) work.Event {
		e := about(w, work.StateChanged, seq)
		e.State, e.Target, e.Step, e.Internal = provision.DeployHold, provision.Active, "deploy.hold", list(at)
		return e
	}
	f.publish(held(1, "0"))
	errand := about(w, work.ErrandEnded, 2)
	errand.State, errand.Target, errand.Error = provision.DeployHold, provision.Active, "the vendor's method failed"
	f.publish(errand)
	f.drained()
	before := f.node(n.UUID)
	for len(told) > 0 {
		<-told
	}
	for seq := range uint64(3) {
		said := errand
		said.Seq, said.Time = 3+2*seq, said.Time.Add(time.Duration(seq+1)*5*time.Minute)
		f.publish(said)
		e := held(4+2*seq, "0")
		e.Time, e.Power = e.Time.Add(time.Duration(seq+1)*5*time.Minute), "power on"
		f.publish(e)
	}
	f.drained()
	got := f.node(n.UUID)
	if got.LastError != "the vendor's method failed" || !got.ProvisionUpdatedAt.Equal(before.ProvisionUpdatedAt) || got.ObservedSeq != 8 || got.PowerState != "power on" {
		t.Errorf("last_error %q, since %s (%s before), event %d, %q", got.LastError, got.ProvisionUpdatedAt, before.ProvisionUpdatedAt, got.ObservedSeq, got.PowerState)
	}
	lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	if err != nil || len(lines) != 2 {
		t.Errorf("%d lines of history, want 2 (%v)", len(lines), err)
	}
	if len(told) != 0 {
		t.Errorf("the rack was told %d times of what it said", len(told))
	}
	f.publish(held(9, "1"))
	next := held(10, "1")
	next.State = provision.DeployWait
	f.publish(next)
	f.drained()
	if got := f.node(n.UUID); got.DriverInternalInfo["deploy_step_index"] != 1.0 || got.ProvisionState != provision.DeployWait || got.LastError != "" {
		t.Errorf("index %v, state %q, last_error %q", got.DriverInternalInfo["deploy_step_index"], got.ProvisionState, got.LastError)
	}
}

// A replica dies between its claim of a work and the work's document. Relay writes the document again, and its rows name the epoch
// first (relay.void). The first rackd that takes the work tells something new then, whatever state the node is in.
func TestAStateAfterALostClaim(t *testing.T) {
	f := newFixture(t)
	n, first := f.deploy("n")
	before := about(first, work.WorkEnded, 1)
	before.State, before.Rackd = provision.Active, "rack-before"
	f.follow()
	f.publish(before)
	f.drained()
	n = f.node(n.UUID)
	n.AcceptPower("power on", time.Now())
	w := storetest.NewWork(n, work.Power)
	err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.InsertWork(ctx, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		nodes, err := tx.Observed(ctx, []string{n.UUID})
		if err != nil {
			return err
		}
		row := nodes[n.UUID]
		row.Observe(w.Generation)
		row.ObservedEpoch, row.ObservedSeq = 2*work.LostEpochs, 0
		return tx.SaveObserved(ctx, []*store.Node{row})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.node(n.UUID); got.Reservation == "rack-before" {
		t.Errorf("the work that nobody has taken is reserved by %q, who had the one before", got.Reservation)
	}
	for seq := range uint64(2) {
		e := about(w, work.StateChanged, 1+seq)
		e.Epoch, e.State, e.Rackd = 2*work.LostEpochs+1, provision.Active, "rack-1"
		f.publish(e)
	}
	f.drained()
	lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID, Work: w.ID})
	if err != nil || len(lines) != 1 || lines[0].Conductor != "rack-1" {
		t.Errorf("%d lines of history (%v), want the one that rack-1 has the work", len(lines), err)
	}
	if got := f.node(n.UUID); got.Reservation != "rack-1" {
		t.Errorf("reserved by %q", got.Reservation)
	}
}
