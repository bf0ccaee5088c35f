package relay_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// create adds a node as the API does: its entry brings the node along.
func (f *fixture) create(n *store.Node) {
	f.Helper()
	n.ConductorGroup, n.DriverInfo = "", nil // storetest's are not sealed
	f.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertNode(ctx, n); err != nil {
			return err
		}
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Left: n})
	})
	if !n.IsNew() {
		f.Fatalf("a node that has just been inserted does not count as new: revision %d, created %v", n.Revision, n.CreatedAt)
	}
}

// The keys of a new node are taken for empty. Where they are not, its documents are what
// the rows say all the same.
func TestKeysOfNewNodes(t *testing.T) {
	f := newFixture(t)
	plain, again, busy := storetest.NewNode("plain"), storetest.NewNode("again"), storetest.NewNode("busy")
	older, err := f.site.Nodes.PutString(t.Context(), bus.NodeKey("", again.UUID), `{"uuid":"`+again.UUID+`","name":"older","revision":1}`)
	if err != nil {
		t.Fatal(err)
	}
	f.follow(f.relay)
	f.create(plain)
	f.create(again)
	f.create(busy)
	w := f.request(busy, work.Deploy, provision.Deploying, provision.Active)
	for _, n := range []*store.Node{plain, again, busy} {
		f.eventually("created", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.Name == n.Name }))
	}
	f.eventually("work", f.site.Work, bus.NodeKey("", busy.UUID), document(func(d work.Document) bool { return d.ID == w.ID }))
	e, err := f.site.Nodes.Get(t.Context(), bus.NodeKey("", again.UUID))
	if err != nil || e.Revision() <= older {
		t.Errorf("the key that was taken: %v, %v", e, err)
	}
}

// A document comes with the revision that unseen changes have brought its row to, also when a
// site has lost it.
func TestDocumentsAfterUnseenChanges(t *testing.T) {
	f := newFixture(t)
	f.follow(f.relay)
	n := storetest.NewNode("n")
	f.create(n)
	key := bus.NodeKey("", n.UUID)
	var first, last node.Document
	f.eventually("created", f.site.Nodes, key, shows(n.UUID, func(d *node.Document) bool { first = *d; return d.Name == "n" }))
	change := func(do func(n *store.Node)) {
		f.update(func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, n.UUID)
			if err != nil {
				return err
			}
			do(n)
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
			return tx.Tell(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Left: n})
		})
	}
	change(func(n *store.Node) { n.Description = "unseen" })
	change(func(n *store.Node) { n.Name = "seen" })
	f.eventually("changed", f.site.Nodes, key, shows(n.UUID, func(d *node.Document) bool { last = *d; return d.Name == "seen" }))
	if last.Revision != first.Revision+2 {
		t.Errorf("the document is of revision %d after %d, want two more", last.Revision, first.Revision)
	}
	change(func(n *store.Node) { n.Extra = map[string]any{"a": "b"} })
	stream, err := f.site.JS.Stream(t.Context(), "KV_"+bus.NodesBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.eventually("written again", f.site.Nodes, key, shows(n.UUID, func(d *node.Document) bool {
		return d.Revision == last.Revision+1 && d.Name == "seen"
	}))
}

// A node is deleted by another replica before the one that created it has sent its first document:
// that must not come afterwards, though it is sent without a look at the row.
func TestDeletedBeforeItWasSent(t *testing.T) {
	f := newFixture(t)
	stands, goes, done := make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
	var armed atomic.Bool
	point(t, "relay.publish", func(string) {
		if armed.CompareAndSwap(true, false) {
			close(stands)
			<-goes
		}
	})
	point(t, "relay.published", func(string) { done <- struct{}{} })
	f.follow(f.relay)
	f.create(storetest.NewNode("first")) // after it the relay is handed what is committed, and reads no entries
	receive(t, done)
	armed.Store(true)
	n := storetest.NewNode("n")
	f.create(n)
	receive(t, stands)

	other, deleted := storetest.Open(t, f.address), &store.Outbox{Kind: store.OutboxNode, Node: n.UUID}
	f.follow(f.newRelay(other, time.Hour))
	err := other.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.DeleteNode(ctx, n.UUID), tx.Enqueue(ctx, deleted))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.forgotten(deleted)
	for len(done) > 0 {
		receive(t, done)
	}
	close(goes)
	receive(t, done)
	if e, err := f.site.Nodes.Get(t.Context(), bus.NodeKey("", n.UUID)); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("the document of a node that was deleted: %v, error %v", e, err)
	}
}

// forgotten waits until an entry is published and deleted.
func (f *fixture) forgotten(o *store.Outbox) {
	f.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		// An entry of this very millisecond is not older than now.
		left, err := f.store.OldOutbox(f.Context(), "", "", -time.Minute, 100)
		switch {
		case err != nil:
			f.Fatal(err)
		case !slices.ContainsFunc(left, func(e *store.Outbox) bool { return e.ID == o.ID }):
			return
		case time.Since(began) > patience:
			f.Fatalf("the entry about node %s stays", o.Node)
		}
	}
}
