package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/feed"
)

// A project watches its own nodes: others never show, and what it may not see of its own
// is kept back in the stream as in a list.
func TestProjectsWatchTheirNodes(t *testing.T) {
	t.Parallel()
	b := newGuarded(t)
	url := b.streams(feed.Config{})
	admin := "system " + adminRoles
	patch := func(node, field, value string) {
		t.Helper()
		b.wantAs(200, admin, "PATCH", "/v1/nodes/"+node, `[{"op":"add","path":"/`+field+`","value":`+value+`}]`)
	}
	open := func(who, path string, headers ...string) *reader {
		t.Helper()
		return openStream(t, url+path, append(headers, "X-Who", who)...)
	}
	const all = "/v1/nodes?watch=true&detail=true"
	owner, lessee, stranger := open(ownerProject+" reader", all), open(lesseeProject+" reader", all), open(foreignProject+" "+adminRoles, all)
	start := ""
	for name, r := range map[string]*reader{"the owner": owner, "the lessee": lessee, "a stranger": stranger} {
		e := r.next()
		if name != "a stranger" {
			if e.kind != "existing" || nodeOf(t, e)["uuid"] != nodeID || strings.Contains(e.data, "https://bmc") != (name == "the owner") {
				t.Errorf("%s is shown %+v", name, e)
			}
			e = r.next()
		}
		if count := map[bool]string{true: `{"nodes":0}`, false: `{"nodes":1}`}[name == "a stranger"]; e.kind != "synced" || e.data != count {
			t.Errorf("%s is told of %+v, want %s", name, e, count)
		}
		start = e.id
	}

	// What comes next at each shows that nothing was told of n2, which is nobody's.
	patch("n2", "description", `"secret plans"`)
	patch("n1", "description", `"ours"`)
	for name, r := range map[string]*reader{"the owner": owner, "the lessee": lessee} {
		e := r.next()
		if e.kind != "changed" || nodeOf(t, e)["description"] != "ours" || strings.Contains(e.data, "https://bmc") != (name == "the owner") {
			t.Errorf("%s hears %+v", name, e)
		}
	}
	// A node that comes to a project shows; one that leaves it is gone, and no more is said.
	patch("n1", "lessee", "null")
	if e := lessee.next(); e.kind != "removed" || e.data != `{"node":{"uuid":"`+nodeID+`"}}` {
		t.Errorf("who lost the node hears %+v", e)
	}
	if e := owner.next(); e.kind != "changed" {
		t.Errorf("the owner hears %+v", e)
	}
	patch("n1", "description", `"ours alone"`)
	b.wantAs(204, admin, "DELETE", "/v1/nodes/n2", "")
	patch("n1", "lessee", `"`+foreignProject+`"`)
	for name, r := range map[string]*reader{"the stranger of before": stranger, "who comes back": open(foreignProject+" reader", all, "Last-Event-ID", start)} {
		e := r.next()
		if e.kind == "synced" {
			e = r.next()
		}
		if e.kind != "added" && e.kind != "changed" || nodeOf(t, e)["uuid"] != nodeID || strings.Contains(e.data, "https://bmc") {
			t.Errorf("%s hears %+v", name, e)
		}
	}
	b.wantAs(404, lesseeProject+" "+adminRoles, "GET", "/v1/nodes/n1?watch=true", "")
	b.wantAs(403, ownerProject+" reader", "GET", "/v1/nodes?watch=true&project="+foreignProject, "")
	b.wantAs(403, ownerProject+" "+adminRoles, "GET", "/v1/notifications", "")
	b.wantAs(401, "", "GET", "/v1/nodes?watch=true", "")
}
