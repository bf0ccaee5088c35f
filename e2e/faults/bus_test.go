package faults

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/protocol/bus"
)

// A site's bus loses servers, a disk, and whole buckets while nodes are deployed. Each
// deploy ends as if nothing had been. What chaos does too is left to it.
func TestBusLosses(t *testing.T) {
	stream := func(name string, lose func(context.Context, jetstream.JetStream, string) error) func(*testing.T, context.Context, *topology.Site) {
		return func(t *testing.T, ctx context.Context, s *topology.Site) {
			if err := s.JetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error { return lose(ctx, js, "KV_"+name) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	purge := func(ctx context.Context, js jetstream.JetStream, name string) error {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	}
	drop := func(ctx context.Context, js jetstream.JetStream, name string) error {
		return js.DeleteStream(ctx, name)
	}
	for _, c := range []struct {
		name string
		lose func(*testing.T, context.Context, *topology.Site)
	}{
		{"two servers", func(t *testing.T, _ context.Context, s *topology.Site) { down(t, 5*time.Second, s.Bus.Servers[:2]...) }},
		{"a disk", func(t *testing.T, _ context.Context, s *topology.Site) {
			n := s.Bus.Servers[2]
			n.Kill()
			if err := n.Wipe(); err != nil {
				t.Error(err)
			}
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}},
		{"NODES emptied", stream(bus.NodesBucket, purge)},
		{"WORK deleted", stream(bus.WorkBucket, drop)},
	} {
		if c.name == "a disk" && !whole() {
			t.Log("not run here: a server that comes back with an empty disk; make chaos runs it")
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			l, ctx := theLab(t), within(t, 4*time.Minute)
			nodes := l.nodes["alpha"][:10]
			l.available(ctx, t, nodes)
			l.deploy(ctx, t, nodes)
			l.working(ctx, t, "", 1, writing)
			c.lose(t, ctx, l.Sites[0])
			l.active(ctx, t, nodes)
			l.judge(t)
		})
	}
}

// down keeps servers down for a while.
func down(t *testing.T, d time.Duration, servers ...*topology.Server) {
	t.Helper()
	for _, s := range servers {
		s.Kill()
	}
	time.Sleep(d) // how long they are away is what is tested
	for _, s := range servers {
		if err := s.Start(); err != nil {
			t.Error(err)
		}
	}
}
