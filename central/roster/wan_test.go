package roster_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/central/sites/sitetest"
	"github.com/ironyard/ironyard/protocol/bus"
)

// beyondAWAN are three rackds, until they are killed, at a site behind a leaf link, and a roster that follows it.
type beyondAWAN struct {
	*testing.T
	ctx   context.Context
	local *bus.Site // at the rackds' end of the link
	link  *sitetest.Link
	r     *roster.Roster
	dead  chan string
}

func newBeyondAWAN(t *testing.T) *beyondAWAN {
	t.Helper()
	hub := sitetest.Hub(t)
	srv, link := sitetest.Leaf(t, hub, "east", t.TempDir())
	local, err := bus.Open(t.Context(), sitetest.Dial(t, srv), "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	site, err := bus.Open(t.Context(), sitetest.Dial(t, hub), "east", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler), SiteOf: func(string) string { return "east" }})
	w := &beyondAWAN{T: t, ctx: ctx, local: local, link: link, r: r, dead: make(chan string)}
	var g errgroup.Group
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	g.Go(func() error { return r.Follow(ctx, site) })
	g.Go(w.live)
	w.living(3)
	return w
}

// live renews the leases of the rackds.
func (w *beyondAWAN) live() error {
	tick := time.NewTicker(bus.LeaseRenew)
	defer tick.Stop()
	revs := map[string]uint64{"a": 0, "b": 0, "c": 0}
	for {
		for n, rev := range revs {
			next, err := w.local.Announce(w.ctx, member(n, "rack1"), rev)
			if err != nil && w.ctx.Err() == nil {
				return err
			}
			revs[n] = next
		}
		select {
		case <-w.ctx.Done():
			return nil
		case n := <-w.dead:
			delete(revs, n)
		case <-tick.C:
		}
	}
}

// living waits until so many live, and returns how long that took.
func (w *beyondAWAN) living(n int) time.Duration {
	w.Helper()
	began := time.Now()
	if err := w.r.WaitFor(w.ctx, func(m []bus.Member) bool { return len(m) == n }); err != nil {
		w.Fatalf("waiting for %d members: %v; there are %v", n, err, w.r.Conductors())
	}
	return time.Since(began)
}

// Over a leaf link a renewal costs next to nothing.
func TestRosterIsCheapOverAWAN(t *testing.T) {
	t.Parallel()
	w := newBeyondAWAN(t)
	up, down := w.link.Bytes()
	const watched = 7 * time.Second
	select {
	case <-time.After(watched):
	case <-w.ctx.Done():
	}
	up2, down2 := w.link.Bytes()
	if perHour := float64(up2-up+down2-down) / watched.Hours(); perHour > 400<<10 {
		t.Errorf("three idle rackds cost %.0f KiB an hour", perHour/1024)
	}
}

// The end of a rackd that says nothing is known within seconds over a leaf link all the same.
func TestARackdsEndIsKnownOverAWAN(t *testing.T) {
	t.Parallel()
	w := newBeyondAWAN(t)
	w.dead <- "b"
	if d := w.living(2); d > bus.LeaseTTL+3*time.Second {
		t.Errorf("a killed rackd was known after %s", d)
	}
	w.dead <- "a"
	_, rev, err := w.local.Announced(w.ctx, "rack1", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.local.Announce(w.ctx, bus.Member{Name: "a", Group: "rack1", Instance: "younger"}, rev); err != nil {
		t.Fatal(err)
	}
	if err := w.r.WaitFor(w.ctx, func(m []bus.Member) bool { return len(m) == 2 && m[0].Instance == "younger" }); err != nil {
		t.Errorf("a restart was not seen: %v", w.r.Conductors())
	}
}
