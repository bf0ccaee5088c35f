package bmcevents

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// oneStream is a BMC that takes a while to answer, streams to one reader, and posts to any number of addresses.
type oneStream struct {
	poster
	streams bool
	mu      sync.Mutex
	readers int
}

func (b *oneStream) Events(context.Context, *node.Document) (driver.EventStream, error) {
	b.mu.Lock()
	b.readers++
	first := b.streams && b.readers == 1
	b.mu.Unlock()
	if !first {
		time.Sleep(2 * time.Second)
		return nil, fmt.Errorf("it has a reader already, or streams to none: %w", driver.ErrUnsupported)
	}
	time.Sleep(time.Second)
	return &wire{events: make(chan struct{}), closed: make(chan struct{})}, nil
}

func (b *oneStream) SendEvents(ctx context.Context, f driver.Fence, n *node.Document, to string, stale func(string) bool) error {
	time.Sleep(time.Second)
	return b.poster.SendEvents(ctx, f, n, to, stale)
}

// The nodes of one chassis have their turn at the same moment: its BMC gets one stream, or is told one address.
func TestNodesOfOneBMCAtOnce(t *testing.T) {
	for name, streams := range map[string]bool{"a stream for one reader": true, "posts": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				r := s.rackd(t, "r1")
				hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
				b := &oneStream{poster: poster{hw.Management(), s}, streams: streams}
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: power{hw.Power()}}},
					"management": {{Name: "m", Impl: b}}, "boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
				if err == nil {
					hw, err = reg.Resolve(&node.Document{Driver: "t"})
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- r.Run(ctx) }()
				synctest.Wait()
				var turns sync.WaitGroup
				for _, id := range []string{"n1", "n2", "n3"} {
					s.enrol(id, "chassis", "r1")
					turns.Go(func() {
						if err := r.Task().Do(t.Context(), nodeOf(id, "chassis"), hw); err != nil {
							t.Error(err)
						}
					})
				}
				turns.Wait()
				want := 1
				if streams {
					want = 0
				}
				s.set(func() {
					if len(s.at["chassis"]) != want {
						t.Errorf("the BMC posts to %q, want %d addresses", s.at["chassis"], want)
					}
				})
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
