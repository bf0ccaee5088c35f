package api

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
)

// audited are the lines of the audit that a query finds, oldest first, as "request:
// fields".
func (b *bench) audited(query string, columns ...string) []string {
	b.t.Helper()
	if err := b.trail.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	page := b.want(200, "GET", "/v1/audit?sort_dir=asc&"+query, "1.115", "").object(b.t)
	var out []string
	for _, line := range page["audit"].([]any) {
		var text []string
		for _, c := range columns {
			text = append(text, fmt.Sprint(line.(map[string]any)[c]))
		}
		out = append(out, strings.Join(text, " "))
	}
	return out
}

// Whatever may change something is in the audit, once, with what became of it.
func TestAudit(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/description","value":"x"}]`)
	b.want(204, "PUT", "/v1/nodes/n1/management/boot_device", "1.115", `{"boot_device":"disk"}`) // no transaction
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.want(409, "DELETE", "/v1/nodes/n1", "1.115", "")
	b.want(404, "PUT", "/v1/nodes/other/states/power", "1.115", `{"target":"power on"}`)
	b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"cccccccc-2222-4333-8444-555555555555"}`)
	b.want(405, "PUT", "/v1/nodes", "1.115", "")
	b.want(200, "GET", "/v1/nodes/n1", "1.115", "")
	all := b.audited("", "method", "action", "resource", "object", "status", "result")
	want := []string{
		"POST baremetal:node:create node " + nodeID + " 201 accepted",
		"PATCH baremetal:node:update node " + nodeID + " 200 accepted",
		"PUT baremetal:node:set_provision_state node " + nodeID + " 202 accepted",
		"DELETE baremetal:node:delete node " + nodeID + " 409 refused",
		"PUT baremetal:node:set_power_state node other 404 refused",
		"PUT baremetal:node:set_boot_device node " + nodeID + " 204 accepted",
		"POST baremetal:chassis:create chassis cccccccc-2222-4333-8444-555555555555 201 accepted",
		"PUT <nil> <nil> <nil> 405 refused",
	}
	if len(all) != len(want) {
		t.Errorf("%d lines, want %d: %s", len(all), len(want), strings.Join(all, "\n"))
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(all, "\n"), line) {
			t.Errorf("no line %q in\n%s", line, strings.Join(all, "\n"))
		}
	}
	for query, want := range map[string]int{"node=n1": 5, "node=" + nodeID: 5, "object=other": 1, "result=refused": 3,
		"action=baremetal:chassis:create": 1, "user=nobody": 0, "until=2001-01-01T00:00:00Z": 0, "since=2001-01-01T00:00:00Z": 8, "limit=3": 3} {
		if got := len(b.audited(query, "uuid")); got != want {
			t.Errorf("%s finds %d lines, want %d", query, got, want)
		}
	}
	line := b.audited("result=refused&node=n1", "client", "path", "error", "created_at")[0]
	if !strings.HasPrefix(line, "192.0.2.1 v1/nodes/n1 ") || !strings.Contains(line, "delet") || !strings.HasSuffix(line, "2026-01-02T12:00:00+00:00") {
		t.Errorf("the refused line says %q", line)
	}
	if !strings.Contains(b.log.String(), `audit.action=baremetal:node:create`) {
		t.Errorf("the log lacks the lines of the audit: %s", b.log.String())
	}
	// Pages: newest first, all of them.
	seen, path := 0, "/v1/audit?limit=3"
	for path != "" {
		page := b.want(200, "GET", path, "", "").object(t)
		seen += len(page["audit"].([]any))
		next, _ := page["next"].(string)
		path = strings.TrimPrefix(next, "http://ironyard.example:6385")
	}
	if seen != len(want) {
		t.Errorf("pages hold %d lines, want %d", seen, len(want))
	}
	for _, query := range []string{"since=yesterday", "result=good", "foo=1", "marker=x", "fields=password", "sort_dir=up"} {
		b.want(400, "GET", "/v1/audit?"+query, "", "")
	}
	b.want(404, "GET", "/v1/audit?node=nobody", "1.115", "")
	b.want(404, "GET", "/v1/audit?marker="+nodeID, "", "")
}

// A vendor's method is in the line whether the path or an argument names it; what is
// passed to it is not.
func TestAuditNamesVendorMethods(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.do("POST", "/v1/nodes/n1/vendor_passthru?method=first%20one&secret=sesame", "1.115", "{}")
	b.do("POST", "/v1/nodes/n1/vendor_passthru/second", "1.115", "{}")
	b.do("POST", "/v1/drivers/fake-hardware/vendor_passthru?method=third", "1.115", "{}")
	want := "v1/nodes/n1/vendor_passthru?method=first+one|v1/nodes/n1/vendor_passthru/second|v1/drivers/fake-hardware/vendor_passthru?method=third"
	got := b.audited("", "path")[1:]
	slices.Sort(got)
	sorted := strings.Split(want, "|")
	slices.Sort(sorted)
	if !slices.Equal(got, sorted) {
		t.Errorf("lines of %q, want %q", got, sorted)
	}
	b.do("PATCH", "/v1/nodes/n1?method=x", "1.115", `[]`)
	if got := b.audited("action=baremetal:node:update", "path"); len(got) != 1 || got[0] != "v1/nodes/n1" {
		t.Errorf("other requests have their arguments left out, not %q", got)
	}
}

// A deleted node's lines stay.
func TestAuditOutlivesItsNode(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
	if got := b.audited("node="+nodeID, "method"); strings.Join(got, " ") != "POST DELETE" {
		t.Errorf("lines %q", got)
	}
}

// An error of the server is recorded as such, although nothing was written.
func TestAuditOfFailures(t *testing.T) {
	b := newBench(t)
	b.addNode()
	delete(b.ask, ask.InjectNMI)
	b.want(503, "PUT", "/v1/nodes/n1/management/inject_nmi", "1.115", "{}")
	if got := b.audited("result=failed", "action", "node", "status"); len(got) != 1 || got[0] != "baremetal:node:inject_nmi "+nodeID+" 503" {
		t.Errorf("lines %q", got)
	}
}

// A method is a client's word of any length, and need not be one that there is.
func TestAuditBoundsMethods(t *testing.T) {
	b := newBench(t)
	b.want(405, strings.Repeat("X", 5000), "/v1/heartbeat/"+nodeID, "1.115", "")
	if got := b.audited("", "method"); len(got) != 1 || got[0] != strings.Repeat("X", maxRecordedMethod) {
		t.Errorf("lines %.200q", got)
	}
}

func TestClientAddress(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		trusted, forwarded, want string
	}{
		{"", "", "192.0.2.1"},
		{"", "203.0.113.9", "192.0.2.1"}, // a stranger's word
		{"192.0.2.0/24", "203.0.113.9", "203.0.113.9"},
		{"192.0.2.0/24", "198.51.100.7, 203.0.113.9", "203.0.113.9"}, // what the client sent itself
		{"192.0.2.0/24", "198.51.100.7, 192.0.2.8", "198.51.100.7"},  // two proxies
		{"192.0.2.0/24", "nonsense", "192.0.2.1"},
	} {
		b.server.TrustedProxies = nil
		if tt.trusted != "" {
			b.server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(tt.trusted)}
		}
		b.do("POST", "/v1/nodes", "1.115", "{}", "X-Forwarded-For", tt.forwarded)
		lines := b.audited("", "client")
		if got := lines[len(lines)-1]; got != tt.want {
			t.Errorf("%q by proxies %q: client %s, want %s", tt.forwarded, tt.trusted, got, tt.want)
		}
	}
}

// Secrets of requests are in no line of the audit and in no change.
func TestAuditHoldsNoSecrets(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.do("PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/driver_info/redfish_password","value":["open sesame"]}]`)
	b.do("PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"rescue","rescue_password":"open sesame"}`)
	b.audited("", "uuid")
	lines := b.want(200, "GET", "/v1/audit", "", "").body
	changes, err := b.store.Changes(t.Context(), -1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(lines+string(text)+b.log.String(), "sesame") {
		t.Errorf("a secret is in the audit, the changes or the log:\n%s\n%s\n%s", lines, text, b.log.String())
	}
}
