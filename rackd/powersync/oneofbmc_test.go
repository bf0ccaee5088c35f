package powersync

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// Two nodes whose driver_info leads to one BMC are told of once, whatever accounts they have. Nodes without a BMC are not, nor those of
// several machines of one BMC, nor a node in the place of one that is gone.
func TestTwoNodesOfOneBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(0)
		add := func(id string, info map[string]any) {
			r.nodes[id] = &node.Document{UUID: id, DriverInfo: info, State: "active"}
		}
		add("one", map[string]any{"x_address": "10.0.0.5", "account": "a", "x_username": "u"})
		add("two", map[string]any{"x_address": "10.0.0.5", "account": "a", "x_username": "v", "x_password": "p"})
		add("blade1", map[string]any{"x_address": "10.0.0.6", "x_system_id": "1", "account": "a"})
		add("blade2", map[string]any{"x_address": "10.0.0.6", "x_system_id": "2", "account": "a"})
		add("none1", map[string]any{})
		add("none2", map[string]any{})
		add("gone", map[string]any{"x_address": "10.0.0.7", "account": "b"})
		var log strings.Builder
		sync := &Sync{cfg: Config{Every: 2 * time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))}, ways: map[string]sighting{}}
		pass := func() {
			for _, id := range []string{"one", "two", "blade1", "blade2", "none1", "none2", "gone", "next"} {
				if n, hw, err := r.Idle(id); err != nil {
					t.Fatal(err)
				} else if n != nil {
					sync.sight(n, hw)
				}
			}
			time.Sleep(2 * time.Minute)
		}
		for range 10 {
			pass()
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "node=two other=one") {
			t.Errorf("told is %q, want two beside one, once", got)
		}
		delete(r.nodes, "gone")
		for range 2 * oldAfter {
			pass()
		}
		add("next", map[string]any{"x_address": "10.0.0.7", "account": "b"})
		delete(r.nodes, "one")
		for range 2 * oldAfter {
			pass()
		}
		if got := log.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("a node in the place of one that is gone is told of: %q", got)
		}
		for i := range 3000 {
			r.nodes["next"] = &node.Document{UUID: "next", DriverInfo: map[string]any{"x_address": strings.Repeat("x", i), "account": "b"}, State: "active"}
			pass()
		}
		if got := len(sync.ways); got > 2000 {
			t.Errorf("%d ways are remembered of 4 nodes", got)
		}
	})
}
