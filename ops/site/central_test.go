package site

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/protocol/bus"
)

// Central may read again what was delivered to somebody who is gone. The events are
// of nodes that it does not know: each is counted once as it is dropped.
func TestCentralMayReadEventsAgain(t *testing.T) {
	t.Parallel()
	b := newBorders(t)
	m := metrics.New(b.store.Statements)
	begin := func() (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- ingest.New(ingest.Config{Store: b.store, Metrics: m, Log: slog.New(slog.DiscardHandler)}).Follow(ctx, b.central)
		}()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	dropped := func(n int) {
		t.Helper()
		until(t, func() bool {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return strings.Contains(w.Body.String(), fmt.Sprintf(`events_dropped_total{reason="unknown_node",site="east"} %d`, n))
		})
	}
	publish := func(n int) {
		t.Helper()
		for range n {
			event := fmt.Sprintf(`{"kind":"power","node":"n1","group":"rack-a","time":%q}`, time.Now().Format(time.RFC3339Nano))
			if err := b.conns["a1"].Publish(bus.EventSubject("rack-a", "n1"), []byte(event)); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := begin()
	publish(1)
	dropped(1)
	end()
	publish(3)
	consumer, err := b.central.Events.Consumer(t.Context(), bus.IngestConsumer)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := consumer.Fetch(3, jetstream.FetchPriorityGroup("central"), jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range lost.Messages() {
		n++
	}
	if n != 3 {
		t.Fatalf("took %d events: %v", n, lost.Error())
	}
	defer begin()()
	dropped(4)
}
