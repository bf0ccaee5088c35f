package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// TestTimes holds which requests move a node's updated_at, and that only those to change its
// provision state move provision_updated_at.
func TestTimes(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	for method, answer := range map[ask.Method]string{ask.SetBootDevice: `{}`, ask.InjectNMI: `{}`, ask.GetBootDevice: `{"device":"pxe"}`,
		ask.CallVendor: `{"async":false,"exclusive":true}`} {
		b.ask[method] = answer
	}
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware","network_interface":"flat"}`)
	b.observe(nodeID, func(n *store.Node) { n.PowerState = poweredOff }) // volumes want it so
	const n, port, connector, target = "/v1/nodes/n1", "/v1/ports/" + portID, "/v1/volume/connectors/" + portID, "/v1/volume/targets/" + portID
	before := ""
	for _, c := range []struct {
		status             int
		method, path, body string
		moves              bool
	}{
		{201, "POST", "/v1/ports", `{"uuid":"` + portID + `","node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:01"}`, false},
		{204, "PUT", n + "/traits", `{"traits":["CUSTOM_A"]}`, true},
		{204, "PUT", n + "/traits", `{"traits":["CUSTOM_A"]}`, true},
		{204, "PUT", n + "/traits/CUSTOM_B", "", true},
		{204, "DELETE", n + "/traits/CUSTOM_B", "", true},
		{204, "DELETE", n + "/traits", "", true},
		{200, "PATCH", port, `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{200, "PATCH", port, `[{"op":"add","path":"/extra/a","value":1}]`, true}, // it is so already
		{200, "PATCH", port, `[]`, true},
		{204, "POST", n + "/vifs", `{"id":"v"}`, true},
		{204, "DELETE", n + "/vifs/v", "", true},
		{204, "DELETE", port, "", true},
		{201, "POST", "/v1/portgroups", `{"name":"pg","node_uuid":"` + nodeID + `"}`, false},
		{200, "PATCH", "/v1/portgroups/pg", `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{200, "PATCH", "/v1/portgroups/pg", `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{204, "DELETE", "/v1/portgroups/pg", "", true},
		{201, "POST", "/v1/volume/connectors", `{"uuid":"` + portID + `","node_uuid":"` + nodeID + `","type":"iqn","connector_id":"c"}`, false},
		{200, "PATCH", connector, `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{200, "PATCH", connector, `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{204, "DELETE", connector, "", true},
		{201, "POST", "/v1/volume/targets", `{"uuid":"` + portID + `","node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v","boot_index":0}`, false},
		{200, "PATCH", target, `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{204, "DELETE", target, "", true},
		{204, "PUT", n + "/management/boot_device", `{"boot_device":"pxe"}`, true},
		{400, "PUT", n + "/management/boot_device", `{"boot_device":"floppies"}`, false},
		{200, "GET", n + "/management/boot_device", "", false},
		{204, "PUT", n + "/management/inject_nmi", "", true},
		{204, "PUT", n + "/management/indicators/led@system", `{"state":"on"}`, true},
		{200, "GET", n + "/management/indicators/led@system", "", false},
		{200, "POST", n + "/vendor_passthru?method=m", `{}`, true},
		{200, "PATCH", n, `[{"op":"replace","path":"/network_interface","value":"noop"}]`, true},
		{204, "POST", n + "/vifs", `{"id":"v"}`, true},
		{204, "DELETE", n + "/vifs/v", "", true},
		{202, "PUT", n + "/maintenance", `{"reason":"x"}`, true},
		{202, "DELETE", n + "/maintenance", "", true},
		{202, "PUT", n + "/states/power", `{"target":"power on"}`, true},
	} {
		b.later.Add(1)
		b.want(c.status, c.method, c.path, "1.115", c.body)
		shown := b.want(200, "GET", n, "1.115", "").object(t)
		now, _ := shown["updated_at"].(string)
		if (now != before) != c.moves {
			t.Errorf("%s %s: updated_at was %q and is %q", c.method, c.path, before, now)
		}
		if at := shown["provision_updated_at"]; at != nil {
			t.Errorf("%s %s: provision_updated_at is %v though the state never changed", c.method, c.path, at)
		}
		before = now
	}
	b.ask[ask.CallVendor] = `{"async":false}` // beside others
	b.later.Add(1)
	b.want(200, "POST", n+"/vendor_passthru?method=m", "1.115", `{}`)
	if now := b.want(200, "GET", n, "1.115", "").object(t)["updated_at"]; now != before {
		t.Errorf("a call that others may go beside moves updated_at from %q to %q", before, now)
	}
}
