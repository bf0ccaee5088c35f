package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

const thirdID = "33333333-2222-4333-8444-555555555555"

// TestChildren holds that nodes may lie in nodes, never in themselves.
func TestChildren(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware","parent_node":"`+nodeID+`","shard":"s1"}`)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+thirdID+`","name":"n3","driver":"fake-hardware","parent_node":"`+otherID+`","shard":"s1"}`)
	for _, version := range []string{"1.1", "1.82", "1.83", "1.89", "1.115"} {
		golden(t, "children@"+version, b.do("GET", "/v1/nodes/n1/children", version, "").body)
	}
	for _, version := range []string{"1.1", "1.81", "1.82", "1.89", "1.115"} {
		golden(t, "shards@"+version, b.do("GET", "/v1/shards", version, "").body)
	}
	for query, want := range map[string]int{"": 1, "?include_children=true": 3, "?parent_node=" + nodeID: 1, "?parent_node=" + thirdID: 0, "?include_children=true&parent_node=" + nodeID: 3,
		"?include_children=true&shard=s1": 2, "?include_children=true&sharded=false": 1, "?include_children=true&shard=s2,s3": 0,
		"?shard=": 0, "?include_children=true&shard=%20s1%20,s2": 2, "?include_children=true&shard=s1,": 2} {
		if list := b.want(200, "GET", "/v1/nodes"+query, "1.115", "").object(t)["nodes"].([]any); len(list) != want {
			t.Errorf("%s: %d nodes, want %d", query, len(list), want)
		}
	}
	parent := func(id string) string { return `[{"op":"replace","path":"/parent_node","value":"` + id + `"}]` }
	b.refused("/v1/nodes/n1", []request{
		{400, "PATCH", "/v1/nodes/n1", "1.115", parent(nodeID)},
		{400, "PATCH", "/v1/nodes/n1", "1.115", parent(thirdID)},
		{400, "PATCH", "/v1/nodes/n1", "1.115", parent(nobodyID)},
		{400, "PATCH", "/v1/nodes/n1", "1.115", parent("n2")},
		{406, "PATCH", "/v1/nodes/n1", "1.82", parent(otherID)},
		{406, "GET", "/v1/nodes?parent_node=" + nodeID, "1.82", ""},
		{406, "GET", "/v1/nodes?sharded=true", "1.81", ""},
		{400, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","parent_node":"` + nobodyID + `"}`},
		{404, "GET", "/v1/shards/s1", "1.115", ""},
		{404, "GET", "/v1/shards", "1.81", ""},
		{404, "GET", "/v1/nodes/nowhere/children", "1.115", ""},
		{400, "GET", "/v1/shards?limit=1", "1.115", ""},
		{405, "POST", "/v1/shards", "1.115", `{}`},
	})
	b.want(200, "PATCH", "/v1/nodes/n2", "1.115", `[{"op":"remove","path":"/parent_node"}]`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", parent(thirdID))
	// Who owns the node before the request is what counts, and only a removal takes a parent away.
	owned := `[{"op":"replace","path":"/owner","value":"o"},{"op":"replace","path":"/parent_node","value":"` + thirdID + `"}]`
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", owned)
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", owned)
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/parent_node","value":null}]`)
	if shown := b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t); shown["parent_node"] != thirdID {
		t.Errorf("a PATCH that is refused has changed the parent to %v", shown["parent_node"])
	}
}

// TestChassisOfNodes holds the rules for a node's chassis_uuid.
func TestChassisOfNodes(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/chassis", "1.1", `{"uuid":"`+chassisID+`"}`)
	set := func(id string) string { return `[{"op":"add","path":"/chassis_uuid","value":"` + id + `"}]` }
	b.refused("/v1/nodes/n1", []request{
		{400, "PATCH", "/v1/nodes/n1", "1.115", set(nobodyID)},
		{400, "PATCH", "/v1/nodes/n1", "1.115", set("row")},
		{400, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","chassis_uuid":"` + nobodyID + `"}`},
		{404, "GET", "/v1/nodes?chassis_uuid=" + nobodyID, "1.115", ""},
	})
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", set(chassisID))
	for _, path := range []string{"/v1/nodes?chassis_uuid=" + chassisID, "/v1/chassis/" + chassisID + "/nodes", "/v1/chassis/" + chassisID + "/nodes/detail"} {
		if list := b.want(200, "GET", path, "1.115", "").object(t)["nodes"].([]any); len(list) != 1 {
			t.Errorf("%s: %d nodes, want 1", path, len(list))
		}
	}
	b.refused("/v1/nodes/n1", []request{
		{406, "PATCH", "/v1/nodes/n1", "1.24", `[{"op":"remove","path":"/chassis_uuid"}]`},
		{400, "DELETE", "/v1/chassis/" + chassisID, "1.115", ""},
	})
	b.want(200, "PATCH", "/v1/nodes/n1", "1.25", `[{"op":"remove","path":"/chassis_uuid"}]`)
	b.want(204, "DELETE", "/v1/chassis/"+chassisID, "1.115", "")
}

func TestNetworkData(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const link = `{"id":"eth0","type":"phy","ethernet_mac_address":"aa:bb:cc:dd:ee:01","mtu":1500}`
	const whole = `{"links":[` + link + `,{"id":"bond0","type":"bond","ethernet_mac_address":"aa-bb-cc-dd-ee-02","bond_mode":"802.1ad","bond_links":["eth0"]},
		{"id":"v","type":"vlan","vlan_mac_address":"aa:bb:cc:dd:ee:03","vlan_link":"eth0","vlan_id":7}],
		"networks":[{"id":"n4","type":"ipv4","link":"eth0","network_id":"x","ip_address":"192.0.2.7","netmask":"255.255.255.0",
			"routes":[{"network":"0.0.0.0","netmask":"0.0.0.0","gateway":"192.0.2.1"}]},
			{"id":"n6","type":"ipv6","link":"v","network_id":"y","ip_address":"2001:db8::7/64","netmask":"ffff:ffff:ffff:ffff::"},
			{"id":"auto","type":"ipv6_slaac","link":"v","network_id":"z"}],
		"services":[{"type":"dns","address":"2001:db8::1"},{"type":"dns","address":"192.0.2.53"}]}`
	put := func(data string) string { return `[{"op":"replace","path":"/network_data","value":` + data + `}]` }
	b.want(200, "PATCH", "/v1/nodes/n1", "1.66", put(whole))
	b.want(200, "PATCH", "/v1/nodes/n1", "1.66", put(strings.Replace(whole, "802.1ad", "802.3ad", 1)))
	refused := []request{{406, "PATCH", "/v1/nodes/n1", "1.65", put(whole)}}
	for _, data := range []string{`[]`, `{"links":[]}`, `{"links":{},"networks":[],"services":[]}`, `{"links":["x"],"networks":[],"services":[]}`} {
		refused = append(refused, request{400, "PATCH", "/v1/nodes/n1", "1.66", put(data)})
	}
	for old, bad := range map[string]string{`"phy"`: `"wire"`, `"aa:bb:cc:dd:ee:01"`: `"aa"`, "1500": "70000", `"802.1ad"`: `"fast"`, `["eth0"]`: `[1]`, `"vlan_id":7`: `"vlan_id":"7"`,
		`"ipv4"`: `"ip"`, `"192.0.2.7"`: `"2001:db8::7"`, `"2001:db8::7/64"`: `"192.0.2.7"`, `"gateway":"192.0.2.1"`: `"gateway":"x"`, `"dns"`: `"ntp"`, `"network_id":"z"`: `"network":"z"`} {
		if !strings.Contains(whole, old) {
			t.Fatalf("%s is not in the data", old)
		}
		refused = append(refused, request{400, "PATCH", "/v1/nodes/n1", "1.66", put(strings.Replace(whole, old, bad, 1))})
	}
	b.refused("/v1/nodes/n1", refused)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.66", `[{"op":"remove","path":"/network_data"}]`)
}

func TestEvents(t *testing.T) {
	b := newBench(t)
	b.addNode()
	event := func(change ...string) string {
		return `{"events":[` + strings.NewReplacer(change...).Replace(`{"event":"network.bind_port","port_id":"`+portID+`","mac_address":"aa:bb:cc:dd:ee:01","status":"ACTIVE",
			"device_id":"`+nodeID+`","binding:host_id":null,"binding:vnic_type":"baremetal"}`) + `]}`
	}
	b.want(204, "POST", "/v1/events", "1.54", event())
	if log := b.log.String(); !strings.Contains(log, "network.bind_port") || !strings.Contains(log, portID) {
		t.Errorf("the log does not tell of the event: %s", log)
	}
	b.refused("/v1/nodes/n1", []request{
		{404, "POST", "/v1/events", "1.53", event()},
		{405, "GET", "/v1/events", "1.53", ""},
		{404, "PUT", "/v1/volume/targets", "1.31", `{}`},
		{405, "GET", "/v1/events", "1.54", ""},
		{400, "POST", "/v1/events", "1.54", `{}`},
		{400, "POST", "/v1/events", "1.54", `{"events":[]}`},
		{400, "POST", "/v1/events", "1.54", `{"events":[7]}`},
		{400, "POST", "/v1/events", "1.54", event("network.bind_port", "network.bind")},
		{400, "POST", "/v1/events", "1.54", event(portID, "port")},
		{400, "POST", "/v1/events", "1.54", event("aa:bb", "aa:b")},
		{400, "POST", "/v1/events", "1.54", event(`"status":"ACTIVE",`, "")},
		{400, "POST", "/v1/events", "1.54", event("device_id", "device")},
	})
}

// Who has changed a node without giving a rack work is in its history, as is who has; what
// was refused is not, and a node that nobody has touched has none.
func TestHistoryNamesWhoChangedFields(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const path = "/v1/nodes/n1/history"
	if got := b.want(200, "GET", path, "1.115", "").body; got != `{"history":[]}` {
		t.Errorf("a new node has the history %s", got)
	}
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/description","value":"x"}]`)
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/nonesuch","value":"x"}]`)
	b.want(204, "PUT", "/v1/nodes/n1/traits/CUSTOM_A", "1.115", "")
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{"reason":"fan"}`)
	b.want(204, "PUT", "/v1/nodes/n1/management/boot_device", "1.115", `{"boot_device":"disk"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:77:01"}`)
	var got []string
	for next := path + "?detail=true&limit=2"; next != ""; {
		page := b.want(200, "GET", next, "1.115", "").object(t)
		for _, entry := range page["history"].([]any) {
			e := entry.(map[string]any)
			got = append(got, fmt.Sprint(e["event_type"], " ", e["severity"], " ", e["user"], " ", e["conductor"]))
			b.want(200, "GET", path+"/"+e["uuid"].(string), "1.78", "")
		}
		next, _ = page["next"].(string)
		next = strings.TrimPrefix(next, "http://ironyard.example:6385")
	}
	want := []string{"update", "traits:set", "set_maintenance", "set_boot_device", "port:create"}
	for i := range want {
		want[i] += " INFO <nil> <nil>"
	}
	if !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

func TestHistoryFields(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move(nodeID, provision.Available, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	list, err := b.store.History(t.Context(), store.HistoryQuery{Node: nodeID})
	if err != nil || len(list) != 1 {
		t.Fatalf("history %v, error %v", list, err)
	}
	path := "/v1/nodes/n1/history"
	for _, version := range []string{"1.1", "1.77", "1.78", "1.89", "1.113", "1.115"} {
		golden(t, "history-entry@"+version, b.do("GET", path+"/"+list[0].UUID, version, "").body)
		golden(t, "history-detail@"+version, b.do("GET", path+"?detail=true", version, "").body)
	}
	b.refused("/v1/nodes/n1", []request{
		{404, "GET", path + "/" + nobodyID, "1.78", ""},
		{400, "GET", path + "/x@y", "1.78", ""},
		{404, "GET", path + "/x", "1.78", ""},
		{404, "GET", path + "?marker=" + nobodyID, "1.78", ""},
		{400, "GET", path + "?limit=0", "1.78", ""},
		{400, "GET", path + "?sort_key=links", "1.78", ""},
		{405, "POST", path, "1.78", `{}`},
	})
	if err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.AppendHistory(ctx, &store.HistoryEntry{Node: nodeID, Severity: "ERROR", Event: "long", Seconds: 61.9})
	}); err != nil {
		t.Fatal(err)
	}
	b.want(200, "GET", path+"?sort_key=state", "1.78", "") // though shown from 1.115 only
	page := b.want(200, "GET", path+"?detail=true&sort_key=severity&limit=1", "1.115", "").object(t)["history"].([]any)[0].(map[string]any)
	if page["event"] != "long" || page["duration_seconds"] != 61.0 {
		t.Errorf("the first by severity is %v, want the error, with whole seconds", page)
	}
}

// TestNodeRefusals holds what speaks against creating and changing a node, besides its
// state.
func TestNodeRefusals(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n2","driver":"fake-hardware","instance_uuid":"`+vif1+`"}`)
	post := func(more string) string { return `{"driver":"fake-hardware",` + more + `}` }
	set := func(name, value string) string {
		return `[{"op":"replace","path":"/` + name + `","value":` + value + `}]`
	}
	const all, one = "/v1/nodes", "/v1/nodes/n1"
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	b.refused("/v1/nodes?detail=true", []request{
		{400, "POST", all, "1.115", `{}`},
		{400, "POST", all, "1.115", `{"driver":"nonsense"}`},
		{400, "POST", all, "1.115", `{"driver":null}`},
		{400, "POST", all, "1.115", post(`"name":""`)},
		{400, "POST", all, "1.115", post(`"name":"a b"`)},
		{400, "POST", all, "1.115", post(`"name":"` + nobodyID + `"`)},
		{400, "POST", all, "1.115", post(`"name":"detail"`)},
		{400, "POST", all, "1.9", post(`"name":"a_b"`)},
		{406, "POST", all, "1.4", post(`"name":"n3"`)},
		{409, "POST", all, "1.115", post(`"name":"n1"`)},
		{409, "POST", all, "1.115", post(`"uuid":"` + nodeID + `"`)},
		{409, "POST", all, "1.115", post(`"instance_uuid":"` + vif1 + `"`)},
		{400, "POST", all, "1.115", post(`"protected":true`)},
		{400, "POST", all, "1.115", post(`"boot_interface":""`)},
		{400, "POST", all, "1.115", post(`"instance_uuid":""`)},
		{400, "POST", all, "1.9", post(`"name":"Upper"`)},
		{400, "POST", all, "1.115", post(`"traits":[]`)},
		{400, "POST", all, "1.115", post(`"provision_state":"active"`)},
		{400, "POST", all, "1.115", post(`"boot_mode":"an unheard-of mode"`)},
		{400, "POST", all, "1.115", post(`"description":` + long(4097))},
		{400, "POST", all, "1.115", post(`"resource_class":` + long(81))},
		{400, "POST", all, "1.115", post(`"conductor_group":"a b"`)},
		{400, "POST", all, "1.115", post(`"boot_interface":"nonsense"`)},
		{400, "POST", all, "1.115", post(`"conductor_group":"nowhere"`)},
		{400, "PATCH", one, "1.115", set("name", `""`)},
		{409, "PATCH", one, "1.115", set("name", `"n2"`)},
		{400, "PATCH", one, "1.115", set("driver", `"nonsense"`)},
		{400, "PATCH", one, "1.115", set("boot_interface", `"nonsense"`)},
		{400, "PATCH", one, "1.115", set("traits", `["CUSTOM_A"]`)},
		{400, "PATCH", one, "1.115", set("provision_state", `"active"`)},
		{400, "PATCH", one, "1.115", set("reservation", `"me"`)},
		{400, "PATCH", one, "1.115", set("driver_internal_info", `{}`)},
		{400, "PATCH", one, "1.115", set("console_enabled", `true`)},
		{400, "PATCH", one, "1.115", set("protected_reason", `"mine"`)},
		{400, "PATCH", one, "1.115", set("retired_reason", `"old"`)},
		{400, "PATCH", one, "1.115", set("properties", `{"memory_mb":"much"}`)},
		{400, "PATCH", one, "1.115", set("properties", `{"local_gb":-1}`)},
		{400, "PATCH", one, "1.115", set("properties", `{"local_gb":[1]}`)},
		{400, "PATCH", one, "1.115", set("properties", `{"memory_mb":"1.5"}`)},
		{400, "POST", all, "1.115", post(`"properties":{"memory_mb":"much"}`)},
		{400, "PATCH", one, "1.115", set("network_data", `null`)},
		{400, "PATCH", one, "1.115", set("network_data", `{}`)},
		{406, "PATCH", one, "1.65", set("network_data", `{}`)},
		{400, "PATCH", one, "1.115", set("description", "\"a\xff\"")},
		{400, "PUT", one + "/states/raid", "1.115", "null"},
		{409, "PATCH", one, "1.115", set("protected", `true`)},
		{409, "PATCH", one, "1.115", set("instance_uuid", `"`+vif1+`"`)},
		{409, "PATCH", "/v1/nodes/n2", "1.115", set("instance_uuid", `"`+vif2+`"`)},
		{400, "PATCH", one, "1.115", `[{"op":"remove","path":"/driver"}]`},
		{400, "PATCH", one, "1.115", `[{"op":"test","path":"/name","value":"n1"}]`},
		{400, "PATCH", one + "?reset_interfaces=true", "1.115", set("name", `"n4"`)},
		{406, "PATCH", one + "?reset_interfaces=true", "1.44", set("driver", `"redfish"`)},
		{409, "DELETE", "/v1/nodes/n2", "1.115", ""},
		{404, "DELETE", "/v1/nodes/nowhere", "1.115", ""},
		{400, "PUT", one + "/traits/CUSTOM_A", "1.115", `{"trait":"CUSTOM_A"}`},
		{400, "PUT", one + "/traits/custom_a", "1.115", ""},
		{405, "PUT", one + "/traits/CUSTOM_A", "1.36", ""},
		{404, "DELETE", one + "/traits/CUSTOM_A", "1.115", ""},
		{400, "PUT", one + "/traits", "1.115", `{"traits":["CUSTOM_A","x"]}`},
		{400, "GET", all + "?provision_state=lost", "1.115", ""},
		{400, "GET", all + "?fault=fate", "1.115", ""},
		{400, "GET", all + "?associated=perhaps", "1.115", ""},
		{400, "GET", all + "?instance_uuid=x", "1.115", ""},
		{400, "GET", all + "?sort_key=extra", "1.115", ""},
		{400, "GET", all + "/detail?fields=uuid", "1.115", ""},
	})
}
