package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// dying is a site with a node, and a first replica that stands still at a place for good, with
// a deploy of the node in its hands.
type dying struct {
	*fixture
	node *store.Node
	work *store.Work
}

// newDying returns when the replica stands still; sent: not before the work is at the site, since
// the replica may be told of a node more than once; used: the node has had work before.
func newDying(t *testing.T, place string, sent, used bool) *dying {
	d := &dying{fixture: newFixture(t)}
	passed, stands, over := make(chan struct{}, 1000), make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	point(t, place, func(string) {
		if armed.Load() && (!sent || d.there()) && armed.CompareAndSwap(true, false) {
			close(stands)
			<-over
		}
		passed <- struct{}{}
	})
	d.follow(d.relay)
	t.Cleanup(func() { close(over) })
	d.node = d.enroll("n", "")
	d.eventually("enrolled", d.site.Nodes, d.key(), func(body []byte) bool { return body != nil })
	if used {
		w := d.request(d.node, work.Clean, provision.Cleaning, provision.Manageable)
		d.eventually("cleaning", d.site.Work, d.key(), document(func(doc work.Document) bool { return doc.ID == w.ID }))
		d.update(func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.EndWorks(ctx, []*store.Work{{ID: w.ID}}), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: d.node.UUID}))
		})
		d.eventually("cleaned", d.site.Work, d.key(), absent)
		d.eventuallyEmpty()
	}
	armed.Store(true)
	d.work = d.request(d.node, work.Deploy, provision.Deploying, provision.Active)
	receive(t, stands)
	return d
}

func (d *dying) key() string { return bus.NodeKey("", d.node.UUID) }

// there reports whether the site has the work.
func (d *dying) there() bool {
	e, err := d.site.Work.Get(d.Context(), d.key())
	var doc work.Document
	return err == nil && json.Unmarshal(e.Value(), &doc) == nil && doc.Verb == work.Deploy
}

// successor follows the site as a second replica, which has never seen the key and takes
// entries over at once.
func (d *dying) successor(settle time.Duration) {
	second := storetest.Open(d, d.address)
	d.store = second
	d.follow(relay.New(relay.Config{Store: second, Key: d.fixture.key, Metrics: metrics.New(second.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Tick: 10 * time.Millisecond, Takeover: time.Nanosecond, Look: 50 * time.Millisecond,
		Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }}))
}

// madeAnew waits for a document of the node's work w, which nobody may take for new, and no
// sooner than settle after a moment.
func (d *dying) madeAnew(w *store.Work, after time.Time) {
	d.Helper()
	var again work.Document
	d.eventually("written again", d.site.Work, d.key(), document(func(doc work.Document) bool { again = doc; return doc.ID == w.ID }))
	if took := time.Since(after); again.Epoch < work.LostEpochs || !again.Lost || took < settle {
		d.Errorf("after %v the work is begun under epoch %d, lost %t: want no sooner than %v, and far above what anybody may have reached",
			took, again.Epoch, again.Lost, settle)
	}
	row, err := d.store.Node(d.Context(), d.node.UUID)
	if err != nil || row.ObservedEpoch != again.Epoch {
		d.Errorf("epochs below %d do not count, the work has %d: %v", row.ObservedEpoch, again.Epoch, err)
	}
	d.eventuallyEmpty()
}

// eventuallyEmpty waits until nothing is left in the outbox.
func (d *dying) eventuallyEmpty() {
	d.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left, err := d.store.OutboxBacklog(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			d.Fatalf("%+v stay in the outbox", left)
		}
	}
}

func (d *dying) works() jetstream.Stream { return (&busy{fixture: d.fixture}).stream(bus.WorkBucket) }

func purgeBucket(d *dying) error { return d.works().Purge(d.Context()) }

// A replica sends a deploy out and dies before it notes that; a rackd takes it, under epoch 1,
// and the site loses everything. A second replica, which has never seen the key, must not
// begin the work under epoch 0: the rackd may still be at it, and another would take it
// under epoch 1, too.
func TestSentOutAndLostIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// lose makes the site lose what the first replica has sent.
		lose func(d *dying) error
		used bool
	}{
		{"the bucket is purged", purgeBucket, false},
		{"the bucket is purged that held something before", purgeBucket, true},
		{"the message is deleted", func(d *dying) error {
			return d.works().Purge(d.Context(), jetstream.WithPurgeSubject("$KV."+bus.WorkBucket+"."+d.key()))
		}, true},
		{"the key is purged", func(d *dying) error { return d.site.Work.Purge(d.Context(), d.key()) }, false},
		{"the key is deleted", func(d *dying) error { return d.site.Work.Delete(d.Context(), d.key()) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDying(t, "relay.published", true, c.used)
			if left, err := d.store.OutboxBacklog(t.Context()); err != nil || len(left) == 0 {
				t.Fatalf("the work's entry is not in the outbox any more: %v, %v", left, err)
			}
			if err := c.lose(d); err != nil {
				t.Fatal(err)
			}
			lost := time.Now()
			d.successor(settle)
			d.madeAnew(d.work, lost)
		})
	}
}

// So with work that was claimed and, as it happens, not sent, if the node never had any: an empty
// key tells nobody that.
func TestClaimedIsTakenForSent(t *testing.T) {
	d := newDying(t, "relay.claimed", false, false)
	began := time.Now()
	d.successor(settle)
	d.madeAnew(d.work, began)
}

// So with what takes the place of such work: its owner, if it has one, may not know of that.
func TestInPlaceOfClaimedWork(t *testing.T) {
	d := newDying(t, "relay.claimed", false, false)
	began := time.Now()
	d.store = storetest.Open(t, d.address)
	var w *store.Work
	d.update(func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, d.node.UUID)
		if err != nil {
			return err
		}
		if err := tx.EndWork(ctx, n.WorkID, store.WorkSuperseded, ""); err != nil {
			return err
		}
		n.Accept(provision.Deleting, provision.Available, time.Now())
		w = storetest.NewWork(n, work.Delete)
		w.Args.Supersedes = d.work.ID
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		if err := tx.InsertWork(ctx, w); err != nil {
			return err
		}
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Object: w.ID})
	})
	d.successor(settle) // not before, lest it send what is replaced first
	d.madeAnew(w, began)
}

// What nobody has claimed was not sent: another replica sends it at once, as new, however far
// the first one has come. So does it what was claimed and not sent, as the key tells.
func TestUnsentIsNew(t *testing.T) {
	for _, c := range []struct {
		place string
		used  bool
	}{{"relay.publish", false}, {"relay.half", false}, {"relay.claimed", true}} {
		t.Run(c.place, func(t *testing.T) {
			d := newDying(t, c.place, false, c.used)
			d.successor(time.Hour)
			d.isNew(d.work, 0)
		})
	}
}

// isNew waits for the document of the node's work w, and wants it to be nobody's, under epoch.
func (d *dying) isNew(w *store.Work, epoch uint64) {
	d.Helper()
	var doc work.Document
	d.eventually("sent out", d.site.Work, d.key(), document(func(sent work.Document) bool { doc = sent; return sent.ID == w.ID }))
	if doc.Epoch != epoch || doc.Lost {
		d.Errorf("it is %+v, want epoch %d", doc, epoch)
	}
	d.eventuallyEmpty()
}

// Who has claimed a work and found nobody to send it to knows that it was not sent, and sends
// it as new when somebody is there.
func TestClaimedAndUnsentIsNew(t *testing.T) {
	f := newFixture(t)
	works := (&busy{fixture: f}).stream(bus.WorkBucket)
	var armed atomic.Bool
	gone := make(chan error, 1)
	point(t, "relay.claimed", func(string) {
		if armed.CompareAndSwap(true, false) {
			gone <- f.site.JS.DeleteStream(context.WithoutCancel(t.Context()), works.CachedInfo().Config.Name)
		}
	})
	counted := metrics.New(f.store.Statements)
	f.follow(relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: counted, Log: discard,
		SiteOf: func(string) string { return "" }, Tick: 10 * time.Millisecond, Takeover: time.Nanosecond, Look: 50 * time.Millisecond,
		Settle: time.Hour, Drained: func(context.Context, *bus.Site) error { return nil }}))
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
	failures := func() (sum float64) {
		page := httptest.NewRecorder()
		counted.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			var n float64
			if name, value, _ := strings.Cut(line, "} "); strings.HasPrefix(name, "ironyard_central_relay_errors_total{") {
				if _, err := fmt.Sscan(value, &n); err != nil {
					t.Errorf("%q: %v", line, err)
				}
			}
			sum += n
		}
		return sum
	}
	before := failures()
	armed.Store(true)
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	select {
	case err := <-gone:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the work is not claimed")
	}
	if claims, err := f.store.Claims(t.Context(), "", []string{w.ID}); err != nil || claims[w.ID] == 0 {
		t.Errorf("the work is not claimed: %v, %v", claims, err)
	}
	// The attempt that has the claim finds nobody. Others seldom follow: without its bucket a site
	// has to be opened again before anything is sent there.
	for end := time.Now().Add(patience); failures() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the attempt to send the claimed work does not end")
		}
	}
	if _, err := f.site.JS.CreateStream(t.Context(), works.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	f.eventually("sent out", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID && d.Epoch == 0 && !d.Lost }))
}

// A relay that is told to end, when it has claimed a work, sends it out all the same: nobody
// has to wait for what may have been lost.
func TestEndsWithoutClaimsLeft(t *testing.T) {
	f := newFixture(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var armed atomic.Bool
	point(t, "relay.claimed", func(string) {
		if armed.Load() {
			end()
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- f.relay.Follow(ctx, f.site) }()
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
	armed.Store(true)
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	var doc work.Document
	if e, err := f.site.Work.Get(t.Context(), key); err != nil || json.Unmarshal(e.Value(), &doc) != nil || doc.ID != w.ID || doc.Epoch != 0 {
		t.Errorf("the site has %+v, error %v", doc, err)
	}
	if left, err := f.store.OutboxBacklog(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%+v stay in the outbox, error %v", left, err)
	}
}
