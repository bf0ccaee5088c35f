package api

import (
	"strings"
	"testing"
)

// Drivers of before Ironic's hardware types are taken, and shown as what they became.
func TestClassicDrivers(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"name":"a","driver":"fake_agent"}`, 201, `"driver":"fake-hardware"`},
		{`{"name":"b","driver":"fake_agent"}`, 201, `"deploy_interface":"direct"`},
		{`{"name":"c","driver":"fake_agent","deploy_interface":"fake"}`, 201, `"deploy_interface":"fake"`},
		{`{"name":"d","driver":"fake_pxe"}`, 201, `"boot_interface":"fake"`}, // pxe is not offered there
		{`{"name":"e","driver":"pxe_ipmitool"}`, 400, "No valid host was found. Reason: No conductor service registered which supports driver ipmi "},
		{`{"name":"f","driver":"fake_ipmitool"}`, 201, `"power_interface":"fake"`}, // ipmitool is not offered there
		{`{"name":"g","driver":"pxe_nothing"}`, 400, "No valid host was found. Reason: No conductor service registered which supports driver pxe_nothing "},
		{`{"name":"h","driver":"ibmc"}`, 400, "Ironic has dropped it: Huawei's iBMCs speak Redfish. Choose driver redfish"},
		{`{"name":"h","driver":"xclarity"}`, 400, "speak Redfish. Choose driver redfish"},
		{`{"name":"h","driver":"iscsi_pxe_oneview"}`, 400, "speak Redfish. Choose driver redfish"},
	} {
		if a := b.do("POST", "/v1/nodes", "1.115", c.body); a.StatusCode != c.status || !strings.Contains(strings.ReplaceAll(a.body, `": "`, `":"`), c.says) {
			t.Errorf("%s: %d %s, want %d and %s", c.body, a.StatusCode, a.body, c.status, c.says)
		}
	}
	if a := b.do("PATCH", "/v1/nodes/d", "1.115", `[{"op":"replace","path":"/driver","value":"oneview"}]`); a.StatusCode != 400 || !strings.Contains(a.body, "Choose driver redfish") {
		t.Errorf("oneview: %d %s", a.StatusCode, a.body)
	}
	for _, c := range []struct{ query, body, says string }{
		{"", `[{"op":"replace","path":"/driver","value":"fake_agent"}]`, `"deploy_interface":"direct"`},
		{"", `[{"op":"replace","path":"/driver","value":"fake"}]`, `"deploy_interface":"direct"`},
		{"", `[{"op":"replace","path":"/driver","value":"fake_agent"},{"op":"replace","path":"/deploy_interface","value":"fake"}]`, `"deploy_interface":"fake"`},
		{"?reset_interfaces=True", `[{"op":"replace","path":"/driver","value":"fake_agent"},{"op":"replace","path":"/boot_interface","value":"ipxe"}]`, `"boot_interface":"ipxe"`},
	} {
		a := b.do("PATCH", "/v1/nodes/d"+c.query, "1.115", c.body)
		if body := strings.ReplaceAll(a.body, `": "`, `":"`); a.StatusCode != 200 || !strings.Contains(body, c.says) || !strings.Contains(body, `"driver":"fake-hardware"`) {
			t.Errorf("%s: %d %s, want %s", c.body, a.StatusCode, a.body, c.says)
		}
	}
}
