package dispatch

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A child's own work has ended at its site, and central has not heard of that, since the link is down. Then a request for power beside that
// work and a step of the parent's on the child must not both be accepted: when the link is back the power goes while firmware is written.
func TestAChildIsNotSwitchedBesideItsOwnWorkAndItsParents(t *testing.T) {
	const child = "99999999-9999-4999-8999-999999999999"
	b := newBench(t)
	b.put(provision.Manageable, provision.NoState, nil)
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		c := &store.Node{UUID: child, Driver: "fake-hardware", ParentNode: node, AcceptedState: provision.ServiceWait, AcceptedTarget: provision.Active, Generation: 1}
		if err := tx.InsertNode(ctx, c); err != nil {
			return err
		}
		return tx.InsertWork(ctx, &store.Work{ID: NewWorkID(), Node: child, Verb: work.Service, State: store.WorkOpen, Generation: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	accepted := b.verb("clean", func(p *Provision) {
		p.Steps = []work.Step{{Interface: "firmware", Step: "update", OnChildren: true}}
	})
	c, err := b.Store.Node(t.Context(), child)
	if err != nil || c.WorkID == "" || c.ProvisionState != provision.ServiceWait {
		t.Fatalf("the child: %v, work %q, state %q", err, c.WorkID, c.ProvisionState)
	}
	if off := b.Power(t.Context(), Power{Node: c, Target: PowerOff}); off == nil && accepted == nil {
		t.Error("a step of the parent's on the child is accepted, and so is power off beside the child's own work")
	}
}
