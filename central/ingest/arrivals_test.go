package ingest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// A crowd of events, while the replica's place as the one who reads lapses again and
// again, overflows nothing: all are applied, in order, long before what had been
// dropped would be delivered again.
func TestACrowdOverflowsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var dropped atomic.Int64
	f.site.Conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			dropped.Add(1)
		}
	})
	_, w := f.deploy("n")
	f.follow()
	f.phases(w, 1, 1)
	f.ordered(w, 1)
	const n, between = 990, 30
	for seq := uint64(2); seq <= n; seq++ {
		e := about(w, work.PhaseEntered, seq)
		e.Phase = fmt.Sprintf("phase %d", seq)
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.site.JS.PublishAsync(bus.EventSubject("", e.Node), body); err != nil {
			t.Fatal(err)
		}
		if seq%between == 0 {
			if err := f.site.Events.UnpinConsumer(t.Context(), bus.IngestConsumer, "central"); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-f.site.JS.PublishAsyncComplete():
	case <-time.After(30 * time.Second):
		t.Fatal("not published")
	}
	f.ordered(w, n)
	if d := dropped.Load(); d != 0 {
		t.Errorf("the client library dropped events %d times", d)
	}
}
