package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// stamps: whatever changes what is read of a node changes its stamp, which is the same
// however it is read; what changes nothing leaves it.
func stamps(t *testing.T, s *store.Store) {
	n, other := NewNode("n"), NewNode("other")
	n.Traits = []string{"B", "A"}
	Insert(t, s, n, other)
	var w *store.Work
	last := store.Stamp{}
	locked := func(change func(context.Context, *store.Tx, *store.Node) error) func(context.Context, *store.Tx) error {
		return func(ctx context.Context, tx *store.Tx) error {
			found, err := tx.Node(ctx, n.UUID)
			if err != nil {
				return err
			}
			return change(ctx, tx, found)
		}
	}
	for _, step := range []struct {
		name    string
		change  func(context.Context, *store.Tx) error
		changes bool
	}{
		{"nothing", locked(func(context.Context, *store.Tx, *store.Node) error { return nil }), false},
		{"intent", locked(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			n.Description = "changed"
			return tx.UpdateNode(ctx, n)
		}), true},
		{"observation", locked(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			n.BootMode = "uefi"
			return tx.UpdateObservation(ctx, n)
		}), true},
		{"observations", func(ctx context.Context, tx *store.Tx) error {
			found, err := tx.Observed(ctx, []string{n.UUID})
			if err != nil {
				return err
			}
			found[n.UUID].PowerState = "power on"
			return tx.SaveObserved(ctx, []*store.Node{found[n.UUID]})
		}, true},
		{"traits", func(ctx context.Context, tx *store.Tx) error { return tx.SetTraits(ctx, n.UUID, []string{"C"}) }, true},
		{"another node", func(ctx context.Context, tx *store.Tx) error { return tx.SetTraits(ctx, other.UUID, []string{"C"}) }, false},
		{"work alone", locked(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			n.Accept(provision.Deploying, provision.Active, time.Unix(5, 0))
			w = NewWork(n, work.Deploy)
			return tx.InsertWork(ctx, w)
		}), true},
		{"its end", func(ctx context.Context, tx *store.Tx) error { return tx.EndWork(ctx, w.ID, store.WorkEnded, "") }, true},
		{"more work", locked(func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			w = NewWork(n, work.Deploy)
			return tx.InsertWork(ctx, w)
		}), true},
		{"the end of several", func(ctx context.Context, tx *store.Tx) error { return tx.EndWorks(ctx, []*store.Work{w}) }, true},
		{"the node anew", func(ctx context.Context, tx *store.Tx) error {
			if err := tx.DeleteNode(ctx, n.UUID); err != nil {
				return err
			}
			again := NewNode("n")
			again.UUID = n.UUID
			return tx.InsertNode(ctx, again)
		}, true},
	} {
		if last == (store.Stamp{}) {
			last = stamp(t, s, n.UUID)
		}
		update(t, s, step.change)
		now := stamp(t, s, n.UUID)
		if (now != last) != step.changes {
			t.Errorf("%s: the stamp was %v and is %v, want a change: %t", step.name, last, now, step.changes)
		}
		last = now
	}
	if _, err := s.NodeStamp(t.Context(), NewNode("").UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the stamp of a node that there is not: %v, want ErrNotFound", err)
	}
}

// stamp is the node's, read in every way that there is.
func stamp(t *testing.T, s *store.Store, uuid string) store.Stamp {
	t.Helper()
	alone, err := s.NodeStamp(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := s.ShownNode(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	named, err := s.ShownNode(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "stamp of a node", read(t, s, uuid).Stamp(), alone)
	expect(t, "stamp of a node that is shown", shown.Stamp(), alone)
	expect(t, "stamp of a node that is shown by its name", named.Stamp(), alone)
	found := false
	count, err := s.NodeStamps(t.Context(), store.NodeQuery{}, func(id string, stamp store.Stamp) {
		if id == uuid {
			found = true
			expect(t, "stamp on a page", stamp, alone)
		}
	})
	if err != nil || !found || count != 2 {
		t.Errorf("a page of %d stamps, error %v, with the node: %t; want 2 with it", count, err, found)
	}
	return alone
}
