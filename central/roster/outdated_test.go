package roster_test

import (
	"log/slog"
	"testing"

	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
)

// A rackd that does not read what central writes serves no node, and central knows of it.
func TestOutdatedRackdsServeNothing(t *testing.T) {
	site := bustest.Open(t)
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler), Alive: func(string, int) {}, Failover: func(string) []string { return nil }})
	ctx, _ := roster.Followed(t, r, site)
	older := member("old", "rack1")
	older.Documents = node.Format - 1
	announce := func(m bus.Member, n int) {
		t.Helper()
		if _, err := site.Announce(ctx, m, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.WaitFor(ctx, func(all []bus.Member) bool { return len(all) == n }); err != nil {
			t.Fatal(err)
		}
	}
	announce(older, 1)
	if m, ok := r.Owner("node", "fake-hardware", "rack1"); ok {
		t.Errorf("%s is to serve a node whose document it cannot read", m.Name)
	}
	if list := r.Outdated("fake-hardware", "RACK1"); len(list) != 1 || list[0].Name != "old" {
		t.Errorf("outdated rackds: %+v", list)
	}
	announce(member("new", "rack1"), 2)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if m, ok := r.Owner(id, "fake-hardware", "rack1"); !ok || m.Name != "new" {
			t.Errorf("node %s belongs to %q", id, m.Name)
		}
	}
}

// A rackd that lacks the key that central seals with serves no node until it says that it has it.
func TestRackdsWithoutTheKeyServeNothing(t *testing.T) {
	site := bustest.Open(t)
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler), Sealing: func(string) string { return "new" }})
	ctx, _ := roster.Followed(t, r, site)
	late := member("late", "rack1")
	late.Keys, late.Edition = map[string][]string{"rack1": {"old"}}, 1
	rev, err := site.Announce(ctx, late, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.WaitFor(ctx, func(all []bus.Member) bool { return len(all) == 1 }); err != nil {
		t.Fatal(err)
	}
	if m, ok := r.Owner("node", "fake-hardware", "Rack1"); ok {
		t.Errorf("%s is to serve a node whose document it cannot open", m.Name)
	}
	if list := r.Late("fake-hardware", "RACK1"); len(list) != 1 || list[0].Name != "late" {
		t.Errorf("late rackds: %+v", list)
	}
	late.Keys, late.Edition = map[string][]string{"rack1": {"old", "new"}}, 2
	if _, err := site.Announce(ctx, late, rev); err != nil {
		t.Fatal(err)
	}
	if err := r.WaitFor(ctx, func([]bus.Member) bool { _, ok := r.Owner("node", "fake-hardware", "rack1"); return ok }); err != nil {
		t.Fatalf("the same instance has the key now, and central does not hear of it: %v", err)
	}
	if list := r.Late("fake-hardware", "rack1"); len(list) != 0 {
		t.Errorf("late rackds: %+v", list)
	}
}
