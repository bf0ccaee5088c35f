package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
