package relay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// busy is a site with an idle node and one that is being deployed, whose rackd has
// reported epoch 4.
type busy struct {
	*fixture
	idle, deploying *store.Node
	work            *store.Work
}

func newBusy(t *testing.T) *busy {
	f := newFixture(t)
	f.follow(f.relay)
	b := &busy{fixture: f, idle: f.enroll("idle", ""), deploying: f.enroll("deploying", "")}
	b.work = f.request(b.deploying, work.Deploy, provision.Deploying, provision.Active)
	b.there("at first", 0)
	b.report(4)
	return b
}

// report records that a rackd has reported of the deploy under epoch.
func (b *busy) report(epoch uint64) {
	b.update(func(ctx context.Context, tx *store.Tx) error {
		nodes, err := tx.Observed(ctx, []string{b.deploying.UUID})
		if err != nil {
			return err
		}
		n := nodes[b.deploying.UUID]
		n.ObservedGeneration, n.ObservedEpoch, n.ObservedState = b.work.Generation, epoch, provision.DeployWait
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
}

// there waits until all documents are at the site, the work's under epoch at least.
func (b *busy) there(when string, epoch uint64) {
	b.Helper()
	for _, n := range []*store.Node{b.idle, b.deploying} {
		b.eventually(when+": node "+n.Name, b.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.Name == n.Name }))
	}
	b.eventually(when+": work", b.site.Work, bus.NodeKey("", b.deploying.UUID), document(func(d work.Document) bool {
		return d.ID == b.work.ID && d.Epoch >= epoch && d.Fresh()
	}))
}

// saved waits until the database knows how a bucket is now.
func (b *busy) saved(bucket string) {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, err := b.stream(bucket).Info(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		row, err := b.store.Bucket(b.Context(), "", bucket)
		if err == nil && row.Last == info.State.LastSeq {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("bucket %s is at revision %d, the database knows %+v: %v", bucket, info.State.LastSeq, row, err)
		}
	}
}

func (b *busy) stream(bucket string) jetstream.Stream {
	b.Helper()
	s, err := b.site.JS.Stream(b.Context(), "KV_"+bucket)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

const far = 4 + 1<<16

func TestPurgedBuckets(t *testing.T) {
	t.Parallel()
	b := newBusy(t)
	for _, bucket := range []string{bus.NodesBucket, bus.WorkBucket} {
		if err := b.stream(bucket).Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.there("after the purge", far)
}

func TestBucketsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBusy(t)
	for _, bucket := range []string{bus.NodesBucket, bus.WorkBucket} {
		cfg := b.stream(bucket).CachedInfo().Config
		if err := b.site.JS.DeleteStream(t.Context(), cfg.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.site.JS.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	b.there("in the new buckets", far)
}

// A key that somebody deleted leaves a marker, by which the stream shows no loss.
func TestDeletedWorkKey(t *testing.T) {
	b := newBusy(t)
	if err := b.site.Work.Purge(t.Context(), bus.NodeKey("", b.deploying.UUID)); err != nil {
		t.Fatal(err)
	}
	b.there("after the key was deleted", far)
}

// A site whose buckets are gone has to be opened again; who follows it then repairs it.
func TestBucketsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &busy{fixture: f, idle: f.enroll("idle", ""), deploying: f.enroll("deploying", "")}
	b.work = f.request(b.deploying, work.Deploy, provision.Deploying, provision.Active)
	ended := make(chan error, 1)
	go func() { ended <- f.relay.Follow(t.Context(), f.site) }()
	b.there("at first", 0)
	b.report(4)
	for _, bucket := range []string{bus.NodesBucket, bus.WorkBucket} {
		if err := b.site.JS.DeleteStream(t.Context(), "KV_"+bucket); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatalf("Follow ended with %v, want that a stream was not found", err)
		}
	case <-time.After(patience):
		t.Fatal("Follow goes on without buckets")
	}
	var err error
	if b.site, err = bus.Open(t.Context(), b.site.Conn, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.follow(f.relay)
	b.there("opened again", far)
}

// A site comes back from a copy of its disk: documents are older than they were, ended
// work is open again, and keys that were deleted are there.
func TestOlderCopyOfTheSite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "jetstream")
	srv, stopServer := bustest.Server(t, dir)
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, store: storetest.Open(t, storetest.SQLite(t)), key: key}
	if f.site, err = bus.Open(t.Context(), bustest.Connect(t, srv), "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.relay = f.newRelay(f.store, time.Hour)
	stopRelay := f.follow(f.relay)
	b := &busy{fixture: f, idle: f.enroll("idle", ""), deploying: f.enroll("deploying", "")}
	gone := f.enroll("gone", "")
	cleaned := f.enroll("cleaned", "")
	cleaning := f.request(cleaned, work.Clean, provision.Cleaning, provision.Manageable)
	b.work = f.request(b.deploying, work.Deploy, provision.Deploying, provision.Active)
	b.there("at first", 0)
	f.eventually("cleaning", f.site.Work, bus.NodeKey("", cleaned.UUID), document(func(d work.Document) bool { return d.ID == cleaning.ID }))

	stopRelay()
	stopServer()
	if err := os.CopyFS(dir+".copy", os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	start := func(dir string) {
		srv, stopServer = bustest.Server(t, dir)
		if f.site, err = bus.Open(t.Context(), bustest.Connect(t, srv), "", bus.Settings{}); err != nil {
			t.Fatal(err)
		}
		stopRelay = f.follow(f.relay)
	}
	start(dir)
	f.update(func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, b.idle.UUID)
		if err != nil {
			return err
		}
		n.Name = "renamed"
		return errors.Join(tx.UpdateNode(ctx, n), tx.DeleteNode(ctx, gone.UUID), tx.EndWorks(ctx, []*store.Work{{ID: cleaning.ID}}),
			tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID}, &store.Outbox{Kind: store.OutboxNode, Node: gone.UUID},
				&store.Outbox{Kind: store.OutboxNode, Node: cleaned.UUID}))
	})
	b.idle.Name = "renamed"
	b.there("later", 0)
	f.eventually("deleted", f.site.Nodes, bus.NodeKey("", gone.UUID), absent)
	f.eventually("cleaned", f.site.Work, bus.NodeKey("", cleaned.UUID), absent)
	b.report(4)
	b.saved(bus.NodesBucket)
	b.saved(bus.WorkBucket)
	stopRelay()
	stopServer()

	// Every replica was down meanwhile: a new process has the database's memory only.
	f.relay = f.newRelay(f.store, time.Hour)
	start(dir + ".copy")
	b.there("after the older copy", far)
	f.eventually("deleted after the older copy", f.site.Nodes, bus.NodeKey("", gone.UUID), absent)
	f.eventually("cleaned after the older copy", f.site.Work, bus.NodeKey("", cleaned.UUID), absent)
}

// Work that no entry has sent out yet is not taken for lost, and goes out as new.
func TestWorkOnItsWayIsNotLost(t *testing.T) {
	f := newFixture(t)
	n := f.enroll("n", "")
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	waiting, err := f.store.OwnOutbox(t.Context(), "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	// The relay of another replica, which is not told of the entries and is to leave
	// them alone for now, but compares the keys with the rows.
	another, err := store.Open(t.Context(), f.address, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	f.follow(f.newRelay(another, time.Hour))
	f.eventually("node", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.UUID == n.UUID }))
	if _, err := f.site.Work.Get(t.Context(), bus.NodeKey("", n.UUID)); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatalf("the work was sent out before its entry: %v", err)
	}
	f.follow(f.relay)
	f.eventually("work", f.site.Work, bus.NodeKey("", n.UUID), document(func(d work.Document) bool { return d.ID == w.ID && d.Epoch == 0 }))
	if len(waiting) == 0 {
		t.Error("nothing waited in the outbox: the test shows nothing")
	}
}

// A rackd that has found a loss is believed at once, however rarely central looks.
func TestRackdTellsOfALoss(t *testing.T) {
	f := newFixture(t)
	n := f.enroll("n", "")
	f.follow(relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Look: time.Hour,
		Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }}))
	there := func() {
		f.eventually("node", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.UUID == n.UUID }))
	}
	there()
	stream, err := f.site.JS.Stream(t.Context(), "KV_"+bus.NodesBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.site.Conn.Publish(bus.BeatSubject("", "r"), []byte("instance lost")); err != nil {
		t.Fatal(err)
	}
	there()
}

// A stolen rackd says all the time that the site has lost something. Central looks now and then, and no more.
func TestRackdTellsOfALossAllTheTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.enroll("n", "")
	f.follow(relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Look: time.Hour,
		Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }}))
	f.eventually("node", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.UUID == n.UUID }))
	asks, err := f.site.Conn.SubscribeSync("$JS.API.STREAM.INFO.KV_" + bus.WorkBucket)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := f.site.Conn.Publish(bus.BeatSubject("", "r"), []byte("instance lost")); err != nil {
			t.Fatal(err)
		}
	}
	looks, _, err := asks.Pending()
	if err != nil {
		t.Fatal(err)
	}
	if looks == 0 || looks > 5 {
		t.Errorf("central has looked %d times within 3 s", looks)
	}
}

// What an idle site costs the WAN does not grow with its nodes.
func TestIdleCost(t *testing.T) {
	const nodes, looks = 300, 20
	f := newFixture(t)
	var list []*store.Node
	for i := range nodes {
		n := storetest.NewNode(fmt.Sprintf("n%d", i))
		n.DriverInfo = nil
		list = append(list, n)
	}
	storetest.Insert(t, f.store, list...)
	const every = 20 * time.Millisecond
	r := relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Look: every,
		Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }})
	f.follow(r)
	for _, n := range list {
		f.eventually("node", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.UUID == n.UUID }))
	}
	before, began := f.site.Conn.Stats(), time.Now()
	deadline := time.After(30 * time.Second)
	for f.site.Conn.Stats().OutMsgs < before.OutMsgs+2*looks {
		select {
		case <-time.After(every):
		case <-deadline:
			t.Fatal("the relay does not look at its site")
		}
	}
	after := f.site.Conn.Stats()
	requests := after.OutMsgs - before.OutMsgs
	bytes := after.OutBytes - before.OutBytes + after.InBytes - before.InBytes
	t.Logf("%d requests, %d bytes each, in %v", requests, bytes/requests, time.Since(began))
	if bytes/requests > 2048 {
		t.Errorf("a request and its answer take %d bytes with %d nodes, want 2 KiB at most", bytes/requests, nodes)
	}
}
