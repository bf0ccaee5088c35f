package api

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

const (
	vif1 = "eeeeeeee-0001-4333-8444-555555555555"
	vif2 = "eeeeeeee-0002-4333-8444-555555555555"
)

func (b *bench) vifs() []any {
	b.t.Helper()
	return b.want(200, "GET", "/v1/nodes/n1/vifs", "1.28", "").object(b.t)["vifs"].([]any)
}

func TestVIFs(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/network_interface","value":"flat"}]`)
	b.refused("/v1/nodes/n1", []request{
		{400, "POST", "/v1/nodes/n1/vifs", "1.28", `{"id":"` + vif1 + `"}`}, // no port
		{404, "POST", "/v1/nodes/n1/vifs", "1.27", `{"id":"` + vif1 + `"}`},
		{404, "GET", "/v1/nodes/n1/vifs", "1.27", ""},
		{404, "GET", "/v1/nodes/nowhere/vifs", "1.28", ""},
		{405, "PUT", "/v1/nodes/n1/vifs", "1.28", `{}`},
	})
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"portgroup_uuid":"`+groupID+`"`)
	b.addPort(otherID, "aa:bb:cc:dd:ee:02", `,"pxe_enabled":false`)
	const all = "/v1/nodes/n1/vifs"
	b.refused("/v1/ports?detail=true", []request{
		{400, "POST", all, "1.67", `{}`},
		{400, "POST", all, "1.67", `{"id":"a b"}`},
		{400, "POST", all, "1.67", `{"id":"` + vif1 + `","port_uuid":"p"}`},
		{400, "POST", all, "1.67", `{"id":"` + vif1 + `","port_uuid":"` + portID + `","portgroup_uuid":"` + groupID + `"}`},
		{400, "POST", all, "1.67", `{"id":"` + vif1 + `","port_uuid":"` + nobodyID + `"}`},
		{400, "DELETE", all + "/" + vif1, "1.67", ""},
	})
	b.want(204, "POST", all, "1.66", `{"id":"`+vif1+`","port_uuid":"p","portgroup_uuid":"g"}`) // what came with 1.67 means nothing
	if got := b.want(200, "GET", "/v1/portgroups/"+groupID, "1.115", "").object(t)["internal_info"].(map[string]any); got["tenant_vif_port_id"] != vif1 {
		t.Errorf("portgroup's internal_info %v: a portgroup comes first", got)
	}
	b.want(204, "POST", all, "1.67", `{"id":"`+vif2+`","port_uuid":"`+otherID+`"}`)
	if got := b.vifs(); len(got) != 2 {
		t.Errorf("VIFs %v", got)
	}
	b.refused("/v1/ports?detail=true", []request{
		{409, "POST", all, "1.67", `{"id":"` + vif1 + `"}`},
		{400, "POST", all, "1.67", `{"id":"third"}`}, // the free port is in a group that has a VIF
		{409, "DELETE", "/v1/ports/" + otherID, "1.67", ""},
	})
	b.move(nodeID, provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"inspect"}`)
	b.refused("/v1/ports?detail=true", []request{{409, "DELETE", all + "/" + vif1, "1.67", ""}})
	b.move(nodeID, provision.Manageable, provision.NoState, nil)
	b.want(204, "DELETE", all+"/"+vif1, "1.67", "")
	b.want(204, "DELETE", all+"/"+vif2, "1.67", "")
	if got := b.vifs(); len(got) != 0 {
		t.Errorf("VIFs %v", got)
	}
}

// TestNoopVIFs holds that the network interface noop accepts whatever it is told.
func TestNoopVIFs(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/network_interface","value":"noop"}]`)
	b.want(204, "POST", "/v1/nodes/n1/vifs", "1.28", `{"id":"`+vif1+`"}`)
	if got := b.vifs(); len(got) != 0 {
		t.Errorf("VIFs %v", got)
	}
	b.want(204, "DELETE", "/v1/nodes/n1/vifs/"+vif1, "1.28", "")
}
