package api

import (
	"context"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

const allocationID = "ffffffff-2222-4333-8444-555555555555"

// addFree creates the usual node, ready to be allocated.
func (b *bench) addFree(traits ...string) {
	b.t.Helper()
	b.addNode()
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/resource_class","value":"small"}]`)
	for _, trait := range traits {
		b.want(204, "PUT", "/v1/nodes/n1/traits/"+trait, "1.115", "")
	}
	b.move("n1", provision.Available, provision.NoState, nil)
	err := b.store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, "n1")
		if err != nil {
			return err
		}
		n.PowerState = "power off"
		return tx.UpdateObservation(ctx, n)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestAllocations follows an allocation from its creation to its end.
func TestAllocations(t *testing.T) {
	b := newBench(t)
	b.addFree("CUSTOM_A")
	made := b.want(201, "POST", "/v1/allocations", "1.60", `{"uuid":"`+allocationID+`","name":"web","resource_class":"small",
		"traits":["CUSTOM_A"],"candidate_nodes":["n1"],"extra":{"a":1}}`)
	if got, want := made.Header.Get("Location"), "http://ironyard.example:6385/v1/allocations/"+allocationID; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	golden(t, "allocation-made@1.60", made.body)
	versions := []string{"1.1", "1.51", "1.52", "1.89", "1.115"}
	b.goldens(t, "allocations", "/v1/allocations", versions...)
	b.goldens(t, "allocation", "/v1/allocations/web", versions...)
	b.goldens(t, "node-allocation", "/v1/nodes/n1/allocation", versions...)
	n := b.want(200, "GET", "/v1/nodes/n1", "1.52", "").object(t)
	if n["instance_uuid"] != allocationID || n["allocation_uuid"] != allocationID {
		t.Errorf("node %v", n)
	}
	for query, want := range map[string]int{"node=n1": 1, "resource_class=small": 1, "resource_class=large": 0, "state=active": 1, "state=error": 0, "owner=x": 0} {
		if list := b.want(200, "GET", "/v1/allocations?"+query, "1.60", "").object(t)["allocations"].([]any); len(list) != want {
			t.Errorf("%s: %d allocations, want %d", query, len(list), want)
		}
	}
	changed := b.want(200, "PATCH", "/v1/allocations/web", "1.57", `[{"op":"replace","path":"/name","value":"db"},{"op":"add","path":"/extra/b","value":2}]`).object(t)
	if changed["name"] != "db" || changed["state"] != "active" || changed["updated_at"] == nil {
		t.Errorf("changed allocation: %v", changed)
	}
	b.want(204, "DELETE", "/v1/allocations/db", "1.52", "")
	b.want(404, "GET", "/v1/allocations/"+allocationID, "1.52", "")
	if n := b.want(200, "GET", "/v1/nodes/n1", "1.52", "").object(t); n["instance_uuid"] != nil || n["allocation_uuid"] != nil {
		t.Errorf("freed node %v", n)
	}
}

// TestAllocationRefusals holds what is refused, and that it changes nothing.
func TestAllocationRefusals(t *testing.T) {
	b := newBench(t)
	b.addFree()
	b.want(201, "POST", "/v1/allocations", "1.52", `{"name":"web","resource_class":"small"}`)
	const all, one = "/v1/allocations", "/v1/allocations/web"
	b.refuse([]string{all, "/v1/nodes/n1"},
		refusal{"GET", all, "1.51", "", 404, ""},
		refusal{"POST", all, "1.51", `{"resource_class":"small"}`, 405, ""},
		refusal{"DELETE", one, "1.51", "", 405, ""},
		refusal{"PATCH", one, "1.56", `[]`, 405, ""},
		refusal{"GET", "/v1/nodes/n1/allocation", "1.51", "", 404, ""},
		refusal{"DELETE", "/v1/nodes/n1/allocation", "1.51", "", 404, ""},
		refusal{"POST", all, "1.52", `{"name":"x"}`, 400, "resource_class field is mandatory"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","name":"web"}`, 409, "name web already exists"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","name":"not valid"}`, 400, "Cannot create allocation with invalid name 'not valid'"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","uuid":"x"}`, 400, "Expected UUID for uuid: x"},
		refusal{"POST", all, "1.52", `{"resource_class":"` + strings.Repeat("x", 81) + `"}`, 400, "is too long"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","traits":["a"]}`, 400, "trait"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","traits":"CUSTOM_A"}`, 400, "array"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","candidate_nodes":["nope"]}`, 400, "Nodes cannot be found: nope"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","candidate_nodes":[7]}`, 400, "string"},
		refusal{"POST", all, "1.52", `{"resource_class":"small","state":"active"}`, 400, "state"},
		refusal{"POST", all, "1.59", `{"resource_class":"small","owner":"p"}`, 406, "owner"},
		refusal{"POST", all, "1.57", `{"node":"n1"}`, 400, "Additional properties are not allowed ('node' was unexpected)"},
		refusal{"POST", all, "1.58", `{"node":"nope"}`, 400, "Node nope could not be found"},
		refusal{"POST", all, "1.58", `{"node":7}`, 400, "node"},
		refusal{"POST", all, "1.58", `{"node":"n1"}`, 409, `must be in the "active" state`},
		refusal{"GET", all + "?owner=p", "1.59", "", 406, "owner"},
		refusal{"GET", all + "?fields=owner", "1.59", "", 400, "'owner' is not one of ['candidate_nodes'"},
		refusal{"GET", all + "?node=nope", "1.60", "", 400, "Node nope could not be found"},
		refusal{"GET", all + "?node=", "1.60", "", 400, "Schema error: '' is not valid under any of the given schemas"},
		refusal{"GET", all + "?marker=web", "1.60", "", 400, "Schema error: 'web' is not a 'uuid'"},
		refusal{"PATCH", all + "/not%20valid", "1.60", `[]`, 400, "Expected a logical name or UUID but received not valid."},
		refusal{"GET", all + "?detail=true", "1.60", "", 400, "detail"},
		refusal{"GET", all + "?sort_key=traits", "1.60", "", 400, "sort"},
		refusal{"PATCH", one, "1.57", `[{"op":"replace","path":"/resource_class","value":"large"}]`, 400, "resource_class"},
		refusal{"PATCH", one, "1.57", `[{"op":"replace","path":"/name","value":"not valid"}]`, 400, "Cannot update allocation with invalid name 'not valid'"},
		refusal{"GET", "/v1/allocations/none", "1.57", "", 404, "Allocation none could not be found"},
		refusal{"DELETE", "/v1/allocations/none", "1.57", "", 404, "Allocation none could not be found"},
		refusal{"GET", "/v1/nodes/none/allocation", "1.57", "", 400, "Node none could not be found"},
		refusal{"DELETE", "/v1/nodes/none/allocation", "1.57", "", 404, "Node none could not be found"},
		refusal{"PATCH", "/v1/nodes/n1", "1.57", `[{"op":"replace","path":"/instance_uuid","value":"` + nodeID + `"}]`, 409, "is associated with instance"},
		refusal{"PATCH", "/v1/nodes/n1", "1.57", `[{"op":"replace","path":"/allocation_uuid","value":"` + nodeID + `"}]`, 400, "allocation_uuid"},
	)
	sortable(b, allocationTable, all, b.want(200, "GET", one, "1.115", "").object(t))
	failed := b.want(201, "POST", all, "1.52", `{"resource_class":"large","name":"none"}`).object(t)
	if failed["state"] != "allocating" {
		t.Errorf("an answer %v", failed)
	}
	failed = b.want(200, "GET", "/v1/allocations/none", "1.52", "").object(t)
	if text, _ := failed["last_error"].(string); failed["state"] != "error" || !strings.Contains(text, "no available nodes match the resource class large") {
		t.Errorf("an allocation that no node suits: %v", failed)
	}
	b.move("n1", provision.Active, provision.NoState, nil)
	b.refuse([]string{all, "/v1/nodes/n1"},
		refusal{"DELETE", one, "1.57", "", 409, "the node is active"},
		refusal{"DELETE", "/v1/nodes/n1/allocation", "1.57", "", 409, "the node is active"},
		refusal{"PATCH", "/v1/nodes/n1", "1.57", `[{"op":"remove","path":"/instance_uuid"}]`, 409, "with an allocation can not have instance_uuid removed unless it is in one of allowed (enroll, inspecting, "},
	)
	b.move("n1", provision.Deploying, provision.Active, nil)
	b.refuse([]string{all, "/v1/nodes/n1"}, refusal{"DELETE", one, "1.57", "", 409, "updates are not allowed"})
}

// TestBackfill gives an allocation to a node that is in use without one.
func TestBackfill(t *testing.T) {
	b := newBench(t)
	b.addFree("CUSTOM_A")
	b.move("n1", provision.Active, provision.NoState, nil)
	b.refuse([]string{"/v1/allocations", "/v1/nodes/n1"},
		refusal{"POST", "/v1/allocations", "1.58", `{"node":"n1","resource_class":"large"}`, 409, "Resource class small does not match"},
		refusal{"POST", "/v1/allocations", "1.58", `{"node":"n1","traits":["CUSTOM_B"]}`, 409, "does not match the requested traits"})
	made := b.want(201, "POST", "/v1/allocations", "1.58", `{"node":"n1","name":"web"}`).object(t)
	if made["state"] != "active" || made["node_uuid"] != nodeID || made["resource_class"] != "small" {
		t.Errorf("backfilled allocation: %v", made)
	}
	b.refuse([]string{"/v1/allocations", "/v1/nodes/n1"},
		refusal{"POST", "/v1/allocations", "1.58", `{"node":"n1","uuid":"` + allocationID + `"}`, 409, "is associated with instance"})
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.58", "")
	b.want(204, "DELETE", "/v1/nodes/n1/allocation", "1.58", "")
	b.want(404, "GET", "/v1/nodes/n1/allocation", "1.58", "")
	b.want(200, "PATCH", "/v1/nodes/n1", "1.58", `[{"op":"add","path":"/instance_uuid","value":"`+allocationID+`"}]`)
	if made := b.want(201, "POST", "/v1/allocations", "1.58", `{"node":"n1"}`).object(t); made["uuid"] != allocationID {
		t.Errorf("a backfilled allocation without a UUID gets %v, want the instance's", made["uuid"])
	}
	// Who forgets the instance forgets the allocation, and so does who deletes the node.
	b.want(200, "PATCH", "/v1/nodes/n1", "1.58", `[{"op":"remove","path":"/instance_uuid"}]`)
	b.want(404, "GET", "/v1/allocations/"+allocationID, "1.58", "")
	b.want(201, "POST", "/v1/allocations", "1.60", `{"node":"n1","owner":"p","uuid":"`+allocationID+`"}`)
	b.refuse([]string{"/v1/nodes/n1"},
		refusal{"PATCH", "/v1/nodes/n1", "1.60", `[{"op":"add","path":"/owner","value":"q"}]`, 409, "allocated to an allocation with an owner"})
	b.want(204, "DELETE", "/v1/nodes/n1", "1.58", "")
	b.want(404, "GET", "/v1/allocations/"+allocationID, "1.58", "")
}
