package api

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A rackd reboots a machine beside a service that holds: it is off in between. Until the end of that is told, a rackd works on the
// node. A DELETE must not take the work from the rackd in the middle. Ironic answers that the node is locked. Once the reboot has
// ended it is accepted, as docs/flows.md says of a flow that is held.
func TestDeleteWaitsForARebootBesideAHold(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Active, provision.NoState, nil)
	b.want(202, "PUT", provisionPath, "1.115", `{"target":"service","service_steps":[{"interface":"power","step":"hold"}]}`)
	told := func(change func(n *store.Node)) {
		t.Helper()
		err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.Observed(ctx, []string{nodeID})
			if err != nil {
				return err
			}
			n := all[nodeID]
			n.Observe(n.Generation)
			n.ObservedEpoch, n.ObservedSeq, n.ObservedOwner, n.ObservedState, n.ObservedTarget = 1, 1, "rack-1", provision.ServiceHold, provision.Active
			if change != nil {
				change(n)
			}
			return tx.SaveObserved(ctx, []*store.Node{n})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	told(nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"rebooting"}`)
	told(nil) // the rackd has taken it
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{}`)
	b.want(409, "PUT", provisionPath, "1.115", `{"target":"unhold"}`) // so it is of what goes on with the flow
	if a := b.do("DELETE", "/v1/nodes/n1", "1.115", ""); a.StatusCode != 409 {
		t.Errorf("DELETE while %q is under way: status %d, want 409", "rebooting", a.StatusCode)
	}
}
