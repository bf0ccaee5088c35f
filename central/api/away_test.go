package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/api/wire"
)

// The rackds of a site that is away are shown as dead, what needs their answer says
// since when it is away, and what can wait is accepted.
func TestSiteThatIsAway(t *testing.T) {
	b := newBench(t)
	b.addNode()
	away := func(group string) error {
		if group == "east" {
			return nil
		}
		return wire.Errorf(http.StatusServiceUnavailable, "Site west has been unreachable since noon.")
	}
	b.server.Away, b.server.dispatch.Away = away, away
	list := b.want(200, "GET", "/v1/conductors", "1.115", "").object(t)["conductors"].([]any)
	for _, c := range list {
		c := c.(map[string]any)
		if name, alive := c["hostname"], c["alive"]; alive != (name == "rack-2") {
			t.Errorf("conductor %s is alive: %v", name, alive)
		}
	}
	if c := b.want(200, "GET", "/v1/conductors/rack-1", "1.115", "").object(t); c["alive"] != false {
		t.Errorf("alone it is alive: %v", c)
	}
	for _, path := range []string{"/v1/nodes/n1/validate", "/v1/drivers/redfish/properties"} {
		if a := b.want(503, "GET", path, "1.115", ""); !strings.Contains(a.fault(t), "unreachable since noon") {
			t.Errorf("%s said %s", path, a.body)
		}
	}
	// rack-2 of the site that answers offers this one too.
	b.want(200, "GET", "/v1/drivers/fake-hardware/properties", "1.115", "")
	b.want(200, "GET", "/v1/nodes/n1", "1.115", "")
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
}
