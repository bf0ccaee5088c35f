package api

import (
	"strings"
	"testing"
)

// TestWire holds the conventions that no one resource owns, each with what Ironic
// answers: method, path, headers, status and what a header of the answer says.
func TestWire(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, tt := range []struct {
		method, path, version string
		status                int
		header, value         string
	}{
		// Discovery and its variants.
		{"GET", "/", "", 200, "Content-Type", "application/json"},
		{"HEAD", "/", "", 200, "Content-Type", "application/json"},
		{"POST", "/", "", 405, "X-Openstack-Ironic-Api-Maximum-Version", "1.115"},
		{"GET", "/v1", "", 200, "X-Openstack-Ironic-Api-Version", "1.1"},
		{"GET", "/v1/", "", 200, "X-Openstack-Ironic-Api-Version", "1.1"},
		{"HEAD", "/v1", "latest", 200, "X-Openstack-Ironic-Api-Version", "1.115"},
		{"POST", "/v1", "", 405, "Allow", "GET, HEAD"},
		{"DELETE", "/v1/", "", 405, "Allow", "GET, HEAD"},
		// Without /v1, with a slash at the end, with a suffix.
		{"GET", "/nodes/n1", "1.115", 200, "X-Openstack-Ironic-Api-Version", "1.115"},
		{"GET", "/v1/nodes/n1/", "1.115", 200, "", ""},
		{"GET", "/v1/nodes/n1.json", "1.90", 200, "", ""},
		{"GET", "/v1/nodes/n1.json", "1.91", 404, "", ""},
		{"GET", "/v2/nodes", "1.115", 404, "", ""},
		{"GET", "/v1/nothing", "1.115", 404, "X-Openstack-Ironic-Api-Minimum-Version", "1.1"},
		// Methods.
		{"HEAD", "/v1/openapi.json", "1.115", 200, "Content-Type", "application/json"},
		{"HEAD", "/v1/nodes", "1.115", 405, "Allow", "GET, POST"},
		{"HEAD", "/v1/nodes/n1", "1.115", 405, "Allow", "DELETE, GET, PATCH"},
		{"HEAD", "/v1/nodes/n1/vendor_passthru", "1.115", 405, "Content-Type", "application/json"},
		{"HEAD", "/v1/notifications", "1.115", 405, "Allow", "GET"},
		{"HEAD", "/v1/nothing", "1.115", 404, "Content-Type", "application/json"},
		{"PUT", "/v1/nodes", "1.115", 405, "Allow", "GET, POST"},
		{"TRACE", "/v1/nodes", "1.115", 405, "Allow", "GET, POST"},
		// Versions.
		{"GET", "/v1/nodes", "1.115", 200, "X-Openstack-Ironic-Api-Version", "1.115"},
		{"GET", "/v1/nodes", "1.116", 406, "X-Openstack-Ironic-Api-Maximum-Version", "1.115"},
		{"GET", "/v1/nodes", "nonsense", 406, "X-Openstack-Ironic-Api-Minimum-Version", "1.1"},
		{"GET", "/v1/nodes", "2.0", 406, "X-Openstack-Ironic-Api-Maximum-Version", "1.115"},
		{"GET", "/v1/nodes", "1.1, 1.50", 200, "X-Openstack-Ironic-Api-Version", "1.50"},
		{"GET", "/", "1.116", 406, "X-Openstack-Ironic-Api-Maximum-Version", "1.115"},
		{"GET", "/", "latest", 200, "X-Openstack-Ironic-Api-Maximum-Version", "1.115"},
	} {
		a := b.do(tt.method, tt.path, tt.version, "")
		what := tt.method + " " + tt.path + " at " + tt.version
		if a.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d: %s", what, a.StatusCode, tt.status, a.body)
		}
		if got := a.Header.Get(tt.header); tt.header != "" && got != tt.value {
			t.Errorf("%s: %s is %q, want %q", what, tt.header, got, tt.value)
		}
		if tt.method == "HEAD" && a.body != "" {
			t.Errorf("%s has a body: %s", what, a.body)
		}
		if id := a.Header.Get("Openstack-Request-Id"); !strings.HasPrefix(id, "req-") || a.Header.Get("X-Openstack-Request-Id") != id {
			t.Errorf("%s: request id %q", what, id)
		}
	}
}

// A missing Accept, "*/*" and whatever admits JSON get it: Ironic's clients rely on it.
func TestAccept(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, accept := range []string{"", "*/*", "application/json", "text/html, */*;q=0.1", "application/*", "garbage", "application/json;q=0.5"} {
		for path, status := range map[string]int{"/v1/nodes/n1": 200, "/v1/nodes/nobody": 404, "/v1/nothing": 404} {
			a := b.do("GET", path, "1.115", "", "Accept", accept)
			if a.StatusCode != status || a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, Accept %q: status %d, want %d, content type %q", path, accept, a.StatusCode, status, a.Header.Get("Content-Type"))
			}
		}
	}
}

// A client that takes no JSON is told so, once it is clear that there would be an answer.
func TestNotAccepted(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, accept := range []string{"text/html", "application/xml", "text/plain, image/png", "text/html, */*;q=0"} {
		for path, status := range map[string]int{"/v1/nodes/n1": 406, "/v1/nodes/nobody": 406, "/v1/nothing": 404} {
			if a := b.do("GET", path, "1.115", "", "Accept", accept); a.StatusCode != status {
				t.Errorf("%s, Accept %q: status %d, want %d", path, accept, a.StatusCode, status)
			}
		}
	}
}

// Links lead to /v1 and, as bookmarks, past it; nothing of a 202 or 204 is in a body.
func TestLinksAndEmptyAnswers(t *testing.T) {
	b := newBench(t)
	b.addNode()
	body := b.want(200, "GET", "/v1/nodes/n1", "1.115", "").body
	for _, want := range []string{`{"href":"http://ironyard.example:6385/v1/nodes/` + nodeID + `","rel":"self"}`,
		`{"href":"http://ironyard.example:6385/nodes/` + nodeID + `","rel":"bookmark"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("no link %s in %s", want, body)
		}
	}
	for _, tt := range []struct{ method, path, body, location string }{
		{"PUT", "/v1/nodes/n1/management/boot_device", `{"boot_device":"disk"}`, ""},
		{"PUT", "/v1/nodes/n1/maintenance", `{}`, ""},
		{"PUT", "/v1/nodes/n1/states/power", `{"target":"power on"}`, "http://ironyard.example:6385/v1/nodes/n1/states"},
	} {
		a := b.do(tt.method, tt.path, "1.115", tt.body)
		if a.StatusCode/100 != 2 || a.body != "" || a.Header.Get("Content-Type") != "" || a.Header.Get("Location") != tt.location {
			t.Errorf("%s: status %d, content type %q, location %q, body %q", tt.path, a.StatusCode, a.Header.Get("Content-Type"), a.Header.Get("Location"), a.body)
		}
	}
	a := b.want(201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware"}`)
	if !strings.HasPrefix(a.Header.Get("Location"), "http://ironyard.example:6385/v1/nodes/") {
		t.Errorf("location %q", a.Header.Get("Location"))
	}
}

// TestNesting holds the depth of bodies, at its edge.
func TestNesting(t *testing.T) {
	b := newBench(t)
	b.addNode()
	nested := func(depth int) string {
		return `[{"op":"add","path":"/extra/d","value":` + strings.Repeat("[", depth-2) + strings.Repeat("]", depth-2) + `}]`
	}
	if a := b.do("PATCH", "/v1/nodes/n1", "1.115", nested(25)); a.StatusCode != 200 {
		t.Errorf("depth 25: %d %s", a.StatusCode, a.body)
	}
	if a := b.do("PATCH", "/v1/nodes/n1", "1.115", nested(26)); a.StatusCode != 400 || !strings.HasPrefix(a.body, `{"faultcode"`) {
		t.Errorf("depth 26: %d %s", a.StatusCode, a.body)
	}
	for _, body := range []string{"", "{", "null", "[]", `"x"`, "{}{}", "\xff", "\xef\xbb\xbf\xef\xbb\xbf{}"} {
		if a := b.do("POST", "/v1/nodes", "1.115", body); a.StatusCode != 400 {
			t.Errorf("body %q: %d %s", body, a.StatusCode, a.body)
		}
	}
	b.want(201, "POST", "/v1/chassis", "1.115", "\xef\xbb\xbf{}") // with a byte order mark
}

// The older paths of detailed lists show what "?detail=True" shows.
func TestDetailPaths(t *testing.T) {
	b := newBench(t)
	b.addNode()
	group := b.want(201, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"`+nodeID+`"}`).object(t)["uuid"].(string)
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"aa:bb:cc:dd:ee:01","portgroup_uuid":"`+group+`"}`)
	for _, list := range []string{"/v1/ports", "/v1/nodes/n1/ports", "/v1/portgroups/" + group + "/ports"} {
		old, now := b.want(200, "GET", list+"/detail", "1.115", "").body, b.want(200, "GET", list+"?detail=True", "1.115", "").body
		if old != now || !strings.Contains(old, "aa:bb:cc:dd:ee:01") {
			t.Errorf("%s/detail shows %s, ?detail=True %s", list, old, now)
		}
	}
}

// TestShapesOfVersions holds that a version which nobody speaks is refused by the service at
// the root and by the framework everywhere else.
func TestShapesOfVersions(t *testing.T) {
	b := newBench(t)
	for path, word := range map[string]string{"/": "faultstring", "/v1": "description", "/v1/": "description", "/v1/nodes": "description", "/v1/nothing": "description"} {
		if a := b.do("GET", path, "1.999", ""); a.StatusCode != 406 || !strings.Contains(a.body, word) || !strings.Contains(a.body, "Version 1.999 was requested") {
			t.Errorf("GET %s at 1.999: status %d %s, want 406 with a %s", path, a.StatusCode, a.body, word)
		}
	}
}
