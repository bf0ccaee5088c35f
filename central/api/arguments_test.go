package api

import (
	"strings"
	"testing"
)

// TestDeleteTakesNoArguments holds that members of a JSON body are arguments of a DELETE, as in
// Ironic, and refused before anything is deleted; and that bodies that have none are not looked at.
func TestDeleteTakesNoArguments(t *testing.T) {
	b := newBench(t)
	const n = "/v1/nodes/" + nodeID
	b.addNode()
	b.addPort(portID, "aa:bb:cc:dd:ee:01", "")
	for _, path := range []string{n, n + "/maintenance", n + "/traits", n + "/traits/CUSTOM_A", n + "/vifs/v", n + "/allocation", "/v1/ports/" + portID,
		"/v1/portgroups/g", "/v1/chassis/" + otherID, "/v1/volume/connectors/" + otherID, "/v1/volume/targets/" + otherID, "/v1/allocations/a",
		"/v1/deploy_templates/CUSTOM_T", "/v1/runbooks/CUSTOM_R", "/v1/runbooks/CUSTOM_R/traits", "/v1/runbooks/CUSTOM_R/traits/CUSTOM_A",
		"/v1/inspection_rules", "/v1/inspection_rules/" + otherID} {
		if a := b.do("DELETE", path, "1.115", `{"b":1,"a":{}}`, "Content-Type", "application/json; charset=utf-8"); a.StatusCode != 400 || a.fault(t) != "Unexpected arguments: a, b" {
			t.Errorf("DELETE %s: status %d: %s", path, a.StatusCode, a.body)
		}
	}
	b.want(200, "GET", n, "1.115", "")
	if a := b.do("DELETE", n, "1.115", strings.Repeat("[", 26)+strings.Repeat("]", 26), "Content-Type", "application/json"); a.StatusCode != 400 {
		t.Errorf("a body that is too deep: status %d", a.StatusCode)
	}
	for body, kind := range map[string]string{`{}`: "application/json", `["a"]`: "application/json", `{`: "application/json", ``: "application/json", `{"a":1}`: "text/plain"} {
		if a := b.do("DELETE", n+"/traits", "1.115", body, "Content-Type", kind); a.StatusCode != 204 {
			t.Errorf("a body %s of type %s: status %d: %s", body, kind, a.StatusCode, a.body)
		}
	}
}
