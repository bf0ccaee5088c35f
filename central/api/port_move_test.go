package api

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// revision is that of a node, which moves on with all that belongs to it.
func (b *bench) revision(ident string) int64 { return b.node(ident).Revision }

func moveTo(id string) string {
	return `[{"op":"replace","path":"/node_uuid","value":"` + id + `"}]`
}

// A port goes to another node where Ironic lets it: by the state of the node that it goes to.
func TestPortMoves(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"portgroup_uuid":"`+groupID+`"`)
	const one = "/v1/ports/" + portID
	b.refused(one, []request{
		{400, "PATCH", one, "1.115", moveTo(nobodyID)},
		{400, "PATCH", one, "1.115", moveTo("n2")},
		{400, "PATCH", one, "1.115", moveTo(otherID)}, // its portgroup stays
	})
	b.want(200, "PATCH", one, "1.115", `[{"op":"remove","path":"/portgroup_uuid"}]`)
	b.move("n2", provision.Available, provision.NoState, nil)
	b.refused(one, []request{{409, "PATCH", one, "1.115", `[{"op":"replace","path":"/node_uuid","value":"` + otherID + `"},{"op":"replace","path":"/pxe_enabled","value":false}]`}})
	b.move("n2", provision.Inspecting, provision.Manageable, nil)
	b.refused(one, []request{{409, "PATCH", one, "1.115", moveTo(otherID)}})
	b.move("n2", provision.Enroll, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n2/states/provision", "1.115", `{"target":"manage"}`)
	b.refused(one, []request{{409, "PATCH", one, "1.115", moveTo(otherID)}}) // it is being verified
	b.move("n2", provision.Manageable, provision.NoState, nil)

	from, to := b.revision("n1"), b.revision("n2")
	if got := b.want(200, "PATCH", one, "1.115", moveTo(otherID)).object(t); got["node_uuid"] != otherID || got["address"] != "aa:bb:cc:dd:ee:01" {
		t.Errorf("moved: %v", got)
	}
	if b.revision("n1") == from || b.revision("n2") == to {
		t.Error("the racks are not told of both nodes")
	}
	for node, count := range map[string]int{"n1": 0, "n2": 1} {
		if list := b.want(200, "GET", "/v1/nodes/"+node+"/ports", "1.115", "").object(t)["ports"].([]any); len(list) != count {
			t.Errorf("%s has %d ports, want %d", node, len(list), count)
		}
	}
	b.attach(portID, "vif-1")
	b.refused(one, []request{{409, "PATCH", one, "1.115", moveTo(nodeID)}})
	b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
}

// attach notes a VIF on a port.
func (b *bench) attach(port, vif string) {
	b.t.Helper()
	err := b.store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.Port(ctx, port)
		if err != nil {
			return err
		}
		p.InternalInfo = map[string]any{store.TenantVIF: vif}
		return tx.UpdatePort(ctx, p)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestPortgroupMoves(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"portgroup_uuid":"`+groupID+`"`)
	const one = "/v1/portgroups/" + groupID
	b.refused(one, []request{
		{400, "PATCH", one, "1.115", moveTo(nobodyID)},
		{400, "PATCH", one, "1.115", moveTo(otherID)}, // it has a port
	})
	b.want(204, "DELETE", "/v1/ports/"+portID, "1.115", "")
	b.move("n2", provision.Available, provision.NoState, nil)
	b.refused(one, []request{{409, "PATCH", one, "1.115", moveTo(otherID)}})
	b.move("n2", provision.Available, provision.NoState, func(n *store.Node) { n.SetMaintenance(true, "") })
	from, to := b.revision("n1"), b.revision("n2")
	if got := b.want(200, "PATCH", one, "1.115", moveTo(otherID)).object(t); got["node_uuid"] != otherID {
		t.Errorf("moved: %v", got)
	}
	if b.revision("n1") == from || b.revision("n2") == to {
		t.Error("the revisions of both nodes do not move on")
	}
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(200, "PATCH", one, "1.115", moveTo(nodeID))
}

func TestPartsMoveOnlyToNodesThatTheCallerMayChange(t *testing.T) {
	b := newGuarded(t)
	const lent, mine = "44444444-2222-4333-8444-555555555555", "55555555-2222-4333-8444-555555555555"
	b.wantAs(201, "system "+adminRoles, "POST", "/v1/nodes", `{"uuid":"`+lent+`","driver":"fake-hardware","lessee":"`+ownerProject+`"}`)
	b.wantAs(201, "system "+adminRoles, "POST", "/v1/nodes", `{"uuid":"`+mine+`","driver":"fake-hardware","owner":"`+ownerProject+`"}`)
	for _, path := range []string{"/v1/ports/" + ownPort, "/v1/portgroups/" + ownGroup} {
		b.wantAs(400, ownerProject+" "+adminRoles, "PATCH", path, moveTo(elsewhere)) // not there, for all that they may see
		b.wantAs(400, ownerProject+" "+adminRoles, "PATCH", path, moveTo(lent))      // another's, though lent to them
		b.wantAs(400, "system "+adminRoles, "PATCH", path, moveTo(lent))
		b.wantAs(200, ownerProject+" "+adminRoles, "PATCH", path, moveTo(mine))
	}
	const connector = "/v1/volume/connectors/" + connectorID
	b.wantAs(201, "system "+adminRoles, "POST", "/v1/volume/connectors", `{"uuid":"`+connectorID+`","node_uuid":"`+nodeID+`","type":"iqn","connector_id":"c"}`)
	off := func(n *store.Node) { n.PowerState = "power off" }
	b.observe(nodeID, off)
	b.observe(lent, off)
	b.wantAs(400, ownerProject+" "+adminRoles, "PATCH", connector, moveTo(mine)) // whose power nobody has seen
	b.observe(mine, off)
	b.wantAs(400, ownerProject+" "+adminRoles, "PATCH", connector, moveTo(elsewhere))
	if got := b.wantAs(200, ownerProject+" "+adminRoles, "PATCH", connector, moveTo(mine)).object(t); got["node_uuid"] != mine {
		t.Errorf("moved: %v", got)
	}
}

// A node is named by its UUID or its name, but for volumes. What is none is refused in the same
// words as one that must not be known.
func TestMovesNameTheirNode(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"foreign","driver":"fake-hardware","owner":"others"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", "")
	b.want(201, "POST", "/v1/volume/connectors", "1.115", `{"uuid":"`+connectorID+`","node_uuid":"`+nodeID+`","type":"iqn","connector_id":"c"}`)
	const port, group, connector = "/v1/ports/" + portID, "/v1/portgroups/" + groupID, "/v1/volume/connectors/" + connectorID
	for value, shown := range map[string]string{`"none-such"`: "none-such", `"` + nobodyID + `"`: nobodyID, `"foreign"`: "foreign", `""`: "", "1": "1", "null": "None", `["n2"]`: "['n2']"} {
		body := `[{"op":"replace","path":"/node_uuid","value":` + value + `}]`
		for _, path := range []string{port, group} {
			b.refuse([]string{path}, refusal{"PATCH", path, "1.115", body, 400, "Unable to apply the requested node_uuid '" + shown + "'. Requested value was invalid."})
		}
		want := "Expected a UUID for node_uuid, but received " + shown + "."
		if shown == nobodyID {
			want = "Unable to apply the requested node_uuid '" + shown + "'. Requested value was invalid."
		}
		b.refuse([]string{connector}, refusal{"PATCH", connector, "1.115", body, 400, want})
	}
	b.refuse([]string{connector}, refusal{"PATCH", connector, "1.115", moveTo("n2"), 400, "Expected a UUID for node_uuid, but received n2."})
	for value, shown := range map[string]string{`"bond"`: "bond", "1": "1"} {
		b.refuse([]string{port}, refusal{"PATCH", port, "1.115", `[{"op":"replace","path":"/portgroup_uuid","value":` + value + `}]`, 400, "Portgroup " + shown + " could not be found."})
	}
	for _, path := range []string{port, group} {
		for _, name := range []string{"n1", "n2"} {
			if got := b.want(200, "PATCH", path, "1.115", moveTo(name)).object(t); got["node_uuid"] != b.node(name).UUID {
				t.Errorf("%s moved to %s: %v", path, name, got)
			}
		}
	}
}

// Only a new port has to be complete to be a smart NIC's, as in Ironic.
func TestPortBecomesASmartNICs(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const link = `"local_link_connection":{"port_id":"1","switch_id":"aa:bb:cc:dd:ee:ff"}`
	b.want(400, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"aa:bb:cc:dd:ee:02","is_smartnic":true,`+link+`}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", ","+link)
	if got := b.want(200, "PATCH", "/v1/ports/"+portID, "1.115", `[{"op":"replace","path":"/is_smartnic","value":true}]`).object(t); got["is_smartnic"] != true {
		t.Errorf("port: %v", got)
	}
}
