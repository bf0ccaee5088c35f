package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/wan"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// BenchmarkDrain deploys nodes of a site while its link is down, so that some 1,000
// events queue at the site, and prints the seconds from the moment when the link is
// mended until the first of them have been applied (first) and until all have (drain).
func BenchmarkDrain(b *testing.B) {
	const nodes = 125
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	f := wan.Start(b, wan.Options{Sites: map[string]int{"east": 2}})
	o, err := operator.New(f.Endpoint)
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, nodes)
	for i := range ids {
		// The first step is long enough for the link to be cut while it runs, and the cut
		// for central's place at the site's events to be given up, as in a cut of minutes.
		if ids[i], err = o.Enrol(ctx, operator.Machine{Name: fmt.Sprintf("n%d", i), Driver: driverName, Group: "east",
			DriverInfo: map[string]any{"fake_deploy_delay": 25}}); err != nil {
			b.Fatal(err)
		}
	}
	each(ctx, b, ids, func(ctx context.Context, id string) error {
		if err := o.MakeAvailable(ctx, id); err != nil {
			return err
		}
		return o.SetImage(ctx, id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"})
	})
	askAll := func(verb string) {
		each(ctx, b, ids, func(ctx context.Context, id string) error { return o.Ask(ctx, id, verb, nil) })
	}
	east := f.Sites["east"]
	for b.Loop() {
		askAll("active")
		poll(ctx, b, "all deploys run", func() bool { return count(ctx, b, f, provision.DeployWait) == nodes })
		east.Link.Cut()
		poll(ctx, b, "the site has ended all deploys", func() bool { return ended(ctx, b, east.Bus) })
		queued := backlog(ctx, b, east.Bus)
		began := time.Now()
		east.Link.Mend()
		poll(ctx, b, "the first events have been applied", func() bool { return backlog(ctx, b, east.Bus) < queued })
		b.ReportMetric(time.Since(began).Seconds(), "first-s")
		poll(ctx, b, "central shows all nodes active, and no event waits", func() bool {
			return count(ctx, b, f, provision.Active) == nodes && backlog(ctx, b, east.Bus) == 0
		})
		b.ReportMetric(time.Since(began).Seconds(), "drain-s")
		b.ReportMetric(float64(queued), "events")
		askAll("deleted")
		poll(ctx, b, "all nodes are available again", func() bool { return count(ctx, b, f, provision.Available) == nodes })
	}
	b.ReportMetric(0, "ns/op") // says nothing
}

// poll waits until cond holds.
func poll(ctx context.Context, b *testing.B, what string, cond func() bool) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !cond(); {
		select {
		case <-ctx.Done():
			b.Fatal(ctx.Err())
		case <-tick.C:
		}
		if time.Now().After(end) {
			b.Fatalf("not so within 2 minutes: %s", what)
		}
	}
}

// count returns how many nodes central shows in a state.
func count(ctx context.Context, b *testing.B, f *wan.Fleet, s provision.State) int {
	b.Helper()
	state := string(s)
	list, err := f.Store.Nodes(ctx, store.NodeQuery{ProvisionState: &state})
	if err != nil {
		b.Fatal(err)
	}
	return len(list)
}

// backlog returns how many events wait at a site for central.
func backlog(ctx context.Context, b *testing.B, site *bus.Site) uint64 {
	b.Helper()
	c, err := site.Events.Consumer(ctx, bus.IngestConsumer)
	if err != nil {
		b.Fatal(err)
	}
	info, err := c.Info(ctx)
	if err != nil {
		b.Fatal(err)
	}
	return info.NumPending + uint64(info.NumAckPending)
}

// ended reports whether a site has ended the work of all its nodes.
func ended(ctx context.Context, b *testing.B, site *bus.Site) bool {
	b.Helper()
	keys, err := site.List(ctx, site.Work)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range keys {
		var d work.Document
		if err := json.Unmarshal(e.Value(), &d); err != nil {
			b.Fatal(err)
		}
		if d.Open() {
			return false
		}
	}
	return true
}
