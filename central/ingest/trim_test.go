package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/work"
)

// A stream of events that has a bound and drops nothing goes on taking events, many times its
// size, for what was applied is removed from it. Central may do so with no more than its rights.
func TestAppliedEventsMakeRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	site, central := bustest.Fleet(t)
	config := site.Events.CachedInfo().Config
	config.MaxBytes, config.Discard = 64<<10, jetstream.DiscardNew
	if _, err := site.JS.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	var err error
	if central.Events, err = central.JS.Stream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	f.site = central
	n, w := f.deploy("n")
	f.follow()
	const events = 600
	bytes := 0
	for seq := range uint64(events) {
		e := about(w, work.PhaseEntered, seq+1)
		e.Phase, e.Detail = "p", fmt.Sprintf("%0400d", seq)
		waitFor(t, "the stream takes another event", func() bool {
			_, err = site.JS.Publish(t.Context(), bus.EventSubject("", n.UUID), []byte(fmt.Sprintf(`{"id":%q,"kind":"phase","node":%q,"work":%q,"generation":%d,"epoch":1,"seq":%d,"time":%q,"phase":"p","detail":%q}`,
				e.ID, e.Node, e.Work, e.Generation, e.Seq, e.Time.Format(time.RFC3339Nano), e.Detail)))
			return err == nil
		})
		bytes += 600
	}
	f.drained()
	list, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	if err != nil || len(list) != events {
		t.Errorf("%d lines of history, error %v, want %d", len(list), err, events)
	}
	if bytes < 4*int(config.MaxBytes) {
		t.Fatalf("%d bytes do not fill the stream", bytes)
	}
}
