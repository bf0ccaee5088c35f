package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// A request tells racks of what their documents show, and of nothing else.
func TestRacksAreToldOfWhatTheySee(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+otherID+`","name":"n2","driver":"fake-hardware","owner":"o"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", "")
	b.observe("n1", func(n *store.Node) { n.PowerState = poweredOff })
	const node, port, group = "/v1/nodes/n1", "/v1/ports/" + portID, "/v1/portgroups/" + groupID
	replace := func(path, value string) string {
		return `[{"op":"add","path":"` + path + `","value":` + value + `}]`
	}
	for _, c := range []struct {
		told         bool
		status       int
		method, path string
		body         string
	}{
		{false, 200, "PATCH", node, replace("/extra/round", "1")},
		{false, 200, "PATCH", node, replace("/description", `"d"`)},
		{true, 200, "PATCH", node, `[{"op":"add","path":"/owner","value":"o"}]`},  // by the document's tenancy
		{true, 200, "PATCH", node, `[{"op":"add","path":"/lessee","value":"l"}]`}, // so, too
		{true, 200, "PATCH", node, `[{"op":"add","path":"/resource_class","value":"r"}]`},
		{false, 200, "PATCH", node, replace("/shard", `"s"`)},
		{true, 200, "PATCH", node, replace("/network_data", `{"links":[],"networks":[],"services":[]}`)},
		{false, 200, "PATCH", node, replace("/properties/cpus", "4")}, // as it was
		{true, 200, "PATCH", node, replace("/properties/cpus", "5")},
		{true, 200, "PATCH", node, `[{"op":"add","path":"/extra/round","value":2},{"op":"add","path":"/properties/cpus","value":6}]`},
		{true, 200, "PATCH", node, replace("/driver_info/redfish_password", `"open sesame"`)}, // sealed anew: nobody compares
		{true, 200, "PATCH", node, replace("/driver_info/redfish_password", `"another"`)},
		{true, 200, "PATCH", node, replace("/conductor_group", `"east"`)},
		{true, 200, "PATCH", node, replace("/conductor_group", `""`)},
		{true, 202, "PUT", node + "/maintenance", `{"reason":"a"}`},
		{false, 202, "PUT", node + "/maintenance", `{"reason":"b"}`},
		{true, 202, "DELETE", node + "/maintenance", ""},
		{true, 204, "PUT", node + "/traits", `{"traits":["CUSTOM_A"]}`},
		{false, 200, "PATCH", port, replace("/extra/a", "1")},
		{false, 200, "PATCH", port, replace("/physical_network", `"p"`)},
		{true, 200, "PATCH", port, replace("/pxe_enabled", "false")},
		{true, 200, "PATCH", port, replace("/pxe_enabled", "true")},
		{true, 200, "PATCH", port, replace("/address", `"aa:bb:cc:dd:ee:02"`)},
		{false, 201, "POST", "/v1/portgroups", `{"uuid":"` + groupID + `","node_uuid":"` + nodeID + `"}`},
		{false, 200, "PATCH", group, replace("/extra/a", "1")},
		{false, 200, "PATCH", group, moveTo(otherID)},
		{false, 204, "DELETE", group, ""},
		{false, 204, "POST", node + "/vifs", `{"id":"vif"}`},
		{false, 204, "DELETE", node + "/vifs/vif", ""},
		{true, 201, "POST", "/v1/volume/connectors", `{"uuid":"` + connectorID + `","node_uuid":"` + nodeID + `","type":"iqn","connector_id":"c"}`},
		{true, 204, "DELETE", "/v1/volume/connectors/" + connectorID, ""},
		{true, 201, "POST", "/v1/volume/targets", `{"uuid":"` + targetID + `","node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v","boot_index":0}`},
		{true, 204, "DELETE", "/v1/volume/targets/" + targetID, ""},
		{true, 200, "PATCH", port, moveTo(otherID)},
		{true, 204, "DELETE", port, ""},
		{true, 204, "DELETE", node, ""},
	} {
		before := b.told
		b.want(c.status, c.method, c.path, "1.115", c.body)
		if told := b.told > before; told != c.told {
			t.Errorf("%s %s %s: racks are told: %v, want %v", c.method, c.path, c.body, told, c.told)
		}
	}
}
