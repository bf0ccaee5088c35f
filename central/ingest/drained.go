package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// advance wakes those who wait in Drained.
func (g *Ingest) advance() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.advanced)
	g.advanced = make(chan struct{})
}

// source is a site's stream and our place in it.
type source struct {
	stream   jetstream.Stream
	consumer jetstream.Consumer
}

// drained reports whether everything in the stream has been acknowledged. The
// consumer's own count of what is pending lags behind what was just stored.
func (s source) drained(ctx context.Context) bool {
	stream, err := s.stream.Info(ctx)
	if err != nil {
		return false
	}
	place, err := s.consumer.Info(ctx)
	return err == nil && place.Delivered.Stream >= stream.State.LastSeq && place.NumAckPending == 0
}

// Drained returns when every event that the sites hold has been applied and
// acknowledged, or with ctx's error.
func (g *Ingest) Drained(ctx context.Context) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		g.mu.Lock()
		advanced, consumers := g.advanced, slices.Collect(maps.Values(g.consumers))
		g.mu.Unlock()
		left := len(consumers) == 0
		for _, c := range consumers {
			left = left || !c.drained(ctx)
		}
		if !left {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("events are left to apply: %w", ctx.Err())
		case <-advanced:
		case <-poll.C:
		}
	}
}

// Applied returns when every event that a site holds now is in the rows, whichever replica
// has applied it, or with an error. Events that were delivered and are not acknowledged in
// time are applied here: whoever has them may be dead, and they would come to somebody else
// after ackWait only. Where they are applied a second time they are dropped (see feed).
func (g *Ingest) Applied(ctx context.Context, site *bus.Site) error {
	stream, err := site.JS.Stream(ctx, bus.EventsStream)
	if err != nil {
		return fmt.Errorf("events of site %q: %w", site.Name, err)
	}
	last := stream.CachedInfo().State.LastSeq
	began := time.Now()
	poll := time.NewTicker(appliedEvery)
	defer poll.Stop()
	for {
		consumer, err := stream.Consumer(ctx, bus.IngestConsumer)
		if err != nil {
			return fmt.Errorf("how far the events of site %q are applied: %w", site.Name, err)
		}
		place := consumer.CachedInfo()
		delivered := place.Delivered.Stream >= last
		switch {
		case place.AckFloor.Stream >= last, delivered && place.NumAckPending == 0:
			return nil
		case delivered && time.Since(began) >= appliedPatience:
			f := &feed{site: site.Name, stream: stream, next: place.AckFloor.Stream + 1,
				apply: func(ctx context.Context, events []jetstream.Msg) error { return g.ingest(ctx, site, events) }}
			if err := f.fill(ctx, last+1); err != nil {
				return fmt.Errorf("events %d to %d of site %q, which are not acknowledged: %w", place.AckFloor.Stream+1, last, site.Name, err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("events of site %q are left to apply: %d, of %d: %w", site.Name, place.AckFloor.Stream, last, ctx.Err())
		case <-poll.C:
		}
	}
}

// appliedEvery is how often Applied asks, over the WAN, and appliedPatience how long whoever
// has got the events may take to acknowledge them: longer than almost any transaction.
const (
	appliedEvery    = 250 * time.Millisecond
	appliedPatience = time.Second
)
