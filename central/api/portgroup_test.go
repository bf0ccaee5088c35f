package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

const (
	groupID  = "dddddddd-2222-4333-8444-555555555555"
	otherID  = "22222222-2222-4333-8444-555555555555"
	nobodyID = "99999999-2222-4333-8444-555555555555"
	portID   = "aaaaaaaa-2222-4333-8444-555555555555"
)

// addPort creates a port of the usual node; more goes into its body.
func (b *bench) addPort(id, address, more string) {
	b.t.Helper()
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+id+`","node_uuid":"`+nodeID+`","address":"`+address+`"`+more+`}`)
}

// refused sends requests that must fail and holds that none of them changes what
// GET shows of path.
func (b *bench) refused(path string, requests []request) {
	b.t.Helper()
	before := b.want(200, "GET", path, "1.115", "").body
	for _, q := range requests {
		a := b.want(q.status, q.method, q.path, q.version, q.body)
		if a.fault(b.t) == "" {
			b.t.Errorf("%s %s: the refusal says nothing", q.method, q.path)
		}
	}
	if after := b.want(200, "GET", path, "1.115", "").body; after != before {
		b.t.Errorf("refused requests changed\n%s\nto\n%s", before, after)
	}
}

type request struct {
	status                      int
	method, path, version, body string
}

func TestPortgroup(t *testing.T) {
	b := newBench(t)
	b.addNode()
	made := b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`","name":"bond0","address":"AA:BB:CC:DD:EE:00",
		"properties":{"miimon":"100"},"physical_network":"blue","category":"uplink"}`)
	if got := made.Header.Get("Location"); got != "http://ironyard.example:6385/v1/portgroups/"+groupID {
		t.Errorf("Location %q", got)
	}
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"portgroup_uuid":"`+groupID+`","physical_network":"blue"`)
	for _, version := range []string{"1.1", "1.22", "1.23", "1.89", "1.115"} {
		golden(t, "portgroup@"+version, b.do("GET", "/v1/portgroups/"+groupID, version, "").body)
		golden(t, "portgroups@"+version, b.do("GET", "/v1/portgroups", version, "").body)
		golden(t, "portgroup-ports@"+version, b.do("GET", "/v1/portgroups/bond0/ports", version, "").body)
	}
	for path, count := range map[string]int{"?node=n1": 1, "?address=aa:bb:cc:dd:ee:00": 1, "?address=aa:bb:cc:dd:ee:09": 0, "?shard=s": 0, "?conductor_groups=": 1,
		"?conductor_groups=east": 0, "?detail=true": 1, "/detail": 1} {
		if list := b.want(200, "GET", "/v1/portgroups"+path, "1.115", "").object(t)["portgroups"].([]any); len(list) != count {
			t.Errorf("%s: %d portgroups, want %d", path, len(list), count)
		}
	}
	for _, path := range []string{"/v1/nodes/n1/portgroups", "/v1/nodes/n1/portgroups/detail"} {
		if list := b.want(200, "GET", path, "1.24", "").object(t)["portgroups"].([]any); len(list) != 1 {
			t.Errorf("%s: %d portgroups, want 1", path, len(list))
		}
	}
	if got := b.want(201, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"`+nodeID+`","mode":null}`).object(t); got["mode"] != defaultMode {
		t.Errorf("without a mode it has %v", got["mode"])
	}
	b.want(200, "PATCH", "/v1/portgroups/bond0", "1.115", `[{"op":"replace","path":"/mode","value":"802.3ad"},{"op":"remove","path":"/address"}]`)
	const one = "/v1/portgroups/" + groupID
	// Ironic looks at the first operation only.
	b.want(200, "PATCH", one, "1.25", `[{"op":"add","path":"/extra/a","value":"x"},{"op":"add","path":"/properties/a","value":"x"}]`)
	if got := b.want(200, "GET", one, "1.26", "").object(t)["properties"].(map[string]any); got["a"] != "x" {
		t.Errorf("properties %v", got)
	}
	b.refused(one, []request{
		{404, "GET", one, "1.22", ""},
		{404, "GET", one + "/ports", "1.23", ""},
		{404, "GET", "/v1/nodes/n1/portgroups", "1.23", ""},
		{400, "GET", "/v1/portgroups/bond%200", "1.115", ""},
		{404, "GET", "/v1/portgroups/bond1", "1.115", ""},
		{400, "GET", "/v1/portgroups?node=n1&shard=s", "1.115", ""},
		{400, "GET", "/v1/portgroups?address=aa:bb:cc:dd:ee:00&conductor_groups=g", "1.115", ""},
		{406, "GET", "/v1/portgroups?shard=s", "1.105", ""},
		{406, "GET", "/v1/portgroups?fields=mode", "1.25", ""},
		{400, "GET", "/v1/portgroups?sort_key=extra", "1.115", ""},
		{404, "GET", "/v1/portgroups?marker=" + nobodyID, "1.115", ""},
		{404, "POST", "/v1/portgroups", "1.22", `{"node_uuid":"` + nodeID + `"}`},
		{406, "POST", "/v1/portgroups", "1.25", `{"node_uuid":"` + nodeID + `","mode":"x"}`},
		{400, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nobodyID + `"}`},
		{400, "POST", "/v1/portgroups", "1.115", `{}`},
		{400, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","dynamic_portgroup":true}`},
		{400, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","name":"a b"}`},
		{400, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","uuid":""}`},
		{406, "PATCH", one, "1.25", `[{"op":"remove","path":"/mode"}]`},
		{400, "GET", "/v1/portgroups?node=", "1.115", ""},
		{400, "GET", "/v1/portgroups?marker=", "1.115", ""},
		{400, "GET", "/v1/portgroups?marker=bond0", "1.115", ""},
		{400, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","address":"x"}`},
		{409, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","name":"bond0"}`},
		{409, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"` + nodeID + `","uuid":"` + groupID + `"}`},
		{400, "PATCH", one, "1.115", `[{"op":"remove","path":"/mode"}]`},
		{400, "PATCH", one, "1.115", `[{"op":"replace","path":"/uuid","value":"` + otherID + `"}]`},
		{409, "PATCH", one, "1.115", `[{"op":"replace","path":"/standalone_ports_supported","value":false}]`}, // its port has pxe_enabled
		{406, "PATCH", one, "1.25", `[{"op":"replace","path":"/mode","value":"x"}]`},
		{406, "PATCH", one, "1.25", `[{"op":"add","path":"/properties/a","value":"x"},{"op":"add","path":"/extra/a","value":"x"}]`},
		{400, "DELETE", one, "1.115", ""}, // it has a port
		{400, "POST", one, "1.115", `{}`},
	})
	b.move(nodeID, provision.Active, provision.NoState, nil)
	after := b.want(200, "PATCH", one, "1.115", `[{"op":"replace","path":"/mode","value":null},{"op":"remove","path":"/node_uuid"},`+
		`{"op":"replace","path":"/address","value":"aa:bb:cc:dd:ee:77"},{"op":"replace","path":"/physical_network","value":"red"}]`).object(t)
	if after["mode"] != nil || after["node_uuid"] != nodeID || after["address"] != "aa:bb:cc:dd:ee:77" || after["physical_network"] != "red" {
		t.Errorf("patched to %v", after)
	}
	b.want(204, "DELETE", "/v1/ports/"+portID, "1.115", "")
	b.want(204, "DELETE", "/v1/portgroups/bond0", "1.115", "")
	b.want(404, "DELETE", one, "1.115", "")
}

func TestPortRules(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`","standalone_ports_supported":false}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+nobodyID+`","node_uuid":"`+otherID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"pxe_enabled":false,"portgroup_uuid":"`+groupID+`","physical_network":"blue","name":"p1"`)
	const one = "/v1/ports/" + portID
	made := func(more string) string {
		return `{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:02"` + more + `}`
	}
	b.refused("/v1/ports?detail=true", []request{
		{400, "POST", "/v1/ports", "1.115", made(`,"portgroup_uuid":"` + portID + `"`)},                       // no such group
		{400, "POST", "/v1/ports", "1.115", made(`,"pxe_enabled":false,"portgroup_uuid":"` + nobodyID + `"`)}, // another node's
		{409, "POST", "/v1/ports", "1.115", made(`,"pxe_enabled":true,"portgroup_uuid":"` + groupID + `"`)},
		{409, "POST", "/v1/ports", "1.115", made(`,"pxe_enabled":false,"physical_network":"red","portgroup_uuid":"` + groupID + `"`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"physical_network":""`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"is_smartnic":true,"local_link_connection":{"port_id":"1","switch_id":"aa:bb:cc:dd:ee:ff"}`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"uuid":""`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"portgroup_uuid":""`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"local_link_connection":{"port_id":"1","switch_id":"0a:1b:2c:3d:4e:5f:6a:7b"}`)},
		{406, "PATCH", one, "1.33", `[{"op":"remove","path":"/physical_network"}]`},
		{406, "GET", "/v1/ports?fields=", "1.7", ""},
		{406, "GET", "/v1/ports?sort_key=portgroup_uuid", "1.23", ""},
		{400, "GET", "/v1/ports?address=", "1.115", ""},
		{400, "POST", "/v1/ports", "1.115", made(`,"local_link_connection":{"port_id":"1"}`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"local_link_connection":{"port_id":"1","switch_id":"sw"}`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"local_link_connection":{"network_type":"wild"}`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"local_link_connection":{"port_id":"1","hostname":"h","colour":"red"}`)},
		{406, "POST", "/v1/ports", "1.63", made(`,"local_link_connection":{"network_type":"unmanaged"}`)},
		{406, "POST", "/v1/ports", "1.89", made(`,"local_link_connection":{"port_id":"1","vtep-logical-switch":"l","vtep-physical-switch":"p"}`)},
		{406, "POST", "/v1/ports", "1.105", made(`,"local_link_connection":{"port_id":"1","vtep-logical-switch":"l","vtep-physical-switch":"p"}`)},
		{400, "POST", "/v1/ports", "1.104", made(`,"local_link_connection":{"vtep-logical-switch":"l","vtep-physical-switch":"p"}`)},
		{400, "POST", "/v1/ports", "1.104", made(`,"local_link_connection":{"port_id":"1","hostname":"h","vtep-logical-switch":"l"}`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"available_for_dynamic_portgroup":null`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"available_for_dynamic_portgroup":"off"`)},
		{400, "POST", "/v1/ports", "1.115", made(`,"node_ident":"n1"`)},
		{400, "PATCH", one, "1.102", `[{"op":"replace","path":"/physical_network","value":"red"}]`},
		{400, "GET", "/v1/ports?conductor_groups=g&node=n1", "1.115", ""},
		{400, "POST", "/v1/ports", "1.115", made(`,"vendor":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`)},
		{406, "POST", "/v1/ports", "1.110", made(`,"available_for_dynamic_portgroup":false`)},
		{409, "PATCH", one, "1.115", `[{"op":"replace","path":"/pxe_enabled","value":true}]`},
		{403, "GET", "/v1/ports?node=n1&portgroup=" + groupID, "1.115", ""},
		{403, "GET", "/v1/ports?node_uuid=" + nodeID + "&portgroup=" + groupID, "1.115", ""},
		{406, "GET", "/v1/ports?node=n1", "1.4", ""},
		{406, "GET", "/v1/ports/detail?node=n1", "1.1", ""},
		{406, "GET", "/v1/ports?portgroup=" + groupID, "1.23", ""},
		{404, "GET", "/v1/ports?portgroup=nowhere", "1.115", ""},
		{406, "GET", "/v1/ports?shard=s", "1.81", ""},
	})
	for path, version := range map[string]string{"/v1/ports?node=" + nodeID: "1.1", "/v1/ports?node=n1": "1.5", "/v1/ports/detail?node=nobody&node_uuid=" + nodeID: "1.5"} {
		if list := b.want(200, "GET", path, version, "").object(t)["ports"].([]any); len(list) != 1 {
			t.Errorf("%s: %d ports, want 1", path, len(list))
		}
	}
	for _, link := range []string{`{"port_id":"1","switch_id":"aa:bb:cc:dd:ee:ff"}`, `{"port_id":"1","switch_id":"0A1B2C3D4E5F6A7B"}`, `{"port_id":"","switch_id":"0a1b2c3d4e5f6a7b"}`,
		`{"port_id":"1","hostname":"h"}`, `{"network_type":"unmanaged"}`, `{}`} {
		b.want(200, "PATCH", one, "1.115", `[{"op":"replace","path":"/local_link_connection","value":`+link+`}]`)
	}
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"aa:bb:cc:dd:ee:22","physical_network":"blue","portgroup_uuid":"`+groupID+`"}`) // which does not say it
	b.want(200, "PATCH", one, "1.104", `[{"op":"replace","path":"/local_link_connection","value":{"port_id":"1","vtep-logical-switch":"l","vtep-physical-switch":"p"}}]`)
	if link := b.want(200, "GET", one, "1.115", "").object(t)["local_link_connection"].(map[string]any); len(link) != 0 {
		t.Errorf("a version that knows of no VTEP gateways sees one: %v", link)
	}

	b.move(nodeID, provision.Active, provision.NoState, nil)
	b.refused(one, []request{
		{409, "PATCH", one, "1.115", `[{"op":"replace","path":"/address","value":"aa:bb:cc:dd:ee:09"}]`},
		{409, "PATCH", one, "1.115", `[{"op":"remove","path":"/portgroup_uuid"}]`},
		{409, "PATCH", one, "1.101", `[{"op":"remove","path":"/physical_network"}]`},
		{400, "PATCH", one, "1.115", `[{"op":"remove","path":"/physical_network"}]`}, // which is the portgroup's
		{409, "PATCH", one, "1.115", `[{"op":"remove","path":"/local_link_connection"}]`},
	})
	b.want(200, "PATCH", one, "1.115", `[{"op":"add","path":"/extra/a","value":1}]`)
	if got := b.want(200, "PATCH", one, "1.115", `[{"op":"remove","path":"/node_uuid"}]`).object(t)["node_uuid"]; got != nodeID {
		t.Errorf("the port whose node was taken away belongs to %v, want the node that it did", got)
	}
	b.move(nodeID, provision.Active, provision.NoState, func(n *store.Node) { n.SetMaintenance(true, "") })
	b.want(200, "PATCH", one, "1.115", `[{"op":"replace","path":"/address","value":"aa:bb:cc:dd:ee:09"},{"op":"remove","path":"/portgroup_uuid"}]`)
	b.move(nodeID, provision.Inspecting, provision.Manageable, func(n *store.Node) { n.SetMaintenance(false, "") })
	b.refused(one, []request{{409, "PATCH", one, "1.39", `[{"op":"add","path":"/extra/a","value":2}]`}})
	b.want(200, "PATCH", one, "1.38", `[{"op":"add","path":"/extra/a","value":2}]`)
}

// TestPortgroupTakesNetwork: a portgroup without a physical network takes that of its first
// port, and holds others to it.
func TestPortgroupTakesNetwork(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"portgroup_uuid":"`+groupID+`","physical_network":"blue"`)
	if got := b.want(200, "GET", "/v1/portgroups/"+groupID, "1.115", "").object(t)["physical_network"]; got != "blue" {
		t.Errorf("the portgroup is in %v, want blue", got)
	}
	b.want(204, "DELETE", "/v1/ports/"+portID, "1.115", "")
	b.refused("/v1/ports", []request{{409, "POST", "/v1/ports", "1.115",
		`{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:02","portgroup_uuid":"` + groupID + `","physical_network":"red"}`}})
	const one = "/v1/ports/" + portID
	b.addPort(portID, "aa:bb:cc:dd:ee:03", `,"physical_network":"red"`)
	b.want(200, "PATCH", one, "1.115", `[{"op":"replace","path":"/physical_network","value":"blue"},{"op":"add","path":"/portgroup_uuid","value":"`+groupID+`"}]`)
	b.refused(one, []request{{400, "PATCH", one, "1.115", `[{"op":"replace","path":"/physical_network","value":"red"}]`}})
	b.want(200, "PATCH", "/v1/portgroups/"+groupID, "1.115", `[{"op":"replace","path":"/physical_network","value":"green"}]`)
	if got := b.want(200, "GET", one, "1.115", "").object(t)["physical_network"]; got != "green" {
		t.Errorf("the port of a portgroup that moved to green is in %v", got)
	}
}
