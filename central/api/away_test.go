package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
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

// A rackd that has ended is shown as dead, and has no part in anything.
func TestConductorThatEnded(t *testing.T) {
	b := newBench(t)
	ended := noon.Add(-time.Hour)
	for _, c := range []store.Conductor{
		{Name: "rack-0", Group: "north", Drivers: []string{"ipmi"}, Created: ended.Add(-time.Hour), Updated: ended},
		{Name: "rack-1", Group: "an older one", Created: ended, Updated: ended}, // it lives, and was there before
	} {
		if err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.NoteConductor(ctx, &c, time.Now().Add(time.Hour))
		}); err != nil {
			t.Fatal(err)
		}
	}
	list := b.want(200, "GET", "/v1/conductors?fields=hostname,alive,conductor_group", "1.115", "").object(t)["conductors"].([]any)
	want := []string{"rack-0 false north", "rack-1 true ", "rack-2 true east"}
	for i, c := range list {
		c := c.(map[string]any)
		if got := fmt.Sprint(c["hostname"], " ", c["alive"], " ", c["conductor_group"]); len(list) != len(want) || got != want[i] {
			t.Errorf("conductor %d of %d is %q, want %q", i, len(list), got, want[i])
		}
	}
	if c := b.want(200, "GET", "/v1/conductors/rack-0", "1.115", "").object(t); c["alive"] != false || c["updated_at"] != "2026-01-02T11:00:00+00:00" || fmt.Sprint(c["drivers"]) != "[ipmi]" {
		t.Errorf("the one that ended: %v", c)
	}
	if c := b.want(200, "GET", "/v1/conductors/rack-1", "1.115", "").object(t); c["alive"] != true || c["created_at"] != "2026-01-02T11:00:00+00:00" {
		t.Errorf("the one that was there before: %v", c)
	}
	b.want(404, "GET", "/v1/drivers/ipmi", "1.115", "")
}
