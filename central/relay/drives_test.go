package relay_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// keep has a node keep a config drive, as dispatch does with the one of a request.
func (f *fixture) keep(n *store.Node, drive string) {
	f.update(func(ctx context.Context, tx *store.Tx) error {
		return tx.SetConfigDrive(ctx, &store.ConfigDrive{Node: n.UUID, Drive: f.key.Seal(seal.Label{Kind: seal.StoredDrive, Of: n.UUID}, drive)})
	})
}

// drive waits until the site's store holds a work's config drive that is one of wants: "sealed" is the one
// of the outbox, which may be published twice, anything else what the drive that the node keeps opens as.
func (f *fixture) drive(when string, w *store.Work, wants ...string) {
	f.Helper()
	key, err := f.key.ForGroup("")
	if err != nil {
		f.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := f.site.Drives.GetString(f.Context(), w.ID)
		if err == nil && got != "sealed" {
			got, err = key.Open(seal.Label{Kind: seal.SentDrive, Of: w.Node, Work: w.ID}, got)
		}
		if err == nil && slices.Contains(wants, got) {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("%s: the drive is %q, %v", when, got, err)
		}
	}
}

// missed tells again and again, as a rackd does, that something is missed.
func (f *fixture) missed(t *testing.T) error {
	every := time.NewTicker(100 * time.Millisecond)
	t.Cleanup(every.Stop)
	tell := func() error { return f.site.Conn.Publish(bus.BeatSubject("", "r"), []byte("instance lost")) }
	go func() {
		for t.Context().Err() == nil {
			select {
			case <-every.C:
				_ = tell()
			case <-t.Context().Done():
			}
		}
	}()
	return tell()
}

// A site that loses its config drives between a request and the moment at which its rackd reads them gets
// those of open works again.
func TestLostConfigDrives(t *testing.T) {
	t.Parallel()
	stream := func(t *testing.T, f *fixture) jetstream.Stream {
		s, err := f.site.JS.Stream(t.Context(), "OBJ_"+bus.ConfigDrives)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, lose := range map[string]func(t *testing.T, f *fixture, w *store.Work) error{
		"made anew": func(t *testing.T, f *fixture, _ *store.Work) error {
			cfg := stream(t, f).CachedInfo().Config
			err := f.site.JS.DeleteStream(t.Context(), cfg.Name)
			_, again := f.site.JS.CreateStream(t.Context(), cfg)
			return errors.Join(err, again)
		},
		"purged, as a rackd tells": func(t *testing.T, f *fixture, _ *store.Work) error {
			err := stream(t, f).Purge(t.Context())
			return errors.Join(err, f.missed(t))
		},
		"deleted, as a rackd tells": func(t *testing.T, f *fixture, w *store.Work) error {
			err := f.site.Drives.Delete(t.Context(), w.ID)
			return errors.Join(err, f.missed(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.follow(f.relay)
			n := f.enroll("n", "")
			f.keep(n, "the drive")
			w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
			f.drive("at first", w, "sealed", "the drive")
			f.eventually("work", f.site.Work, bus.NodeKey("", n.UUID), document(func(d work.Document) bool { return d.ID == w.ID }))
			if err := lose(t, f, w); err != nil {
				t.Fatal(err)
			}
			f.drive("after the loss", w, "the drive", "sealed")
		})
	}
}

// A site whose store of config drives is gone has to be opened again; the relay that follows it then writes
// the drives of open works, also the one that could not be put meanwhile.
func TestStoreOfConfigDrivesGone(t *testing.T) {
	f := newFixture(t)
	n, later := f.enroll("n", ""), f.enroll("later", "")
	f.keep(n, "the drive")
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	ended := make(chan error, 1)
	go func() { ended <- f.relay.Follow(t.Context(), f.site) }()
	f.drive("at first", w, "sealed", "the drive")
	if err := f.site.JS.DeleteObjectStore(t.Context(), bus.ConfigDrives); err != nil {
		t.Fatal(err)
	}
	second := f.request(later, work.Deploy, provision.Deploying, provision.Active)
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatalf("Follow ended with %v, want that a stream was not found", err)
		}
	case <-time.After(patience):
		t.Fatal("Follow goes on without the store")
	}
	var err error
	if f.site, err = bus.Open(t.Context(), f.site.Conn, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.follow(f.newRelay(f.store, 50*time.Millisecond))
	f.drive("opened again", w, "the drive", "sealed")
	f.drive("the one that waited", second, "sealed")
}

// A central with the fleet's permissions may do so too.
func TestLostConfigDriveWithCentralsPermissions(t *testing.T) {
	f := newFixture(t)
	site, central := bustest.Fleet(t)
	f.site = central
	n := f.enroll("n", "")
	f.keep(n, "the drive")
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	r := f.newRelay(f.store, time.Hour)
	stop := f.follow(r)
	f.eventually("work", site.Work, bus.NodeKey("", n.UUID), document(func(d work.Document) bool { return d.ID == w.ID }))
	stop()
	if err := site.Drives.Delete(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	f.follow(relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Look: 50 * time.Millisecond, Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }}))
	reader := *f // central may not read drives
	reader.site = site
	reader.drive("after it was deleted", w, "the drive")
}

// Only open work needs a config drive: an idle site is asked for their store once. A loss shows once work is open,
// also one from before that, and a store that has gone is made again for the drive that comes.
func TestIdleSitesAreNotAskedForDrives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asks, err := f.site.Conn.SubscribeSync("$JS.API.STREAM.INFO.OBJ_" + bus.ConfigDrives)
	if err != nil {
		t.Fatal(err)
	}
	looks, err := f.site.Conn.SubscribeSync("$JS.API.STREAM.INFO.KV_" + bus.WorkBucket)
	if err != nil {
		t.Fatal(err)
	}
	seen := func(n int) (asked int) {
		t.Helper()
		for range n {
			if _, err := looks.NextMsg(patience); err != nil {
				t.Fatal(err)
			}
		}
		asked, _, err := asks.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return asked
	}
	ended := make(chan error, 1)
	go func() { ended <- f.relay.Follow(t.Context(), f.site) }()
	first := seen(4)
	if again := seen(6); first == 0 || again != first {
		t.Errorf("the site was asked for the store of config drives %d times by the fourth look, %d times by the tenth", first, again)
	}
	if err := f.site.JS.DeleteObjectStore(t.Context(), bus.ConfigDrives); err != nil {
		t.Fatal(err)
	}
	n := f.enroll("n", "")
	f.keep(n, "the drive")
	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatalf("Follow ended with %v, want that a stream was not found", err)
		}
	case <-time.After(patience):
		t.Fatal("Follow goes on without the store")
	}
	if f.site, err = bus.Open(t.Context(), f.site.Conn, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.follow(f.newRelay(f.store, 50*time.Millisecond))
	f.drive("opened again", w, "the drive", "sealed")
}

// The config drive that the machine of an instance reads stays at its site with the instance, and not with the work that brought it. The
// site is given it again when it has lost it. It goes with the instance, or with the node.
func TestConfigDriveOfAnInstance(t *testing.T) {
	t.Parallel()
	for _, ends := range []string{"the instance", "the node"} {
		t.Run(ends, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.follow(f.relay)
			n := f.enroll("n", "")
			f.keep(n, "the drive")
			w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
			f.drive("at first", w, "sealed", "the drive")
			key := bus.NodeKey("", n.UUID)
			// Each transaction brings its own row: once stored, the relay reads the one it was given.
			tell := func() *store.Outbox {
				return &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup}
			}
			noted := func(files map[string]any, end bool) {
				t.Helper()
				f.update(func(ctx context.Context, tx *store.Tx) error {
					fresh, err := tx.Node(ctx, n.UUID)
					if err != nil {
						return err
					}
					fresh.DriverInternalInfo = map[string]any{node.InstanceFilesKey: files}
					if files == nil {
						fresh.DriverInternalInfo = map[string]any{}
					}
					if end {
						err = tx.EndWork(ctx, w.ID, store.WorkEnded, "")
					}
					return errors.Join(err, tx.UpdateObservation(ctx, fresh), tx.Enqueue(ctx, tell()))
				})
			}
			f.eventually("work", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID }))
			noted(map[string]any{node.FileDrive: "0f", node.FileMedium: w.ID}, false)
			f.eventually("what it reads", f.site.Nodes, key, func(body []byte) bool { return bytes.Contains(body, []byte(w.ID)) })
			noted(map[string]any{node.FileDrive: "0f", node.FileMedium: w.ID, node.FileMediumAt: "http://a"}, true)
			f.eventually("the end of the work", f.site.Work, key, absent)
			f.drive("after the work", w, "sealed", "the drive")
			if err := errors.Join(f.site.Drives.Delete(t.Context(), w.ID), f.missed(t)); err != nil {
				t.Fatal(err)
			}
			f.drive("after its loss", w, "the drive")
			if ends == "the instance" {
				noted(nil, false)
			} else {
				f.update(func(ctx context.Context, tx *store.Tx) error {
					fresh, err := tx.Node(ctx, n.UUID)
					if err != nil {
						return err
					}
					return errors.Join(tx.DeleteNode(ctx, fresh.UUID), tx.Enqueue(ctx, tell()))
				})
			}
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				if _, err := f.site.Drives.GetInfo(t.Context(), w.ID); errors.Is(err, jetstream.ErrObjectNotFound) {
					break
				} else if time.Now().After(end) {
					t.Fatalf("the drive is there after the end of %s: %v", ends, err)
				}
			}
		})
	}
}
