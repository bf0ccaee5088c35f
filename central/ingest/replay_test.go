package ingest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// A replica that reads events again which another has applied, and more after them,
// changes nothing; those of another site count by themselves.
func TestEventsThatAreReadAgainUndoNothing(t *testing.T) {
	s := storetest.Open(t, storetest.SQLite(t))
	g := New(Config{Store: s, Metrics: metrics.New(s.Statements), Log: slog.New(slog.DiscardHandler)})
	n := storetest.NewNode("n")
	storetest.Insert(t, s, n)
	loose := func(place uint64, power string, change func(*work.Event)) placed {
		e := &work.Event{Kind: work.PowerObserved, Node: n.UUID, Rackd: "r", Time: time.Now(), Power: power}
		if change != nil {
			change(e)
		}
		return placed{Event: e, place: place, stored: int64(place)}
	}
	fault := func(e *work.Event) { e.SetMaintenance, e.Fault, e.Error = true, node.PowerFailure, "no answer" }
	over := func(e *work.Event) { e.Cleared = node.PowerFailure }
	for _, c := range []struct {
		what    string
		site    string
		events  []placed
		applied int
		power   string
	}{
		{"a fault that comes and goes", "east", []placed{loose(7, "error", fault), loose(8, "power on", over)}, 2, "power on"},
		{"the first of them again", "east", []placed{loose(7, "error", fault)}, 0, "power on"},
		{"again, with a newer one", "east", []placed{loose(8, "power on", over), loose(9, "power off", nil)}, 1, "power off"},
		{"of another site, which counts otherwise", "west", []placed{loose(3, "power on", nil)}, 1, "power on"},
		{"that one again", "west", []placed{loose(3, "power off", nil)}, 0, "power on"},
	} {
		out, err := g.apply(t.Context(), c.site, c.events)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if out.applied[work.PowerObserved] != c.applied || out.dropped[repeated] != len(c.events)-c.applied {
			t.Errorf("%s: applied %v, dropped %v; want %d applied", c.what, out.applied, out.dropped, c.applied)
		}
		var got *store.Node
		if got, err = s.Node(t.Context(), n.UUID); err != nil {
			t.Fatal(err)
		}
		if got.PowerState != c.power || got.FaultNumber != got.FaultAcked || got.ObservedFault != "" {
			t.Errorf("%s: power %q, fault %d of %d %q; want %q and no fault", c.what, got.PowerState, got.FaultNumber, got.FaultAcked, got.ObservedFault, c.power)
		}
	}
}
