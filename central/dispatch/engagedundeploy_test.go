package dispatch

import (
	"context"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// An undeploy takes the place of a service whose step runs on a child. The rack waits until the child's BMC has ended
// (conductor.await_bmc). Until the undeploy is over nothing else may be asked of the child.
func TestAChildStaysEngagedWhileAnUndeployWaitsForItsBMC(t *testing.T) {
	const child = "99999999-9999-4999-8999-999999999999"
	b := newBench(t)
	b.put(provision.Active, provision.NoState, nil)
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertNode(ctx, &store.Node{UUID: child, Driver: "fake-hardware", ParentNode: node, AcceptedState: provision.Active})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.verb("service", func(p *Provision) {
		p.Steps = []work.Step{{Interface: "firmware", Step: "update", OnChildren: true}}
	}); err != nil {
		t.Fatal(err)
	}
	off := func() error {
		c, err := b.Store.Node(t.Context(), child)
		if err != nil {
			t.Fatal(err)
		}
		return b.Power(t.Context(), Power{Node: c, Target: PowerOff})
	}
	if err := off(); status(err) != http.StatusConflict {
		t.Fatalf("power off of a child beside its parent's service: %v", err)
	}
	err = b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { // the step waits for the child's BMC
		all, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		n := all[node]
		n.Observe(n.Generation)
		n.ObservedEpoch, n.ObservedSeq, n.ObservedState, n.ObservedTarget = 1, 1, provision.ServiceWait, provision.Active
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.verb("deleted", nil); err != nil {
		t.Fatal(err)
	}
	if err := off(); status(err) != http.StatusConflict {
		t.Errorf("power off of the child, whose BMC is at work, beside the undeploy that has taken the service's place: %v", err)
	}
}
