package ingest_test

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// That an instance is gone is told when it is torn down, again after a takeover, and at the end. What is set for the next instance
// in the cleaning between stays.
func TestWhatIsSetInACleaningStays(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	f.follow()
	gone := func(kind work.EventKind, seq uint64, state provision.State) {
		e := about(w, kind, seq)
		e.State, e.ClearInstance = state, true
		f.publish(e)
		f.drained()
	}
	gone(work.StateChanged, 1, provision.Cleaning)
	if got := f.node(n.UUID); got.InstanceUUID != "" {
		t.Fatalf("the instance %q stays", got.InstanceUUID)
	}
	err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		n.InstanceInfo = map[string]any{"image_source": "http://192.0.2.1/next"}
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	gone(work.StateChanged, 2, provision.Cleaning)
	gone(work.WorkEnded, 3, provision.Available)
	if got := f.node(n.UUID); got.InstanceInfo["image_source"] == nil || got.ProvisionState != provision.Available {
		t.Errorf("%q, instance_info %v", got.ProvisionState, got.InstanceInfo)
	}
}
