package register

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
)

type roster []bus.Member

func (r *roster) Conductors() []bus.Member { return *r }

// before judges ages by a clock that is right.
func before(now *time.Time) func(context.Context, time.Duration) (time.Time, bool, error) {
	return func(_ context.Context, keep time.Duration) (time.Time, bool, error) { return now.Add(-keep), true, nil }
}

// TestRegister follows a rackd that comes, lives on, goes and is forgotten.
func TestRegister(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := began
	st, err := store.Open(t.Context(), storetest.SQLite(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	living := roster{}
	r := New(Config{Store: st, Roster: &living, Before: before(&now), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	look := func(after time.Duration, lives bool) []*store.Conductor {
		t.Helper()
		now = now.Add(after)
		living = roster{}
		if lives {
			living = roster{{Name: "r1", Group: "east", StartedAt: began, RenewedAt: now, Drivers: map[string]map[string][]string{"redfish": {}, "fake-hardware": {}}}}
		}
		if err := r.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := st.Conductors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if list := look(0, false); len(list) != 0 {
		t.Errorf("nobody has lived, and there are %v", list)
	}
	list := look(time.Second, true)
	if len(list) != 1 || list[0].Name != "r1" || list[0].Group != "east" || len(list[0].Drivers) != 2 || list[0].Drivers[0] != "fake-hardware" || !list[0].Created.Equal(began) {
		t.Fatalf("one has come, and there are %+v", list)
	}
	first := list[0].Updated
	for _, step := range []struct {
		after time.Duration
		lives bool
		seen  time.Duration // after first
	}{
		{Every, true, 0},                 // nothing to write
		{Refresh, true, Every + Refresh}, // it lives on
		{Every, true, Every + Refresh},
		{Every, false, 2*Every + Refresh}, // gone: the last sign of life that there was
		{Every, false, 2*Every + Refresh},
	} {
		list := look(step.after, step.lives)
		if len(list) != 1 || list[0].Updated.Sub(first) != step.seen {
			t.Fatalf("%v later, alive %t: %+v, want it seen %v after the first time", step.after, step.lives, list[0], step.seen)
		}
	}
	if list := look(Keep, false); len(list) != 0 {
		t.Errorf("after %v it is still there: %+v", Keep, list)
	}
	if list := look(time.Second, true); len(list) != 1 || !list[0].Created.Equal(began) {
		t.Errorf("it came back, and there are %+v", list)
	}
}

// TestReplicasAgree holds that the newest sign of life stays, whoever writes last.
func TestReplicasAgree(t *testing.T) {
	st, err := store.Open(t.Context(), storetest.SQLite(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, seen := range []time.Time{now, now.Add(-time.Minute)} { // the second replica is behind
		living := roster{{Name: "r1", RenewedAt: seen}}
		if err := New(Config{Store: st, Roster: &living, Before: before(&now), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}).look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := st.Conductors(t.Context())
	if err != nil || len(list) != 1 || !list[0].Updated.Equal(now) {
		t.Errorf("there are %+v, %v", list, err)
	}
}
