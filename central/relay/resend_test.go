package relay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A replica sends a deploy out and dies before it notes that; a rackd takes it, under epoch 1,
// and the site loses everything. A second replica, which has never seen the key, must not
// begin the work under epoch 0: the rackd may still be at it, and another would take it
// under epoch 1, too.
func TestSentOutAndLostIsNotBegunAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		// lose makes the site lose what the first replica has sent.
		lose func(f *fixture, key string) error
	}{
		{"the bucket is purged", func(f *fixture, _ string) error { return (&busy{fixture: f}).stream(bus.WorkBucket).Purge(f.Context()) }},
		{"the key is purged", func(f *fixture, key string) error { return f.site.Work.Purge(f.Context(), key) }},
		{"the key is deleted", func(f *fixture, key string) error { return f.site.Work.Delete(f.Context(), key) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			// The first replica stands still where it has published the work, to the end of the test.
			published, stands, over := make(chan struct{}, 100), make(chan struct{}), make(chan struct{})
			var armed atomic.Bool
			point(t, "relay.published", func(string) {
				if armed.CompareAndSwap(true, false) {
					close(stands)
					<-over
				}
				published <- struct{}{}
			})
			f.follow(f.relay)
			t.Cleanup(func() { close(over) })
			n := f.enroll("n", "")
			key := bus.NodeKey("", n.UUID)
			f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
			receive(t, published)
			armed.Store(true)
			w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
			f.eventually("sent out", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID && d.Epoch == 0 && !d.Lost }))
			receive(t, stands)
			if waits, err := f.store.OnTheirWay(t.Context(), "", []string{w.ID}); err != nil || !waits[w.ID] {
				t.Fatalf("the work's entry is not in the outbox any more: %v, %v", waits, err)
			}
			if err := c.lose(f, key); err != nil {
				t.Fatal(err)
			}
			lost := time.Now()

			second := storetest.Open(t, f.address)
			f.store = second
			f.follow(f.newRelay(second, time.Nanosecond))
			var again work.Document
			f.eventually("written again", f.site.Work, key, document(func(d work.Document) bool { again = d; return d.ID == w.ID }))
			if took := time.Since(lost); again.Epoch < work.LostEpochs || !again.Lost || took < settle {
				t.Errorf("%v after the loss the work is begun under epoch %d, lost %t: want no sooner than %v, and far above what anybody may have reached",
					took, again.Epoch, again.Lost, settle)
			}
			var row *store.Node
			f.update(func(ctx context.Context, tx *store.Tx) (err error) {
				row, err = tx.Node(ctx, n.UUID)
				return err
			})
			if row.ObservedEpoch != again.Epoch {
				t.Errorf("epochs below %d do not count, the work has %d", row.ObservedEpoch, again.Epoch)
			}
		})
	}
}

// What a replica has accepted and could not send, because the site was away, is no less new for that.
func TestWaitingWorkIsNew(t *testing.T) {
	f := newFixture(t)
	stop := f.follow(f.relay)
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
	stop()
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	f.follow(f.relay)
	f.eventually("sent out", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID && d.Epoch == 0 && !d.Lost }))
}
