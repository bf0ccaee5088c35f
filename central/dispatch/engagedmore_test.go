package dispatch

import (
	"context"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The abort of a service that has failed in the ramdisk switches the machine off and on. It is new work of a node that had none: it must
// wait for a step of the parent's that runs on the node.
func TestAbortOfAFailedServiceOfAnEngagedChild(t *testing.T) {
	const parent = "99999999-9999-4999-8999-999999999999"
	b := newBench(t)
	b.put(provision.ServiceFail, provision.Active, func(n *store.Node) { n.ParentNode = parent })
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		n.DriverInternalInfo = map[string]any{work.ServiceRamdisk: true}
		if err := tx.UpdateObservation(ctx, n); err != nil {
			return err
		}
		if err := tx.InsertNode(ctx, &store.Node{UUID: parent, Driver: "fake-hardware", AcceptedState: provision.Cleaning}); err != nil {
			return err
		}
		return tx.InsertWork(ctx, &store.Work{ID: NewWorkID(), Node: parent, Verb: work.Clean, State: store.WorkOpen, Generation: 1,
			Args: work.Args{Steps: []work.Step{{Interface: "firmware", Step: "update", OnChildren: true, Children: []string{node}}}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.verb("abort", nil)
	if n := b.node(); status(err) != http.StatusConflict || n.WorkID != "" {
		t.Errorf("the abort is accepted while firmware.update of the parent runs on the child: error %v, work %q (%q)", err, n.WorkID, n.WorkVerb)
	}
}
