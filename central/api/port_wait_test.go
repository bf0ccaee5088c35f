package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// While a node's work waits for the machine nobody holds the node, in Ironic as here: its
// ports may come and go. While a rackd works on it they may only come.
func TestPortsWhileWorkWaits(t *testing.T) {
	for state, status := range map[provision.State][2]int{provision.CleanWait: {200, 204}, provision.Cleaning: {409, 409}} {
		changed, removed := status[0], status[1]
		t.Run(string(state), func(t *testing.T) {
			b := newBench(t)
			b.addNode()
			b.move("n1", provision.Manageable, "", nil)
			b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"provide"}`)
			b.observe("n1", func(n *store.Node) {
				n.ObservedState, n.ObservedTarget, n.ObservedGeneration, n.ObservedOwner = state, provision.Available, n.Generation, "rack-1"
			})
			if n := b.node("n1"); n.WorkID == "" || n.ProvisionState != state {
				t.Fatalf("work %q in state %s", n.WorkID, n.ProvisionState)
			}
			made := b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:0f:01"}`)
			group := b.want(201, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"`+nodeID+`","name":"bond0"}`)
			b.want(201, "POST", "/v1/volume/connectors", "1.115", `{"node_uuid":"`+nodeID+`","type":"ip","connector_id":"a"}`)
			for _, path := range []string{"/v1/ports/" + made.object(t)["uuid"].(string), "/v1/portgroups/" + group.object(t)["uuid"].(string)} {
				b.want(changed, "PATCH", path, "1.115", `[{"op":"replace","path":"/extra","value":{"a":1}}]`)
				b.want(removed, "DELETE", path, "1.115", "")
			}
		})
	}
}
