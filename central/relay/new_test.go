package relay_test

import (
	"context"
	"testing"

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
		f.eventually("created", f.site.Nodes, bus.NodeKey("", n.UUID), document(func(d node.Document) bool { return d.Name == n.Name }))
	}
	f.eventually("work", f.site.Work, bus.NodeKey("", busy.UUID), document(func(d work.Document) bool { return d.ID == w.ID }))
	e, err := f.site.Nodes.Get(t.Context(), bus.NodeKey("", again.UUID))
	if err != nil || e.Revision() <= older {
		t.Errorf("the key that was taken: %v, %v", e, err)
	}
}
