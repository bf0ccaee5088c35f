package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// revisions holds that a node's revisions grow whichever replica writes, whatever its clock says, and go on where
// those of a deleted node of the same UUID ended.
func revisions(t *testing.T, address string) {
	replicas := map[string]*store.Store{}
	for name, off := range map[string]time.Duration{"right": 0, "ahead": 5 * time.Hour, "behind": -5 * time.Hour} {
		replicas[name] = open(t, address, store.Options{Origin: name, Now: func() time.Time { return time.Now().Add(off) }})
	}
	n := NewNode("n")
	last, seen := int64(0), int64(0)
	for i, by := range []string{"ahead", "behind", "right", "behind", "ahead", "right"} {
		s := replicas[by]
		for _, step := range []struct {
			name string
			do   func(context.Context, *store.Tx) error
			seen bool // by the node's rack
		}{
			{"enrolled", func(ctx context.Context, tx *store.Tx) error {
				again := NewNode("n")
				again.UUID = n.UUID
				return tx.InsertNode(ctx, again)
			}, true},
			{"changed", func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, n.UUID)
				if err != nil {
					return err
				}
				n.Properties = map[string]any{"by": by}
				return tx.UpdateNode(ctx, n)
			}, true},
			{"changed unseen", func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, n.UUID)
				if err != nil {
					return err
				}
				n.Description = by
				return tx.UpdateNode(ctx, n)
			}, false},
			{"given traits", func(ctx context.Context, tx *store.Tx) error { return tx.SetTraits(ctx, n.UUID, []string{"A"}) }, true},
			{"given a port", func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertPort(ctx, &store.Port{UUID: store.NewID(), Node: n.UUID, Address: "52:54:00:00:00:01"})
			}, true},
			{"touched", func(ctx context.Context, tx *store.Tx) error { return tx.Touch(ctx, n.UUID) }, false},
		} {
			update(t, s, step.do)
			now := read(t, s, n.UUID)
			if now.Revision <= last {
				t.Errorf("node %d %s by the replica whose clock is %s: revision %d after %d", i, step.name, by, now.Revision, last)
			}
			if moved := now.RackRevision == now.Revision; moved != step.seen || !moved && now.RackRevision != seen {
				t.Errorf("node %d %s by the replica whose clock is %s: its rack has to have revision %d after %d, the node has %d",
					i, step.name, by, now.RackRevision, seen, now.Revision)
			}
			last, seen = now.Revision, now.RackRevision
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteNode(ctx, n.UUID) })
	}
}
