package relay_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A replica stands still between reading the rows and writing the work; meanwhile
// another sends the work out, a rackd does it, and its key is cleared away. The first
// must not bring it back: it would be done twice.
func TestStandingStillBringsNothingBack(t *testing.T) {
	f := newFixture(t)
	stands, goes, done := make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
	var armed atomic.Bool
	point(t, "relay.half", func(string) {
		if armed.CompareAndSwap(true, false) {
			close(stands)
			<-goes
		}
	})
	point(t, "relay.published", func(string) { done <- struct{}{} })
	f.follow(f.relay)
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
	receive(t, done)
	armed.Store(true)
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	receive(t, stands)

	stop := f.follow(f.newRelay(f.store, time.Nanosecond))
	f.eventually("sent out by another", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID }))
	f.update(func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.EndWorks(ctx, []*store.Work{{ID: w.ID}}), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID}))
	})
	f.eventually("cleared away", f.site.Work, key, absent)
	stop()
	for len(done) > 0 {
		receive(t, done)
	}
	close(goes)
	receive(t, done)
	if e, err := f.site.Work.Get(t.Context(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("the work is back: %v, error %v", e, err)
	}
}

func point(t *testing.T, name string, act func(string)) {
	t.Helper()
	restore, err := failpoint.Set(name, act)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
}

func receive(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing happens")
	}
}
