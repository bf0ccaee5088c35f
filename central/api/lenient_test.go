package api

import (
	"strings"
	"testing"
)

// TestForms holds that a body is JSON, whatever its type is said to be: programs that are not told otherwise send it as a form.
func TestForms(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, c := range []struct {
		status             int
		method, path, body string
	}{
		{201, "POST", "/v1/nodes", `{"driver":"fake-hardware"}`},
		{200, "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/a","value":1}]`},
		{204, "PUT", "/v1/nodes/n1/traits", `{"traits":["CUSTOM_A"]}`},
		{400, "POST", "/v1/nodes", `driver=fake-hardware`},
	} {
		if a := b.do(c.method, c.path, "1.115", c.body, "Content-Type", "application/x-www-form-urlencoded"); a.StatusCode != c.status {
			t.Errorf("%s %s of the form %s: %d %s", c.method, c.path, c.body, a.StatusCode, a.body)
		}
	}
}

// eraseTemplateStep is a step as templates have it.
const eraseTemplateStep = `{"interface":"deploy","step":"erase","args":{},"priority":10}`

// TestAccepted holds what looks as if it should be refused, and is not: clients rely on it.
func TestAccepted(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.addPort(portID, "aa:bb:cc:dd:ee:01", "")
	const n = "/v1/nodes/n1"
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"under_score","driver":"fake-hardware"}`)
	for _, tt := range []struct {
		status                      int
		method, path, version, body string
		shows                       string // what the answer holds
	}{
		// What is null says nothing, at any version.
		{201, "POST", "/v1/nodes", "1.1", `{"driver":"fake-hardware","name":null,"owner":null,"resource_class":null,"network_data":null}`, `"driver":"fake-hardware"`},
		{201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","extra":null,"properties":null}`, `"extra":{}`},
		{201, "POST", "/v1/nodes", "1.1", `{"driver":"fake-hardware","conductor_group":""}`, `"driver":"fake-hardware"`},
		// A reason without what it is the reason for.
		{201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":"lazy","retired_reason":"old"}`, `"retired_reason":"old"`},
		{200, "PATCH", "/v1/nodes/lazy", "1.115", `[{"op":"add","path":"/extra/a","value":1}]`, `"retired_reason":"old"`},
		{200, "PATCH", "/v1/nodes/lazy", "1.115", `[{"op":"replace","path":"/retired_reason","value":"old"}]`, `"retired_reason":"old"`},
		{200, "PATCH", "/v1/nodes/lazy", "1.115", `[{"op":"replace","path":"/retired","value":true},{"op":"replace","path":"/retired_reason","value":"older"}]`, `"retired_reason":"older"`},
		{200, "PATCH", "/v1/nodes/lazy", "1.115", `[{"op":"remove","path":"/retired"},{"op":"replace","path":"/retired_reason","value":"new"}]`, `"retired_reason":null`},
		// Numbers that are written as texts, and those with a fraction.
		{200, "PATCH", n, "1.115", `[{"op":"replace","path":"/properties","value":{"memory_mb":" 4096 ","local_gb":10.5,"cpus":"many"}}]`, `"memory_mb":" 4096 "`},
		// Ports and portgroups at versions before their fields, where Ironic does not look.
		{200, "PATCH", "/v1/ports/" + portID, "1.87", `[{"op":"add","path":"/name","value":"p1"},{"op":"add","path":"/vendor","value":"v"}]`, `"uuid":"` + portID},
		{200, "GET", "/v1/ports/p1", "1.115", "", `"vendor":"v"`},
		{200, "GET", "/v1/ports?description_contains=x&sort_key=uuid", "1.1", "", `"ports":[]`},
		{200, "GET", "/v1/ports?conductor_groups=x", "1.98", "", `"ports":[]`},
		{201, "POST", "/v1/portgroups", "1.23", `{"node_uuid":"` + nodeID + `","category":"c","physical_network":"net"}`, `"uuid":`},
		{200, "GET", "/v1/portgroups?fields=category,physical_network&sort_key=category", "1.23", "", `"physical_network":"net","category":"c"`},
		{200, "GET", "/v1/portgroups?conductor_groups=x", "1.23", "", `"portgroups":[]`},
		{200, "GET", "/v1/allocations?sort_key=owner", "1.59", "", `"allocations":[]`},
		{200, "GET", "/v1/runbooks?sort_key=description", "1.111", "", `"runbooks":[]`},
		// A PATCH may be empty, and take away what is newer than it.
		{200, "PATCH", n, "1.115", `[]`, `"name":"n1"`},
		{200, "PATCH", n, "1.49", `[{"op":"remove","path":"/owner"}]`, `"name":"n1"`},
		{200, "PATCH", "/v1/nodes/" + nodeID, "1.1", `[{"op":"remove","path":"/chassis_uuid"}]`, `"chassis_uuid":null`},
		{200, "PATCH", n, "1.115", `[{"op":"add","path":"/extra/b.c~1d","value":1}]`, `"b.c/d":1`},
		// Any names, and none, in allocations alone.
		{201, "POST", "/v1/allocations", "1.52", `{"name":"al","resource_class":"none"}`, `"name":"al"`},
		{200, "PATCH", "/v1/allocations/al", "1.57", `[{"op":"add","path":"/extra/b.c~1d e","value":1}]`, `"b.c/d e":1`},
		{200, "PATCH", "/v1/allocations/al", "1.57", `[{"op":"add","path":"/extra/","value":1}]`, `"":1`},
		{400, "PATCH", "/v1/allocations/al", "1.57", `[{"op":"add","path":"/extra/l","value":[1]}]`, "[1] is not of type 'string', 'object', 'null', 'integer', 'boolean'"},
		{204, "DELETE", "/v1/allocations/al", "1.52", "", ""},
		{200, "PATCH", n, "1.115", `[{"op":"add","path":"/extra/größe","value":1}]`, `"größe":1`},
		// One field of a node, by its path.
		{200, "GET", n + "/extra", "1.8", "", `"extra":{`},
		{200, "GET", "/v1/drivers/fake-hardware/name", "1.77", "", `{"name":"fake-hardware","links":`},
		// A name counts only when it is given.
		{200, "GET", "/v1/nodes/under_score", "1.10", "", `"name":"under_score"`},
		{200, "PATCH", n, "1.9", `[{"op":"add","path":"/extra/c","value":1}]`, `"c":1`},
		// An instance has the name that older clients give it.
		{200, "PATCH", n, "1.115", `[{"op":"add","path":"/instance_info/display_name","value":"web"}]`, `"instance_name":"web"`},
		{200, "PATCH", n, "1.115", `[{"op":"add","path":"/instance_info/display_name","value":"db"}]`, `"instance_name":"web"`},
		// Filters that came without a version.
		{200, "GET", "/v1/nodes?description_contains=", "1.115", "", `{"nodes":[]}`}, // those that have one
		{200, "GET", "/v1/ports?description_contains=", "1.115", "", `"ports":[{`},
		{200, "GET", "/v1/nodes?description_contains=x&retired=false&project=p", "1.1", "", `"nodes":[]`},
		{200, "GET", "/v1/nodes?maintenance=off&associated=NO", "1.1", "", `"nodes":[{`},
		{200, "GET", "/v1/nodes?driver=", "1.115", "", `{"nodes":[]}`},
		{200, "GET", "/v1/nodes?limit=99999999999999999999", "1.115", "", `"nodes":[{`},
		// As many as there may be.
		{200, "GET", "/v1/nodes?limit=99999999999999999999", "1.1", "", `"nodes":[{`},
		// No fields are the links alone.
		{200, "GET", "/v1/drivers?fields=", "1.77", "", `"drivers":[{"links":[`},
		// Clients that send {} wherever there is a body to send.
		{204, "PUT", n + "/traits/CUSTOM_A", "1.37", `{}`, ""},
		{204, "PUT", n + "/traits/CUSTOM_A", "1.37", "", ""},
		{202, "PUT", n + "/maintenance", "1.5", `{}`, ""},
		{204, "PUT", n + "/management/boot_device?persistent=True", "1.5", `{"boot_device":"pxe"}`, ""},
		{202, "DELETE", n + "/maintenance", "1.5", "", ""},
		// Arguments in the query.
		{202, "PUT", n + "/states/power?target=power%20on", "1.5", "", ""},
		// A template is given a description, which nobody keeps; a PATCH may leave more in steps than steps have.
		{201, "POST", "/v1/deploy_templates", "1.55", `{"name":"CUSTOM_T","description":"d","steps":[` + eraseTemplateStep + `]}`, `"name":"CUSTOM_T","extra":{},"links"`},
		{400, "POST", "/v1/deploy_templates", "1.55", `{"name":"CUSTOM_U","description":5,"steps":[` + eraseTemplateStep + `]}`, "5 is not of type 'string', 'null'"},
		{200, "PATCH", "/v1/deploy_templates/CUSTOM_T", "1.55", `[{"op":"add","path":"/steps/0/foo","value":0}]`, `"steps":[` + eraseTemplateStep + `]`},
		// A boot mode is any text, and each but the empty one means secure boot.
		{201, "POST", "/v1/nodes", "1.75", `{"driver":"fake-hardware","boot_mode":"x","secure_boot":"false"}`, `"boot_mode":"x"`},
		{201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","secure_boot":"false"}`, `"secure_boot":true`},
		{201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","secure_boot":""}`, `"secure_boot":false`},
		// The links of a node that is not there.
		{200, "GET", "/v1/nodes/nobody/volume", "1.32", "", `"connectors":[{"href":"http://ironyard.example:6385/v1/nodes/nobody/volume/connectors"`},
		{400, "PUT", n + "/management/boot_device?persistent=blah", "1.5", `{"boot_device":"pxe"}`, "persistent"},
		// The node behind what is asked of it.
		{200, "GET", "/v1/nodes/states/" + nodeID, "1.1", "", `"power_state":`},
		{200, "GET", "/v1/nodes/management/boot_device/" + nodeID, "1.1", "", `"boot_device":"pxe"`},
		{200, "GET", "/v1/nodes/management/boot_device/n1/supported", "1.5", "", `"supported_boot_devices":`},
		{200, "GET", "/v1/nodes/validate/n1", "1.5", "", `"power":`},
		{202, "PUT", "/v1/nodes/maintenance/n1", "1.5", "", ""},
		{200, "GET", "/v1/nodes/" + nodeID + "/children", "1.83", "", `"links":{"href":"http://ironyard.example:6385/v1/nodes?parent_node=` + nodeID + `","rel":"children"}`},
	} {
		a := b.do(tt.method, tt.path, tt.version, tt.body)
		if a.StatusCode != tt.status || !strings.Contains(a.body, tt.shows) {
			t.Errorf("%s %s at %s %s: status %d, want %d with %s: %.600s", tt.method, tt.path, tt.version, tt.body, a.StatusCode, tt.status, tt.shows, a.body)
		}
	}
}
