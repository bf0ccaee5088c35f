package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// An abort comes when the rack has ended the inspection. It "ends as without that and says that the abort came too late"
// (docs/flows.md). So what was found is processed as without it. It is the abort's work that tells of the end.
func TestAnInspectionThatAnAbortIsTooLateForIsProcessed(t *testing.T) {
	f := newFixture(t)
	n, w := f.inspect("n")
	f.follow()
	data := about(w, work.InventoryFound, 1)
	data.Inventory = machine()
	f.publish(data)
	f.drained()
	row := f.node(n.UUID)
	row.Accept(provision.InspectFail, provision.Manageable, time.Now())
	row.AcceptedError = "By request, the inspection operation was aborted"
	abort := storetest.NewWork(row, work.Abort)
	abort.Args = work.Args{Aborts: work.Inspect, Continues: w.ID, Supersedes: w.ID}
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.UpdateNode(ctx, row), tx.EndWork(ctx, w.ID, store.WorkSuperseded, ""), tx.InsertWork(ctx, abort))
	})
	if err != nil {
		t.Fatal(err)
	}
	// What rackd/conductor/runner tells then (finish, tooLate): the result of the inspection, as that of the abort.
	e := about(abort, work.WorkEnded, 1)
	e.State, e.Target, e.Source, e.Error = provision.Manageable, provision.NoState, work.FromRamdisk, "The abort came too late: the inspect had ended."
	f.publish(e)
	f.drained()
	got := f.node(n.UUID)
	if got.ProvisionState != provision.Manageable || got.Properties["cpu_arch"] != "x86_64" || got.InspectionFinished.IsZero() {
		t.Errorf("state %q, error %q, properties %v, inspection finished at %v", got.ProvisionState, got.LastError, got.Properties, got.InspectionFinished)
	}
}
