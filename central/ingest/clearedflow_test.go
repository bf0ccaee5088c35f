package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A call of a vendor's method beside a cleaning, and the abort of one, are works of their own that go on with the undeploy. They tell
// once more that its instance is gone. A VIF that was attached since the undeploy told it stays.
func TestAVIFOfACleaningStaysWhenAnotherWorkGoesOnWithIt(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	f.follow()
	gone := func(w *store.Work, kind work.EventKind, seq uint64, state provision.State) {
		e := about(w, kind, seq)
		e.State, e.ClearInstance = state, true
		f.publish(e)
		f.drained()
	}
	// next accepts a work that goes on with the flow.
	next := func(verb work.Verb, args work.Args) *store.Work {
		row := f.node(n.UUID)
		before := row.WorkID
		row.Accept(row.ProvisionState, row.TargetProvisionState, time.Now())
		w := storetest.NewWork(row, verb)
		w.Args = args
		err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.UpdateNode(ctx, row), tx.EndWork(ctx, before, store.WorkSuperseded, ""), tx.InsertWork(ctx, w))
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	gone(w, work.StateChanged, 1, provision.CleanWait)
	if got := f.node(n.UUID); got.InstanceUUID != "" {
		t.Fatalf("the instance %q stays", got.InstanceUUID)
	}
	port := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:00:00:01", InternalInfo: map[string]any{store.TenantVIF: "next"}}
	if err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertPort(ctx, port) }); err != nil {
		t.Fatal(err)
	}
	vif := func() any {
		p, err := f.store.Port(t.Context(), port.UUID)
		if err != nil {
			t.Fatal(err)
		}
		return p.InternalInfo[store.TenantVIF]
	}
	call := next(work.Delete, work.Args{Change: &work.Change{Vendor: &work.VendorCall{Method: "bmc_reset"}}, Continues: w.ID, Supersedes: w.ID})
	gone(call, work.StateChanged, 1, provision.CleanWait)
	if vif() != "next" {
		t.Errorf("the call has detached the VIF: %v", vif())
	}
	abort := next(work.Abort, work.Args{Aborts: work.Delete, Continues: w.ID, Supersedes: call.ID})
	gone(abort, work.WorkEnded, 1, provision.CleanFail)
	if got := f.node(n.UUID); vif() != "next" || got.ProvisionState != provision.CleanFail {
		t.Errorf("the abort has detached the VIF: %q, %v", got.ProvisionState, vif())
	}
}
