package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
)

// pruneByOrder holds that the lines that were written first go first, whatever clocks their ids come from. The
// writer may name the node's revision or leave it to the store.
func pruneByOrder(t *testing.T, s *store.Store) {
	for name, off := range map[string]time.Duration{"behind": -5 * time.Hour, "ahead": 5 * time.Hour} {
		for _, named := range []bool{false, true} {
			n := NewNode(fmt.Sprint(name, named))
			Insert(t, s, n)
			write := func(event string, off time.Duration) {
				t.Helper()
				update(t, s, func(ctx context.Context, tx *store.Tx) error {
					n, err := tx.Node(ctx, n.UUID)
					if err != nil {
						return err
					}
					n.Description = event
					if err := tx.UpdateNode(ctx, n); err != nil {
						return err
					}
					h := &store.HistoryEntry{UUID: idAt(time.Now().Add(off)), Node: n.UUID, Event: event}
					if named {
						h.Revision = n.Revision
					}
					return tx.AppendHistory(ctx, h)
				})
			}
			for i := range 3 {
				write(fmt.Sprint("before ", i), 0)
			}
			for i := range 3 {
				write(fmt.Sprint("then ", i), off)
			}
			for i := range 4 {
				write(fmt.Sprint("last ", i), 0)
			}
			if removed, err := s.PruneHistory(t.Context(), n.UUID, 5, 100); err != nil || removed != 5 {
				t.Errorf("%s: %d lines removed, %v", name, removed, err)
			}
			list, err := s.History(t.Context(), store.HistoryQuery{Node: n.UUID})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, h := range list {
				left = append(left, h.Event)
			}
			if want := []string{"then 2", "last 0", "last 1", "last 2", "last 3"}; !slices.Equal(left, want) {
				t.Errorf("the clock is %s, revision named: %v: %q are left, want %q", name, named, left, want)
			}
		}
	}
}

// idAt is what store.NewID returns where the clock says at.
func idAt(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	return id.String()
}
