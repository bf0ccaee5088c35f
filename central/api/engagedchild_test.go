package api

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// While a step of its parent's is to run on a child, the child is driven as it was when that was accepted. A node with work of its own
// refuses such changes with 409. Ironic refuses them by the lock that the step takes of the child.
func TestHowAnEngagedChildIsDrivenStays(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"c1","driver":"fake-hardware","parent_node":"`+nodeID+`"}`)
	b.move("c1", provision.Manageable, provision.NoState, nil)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", provisionPath, "1.115", `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","execute_on_child_nodes":true}]}`)
	if a := b.do("PATCH", "/v1/nodes/c1", "1.115", `[{"op":"add","path":"/driver_info/redfish_address","value":"https://10.0.0.2"}]`); a.StatusCode != 409 {
		t.Errorf("another BMC for the child: status %d, want 409", a.StatusCode)
	}
}
