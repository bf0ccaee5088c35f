package ingest_test

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A rescue that fails takes its password with it, also from the rack's document; one that works keeps it.
func TestThePasswordOfAFailedRescueGoes(t *testing.T) {
	for _, c := range []struct {
		state provision.State
		stays bool
	}{{provision.RescueFail, false}, {provision.Rescue, true}} {
		f := newFixture(t)
		n := storetest.NewNode("n")
		storetest.Insert(t, f.store, n)
		n.Accept(provision.Rescuing, provision.Rescue, time.Now())
		n.InstanceInfo = map[string]any{store.RescuePassword: "sealed", "kept": "v"}
		w := storetest.NewWork(n, work.Rescue)
		if err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
			return tx.InsertWork(ctx, w)
		}); err != nil {
			t.Fatal(err)
		}
		told := make(chan struct{}, 100)
		defer f.store.WatchOutbox(func([]*store.Outbox) { told <- struct{}{} })()
		f.follow()
		e := about(w, work.WorkEnded, 1)
		if e.State = c.state; c.state == provision.RescueFail {
			e.Error = "the agent did not come"
		}
		f.publish(e)
		f.drained()
		got := f.node(n.UUID)
		if there := got.InstanceInfo[store.RescuePassword] != nil; got.ProvisionState != c.state || there != c.stays || got.InstanceInfo["kept"] != "v" {
			t.Errorf("%s: state %q, instance_info %v, want the password there: %v", c.state, got.ProvisionState, got.InstanceInfo, c.stays)
		}
		if len(told) == 0 {
			t.Errorf("%s: the rack is not told", c.state)
		}
	}
}
