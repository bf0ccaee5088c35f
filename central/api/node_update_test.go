package api

import (
	"strings"
	"testing"
)

// TestNewFields holds what requests that are older than a field are told of it: 406 where they set
// it as a whole, and what anybody is told where they do something else with it, or name what nobody
// may change.
func TestNewFields(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const n, create = "/v1/nodes/" + nodeID, `{"uuid":"` + otherID + `","driver":"fake-hardware",`
	for _, c := range []struct {
		status                      int
		method, path, version, body string
		words                       string
	}{
		{406, "PATCH", n, "1.45", `[{"op":"replace","path":"/conductor_group","value":"x"}]`, "Request not acceptable."},
		{400, "PATCH", n, "1.45", `[{"op":"add","path":"/conductor_group/x","value":1}]`, "Couldn't apply patch '{'op': 'add', 'path': '/conductor_group/x', 'value': 1}'. Reason: 'x' is not a valid sequence index"},
		{400, "PATCH", n, "1.45", `[{"op":"replace","path":"/conductor_group","value":"x"},{"op":"add","path":"/bogus","value":1}]`, ""},
		{406, "POST", "/v1/nodes", "1.45", create + `"conductor_group":null}`, "Request not acceptable."},
		{406, "POST", "/v1/nodes", "1.74", create + `"secure_boot":""}`, "Request not acceptable."},
		{406, "POST", "/v1/nodes", "1.74", create + `"boot_mode":"x"}`, "Request not acceptable."},
		{400, "POST", "/v1/nodes", "1.74", create + `"boot_mode":1}`, "Schema error for node: 1 is not of type 'string', 'null'"},
		{201, "POST", "/v1/nodes", "1.46", create + `"conductor_group":null}`, ""},
	} {
		a := b.want(c.status, c.method, c.path, c.version, c.body)
		if c.words != "" && !strings.HasPrefix(a.fault(t), c.words) {
			t.Errorf("%s %s at %s, %s: %s, want %s", c.method, c.path, c.version, c.body, a.fault(t), c.words)
		}
	}
}

// TestRetiredNullIsNotFalse holds that a node whose retired becomes false has no reason for it, also
// where it was null before, which is false too: only where it stays so is a new reason wrong.
func TestRetiredNullIsNotFalse(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const n, both = "/v1/nodes/" + nodeID, `[{"op":"replace","path":"/retired","value":false},{"op":"replace","path":"/retired_reason","value":"r"}]`
	b.want(400, "PATCH", n, "1.115", both)
	b.want(200, "PATCH", n, "1.115", `[{"op":"replace","path":"/retired","value":null}]`)
	shown := b.want(200, "PATCH", n, "1.115", both).object(t)
	if shown["retired"] != false || shown["retired_reason"] != nil {
		t.Errorf("retired is %v for the reason %v, want false without one", shown["retired"], shown["retired_reason"])
	}
}
