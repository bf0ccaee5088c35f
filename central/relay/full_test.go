package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The servers of a site have no room left, and refuse the first work of a node, whose document they have just taken. Nothing of it was
// written, so it is new once there is room. Work that is taken for lost fails in steps that cannot be repeated.
func TestWorkThatAFullSiteRefusesIsNotLost(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamMaxStore: 48 << 20, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	f := newFixture(t)
	if f.site, err = bus.Open(t.Context(), bustest.Connect(t, srv), "", bus.Settings{EventsBytes: 4 << 20, DrivesBytes: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	f.follow(f.newRelay(f.store, 100*time.Millisecond))
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, func(body []byte) bool { return body != nil })
	fill, err := f.site.JS.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILL", Subjects: []string{"fill"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	// There is room for one more small message at last. The node's document takes it, for it has grown.
	for _, size := range []int{1 << 19, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = f.site.JS.Publish(t.Context(), "fill", make([]byte, size))
		}
		if _, refused := errors.AsType[*jetstream.APIError](err); !refused {
			t.Fatal(err)
		}
		info, err := fill.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := fill.DeleteMsg(t.Context(), info.State.LastSeq); err != nil {
			t.Fatal(err)
		}
	}
	var w *store.Work
	f.update(func(ctx context.Context, tx *store.Tx) error {
		fresh, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		fresh.DriverInfo["note"] = strings.Repeat("n", 1000)
		fresh.Accept(provision.Deploying, provision.Active, time.Now())
		w = storetest.NewWork(fresh, work.Deploy)
		w.ID = uuid.NewString()
		return errors.Join(tx.UpdateNode(ctx, fresh), tx.InsertWork(ctx, w), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Object: w.ID}))
	})
	claimed := time.Time{}
	for end := time.Now().Add(patience); claimed.IsZero() || time.Since(claimed) < 10*settle; time.Sleep(5 * time.Millisecond) {
		claims, err := f.store.Claims(t.Context(), "", []string{w.ID})
		if err != nil {
			t.Fatal(err)
		}
		if revision, waits := claims[w.ID]; waits && revision > 0 && claimed.IsZero() {
			claimed = time.Now() // the relay has tried; it does again
		}
		if time.Now().After(end) {
			t.Fatal("the work is not claimed")
		}
	}
	if _, err := f.site.Work.Get(t.Context(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatal("a full site takes the work:", err)
	}
	if err := fill.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var doc work.Document
	f.eventually("written", f.site.Work, key, document(func(d work.Document) bool { doc = d; return d.ID == w.ID }))
	if doc.Lost || doc.Epoch >= work.LostEpochs {
		t.Errorf("the work begins under epoch %d, lost %t", doc.Epoch, doc.Lost)
	}
}
