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

// Over a leaf link a renewal costs next to nothing, and the end of a rackd that says
// nothing is known within seconds all the same.
func TestRosterIsCheapOverAWAN(t *testing.T) {
	t.Parallel()
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
	defer cancel()
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler), SiteOf: func(string) string { return "east" }})
	var g errgroup.Group
	defer func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	g.Go(func() error { return r.Follow(ctx, site) })

	names := []string{"a", "b", "c"}
	dead := make(chan string)
	g.Go(func() error { // three rackds, until they are killed
		tick := time.NewTicker(bus.LeaseRenew)
		defer tick.Stop()
		revs := map[string]uint64{}
		for _, n := range names {
			revs[n] = 0
		}
		for {
			for n, rev := range revs {
				next, err := local.Announce(ctx, member(n, "rack1"), rev)
				if err != nil && ctx.Err() == nil {
					return err
				}
				revs[n] = next
			}
			select {
			case <-ctx.Done():
				return nil
			case n := <-dead:
				delete(revs, n)
			case <-tick.C:
			}
		}
	})
	living := func(n int) time.Duration {
		t.Helper()
		began := time.Now()
		if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == n }); err != nil {
			t.Fatalf("waiting for %d members: %v; there are %v", n, err, r.Conductors())
		}
		return time.Since(began)
	}
	living(3)
	up, down := link.Bytes()
	const watched = 7 * time.Second
	select {
	case <-time.After(watched):
	case <-ctx.Done():
	}
	up2, down2 := link.Bytes()
	if perHour := float64(up2-up+down2-down) / watched.Hours(); perHour > 400<<10 {
		t.Errorf("three idle rackds cost %.0f KiB an hour", perHour/1024)
	}
	dead <- "b"
	if d := living(2); d > bus.LeaseTTL+3*time.Second {
		t.Errorf("a killed rackd was known after %s", d)
	}
	dead <- "a"
	_, rev, err := local.Announced(ctx, "rack1", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Announce(ctx, bus.Member{Name: "a", Group: "rack1", Instance: "younger"}, rev); err != nil {
		t.Fatal(err)
	}
	if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == 2 && m[0].Instance == "younger" }); err != nil {
		t.Errorf("a restart was not seen: %v", r.Conductors())
	}
}
