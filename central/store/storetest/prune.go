package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// What is old goes, a batch at a time, of one node and of no other; the newest stays, and what is open.
func prune(t *testing.T, s *store.Store) {
	busy, idle := NewNode("busy"), NewNode("idle")
	Insert(t, s, busy)
	Insert(t, s, idle)
	for _, n := range []*store.Node{busy, idle} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			var lines []*store.HistoryEntry
			for i := range 12 {
				lines = append(lines, &store.HistoryEntry{Node: n.UUID, Event: fmt.Sprint(i), CreatedAt: time.Unix(int64(i/2), 0)}) // two of each time
			}
			return tx.AppendHistory(ctx, lines...)
		})
	}
	var first, last string
	for i := range 4 {
		w := NewWork(busy, work.Deploy)
		busy.Accept(provision.Deploying, provision.Active, time.Unix(int64(i), 0))
		w.Generation = busy.Generation
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.UpdateNode(ctx, busy); err != nil {
				return err
			}
			if err := tx.InsertWork(ctx, w); err != nil || i == 3 {
				return err
			}
			return tx.EndWork(ctx, w.ID, store.WorkEnded, "")
		})
		if i == 0 {
			first = w.ID
		}
		last = w.ID
	}
	surplus := func(ended time.Time) map[string]store.Surplus {
		t.Helper()
		of := map[string]store.Surplus{}
		for after := ""; ; {
			page, err := s.Surpluses(t.Context(), after, ended, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return of
			}
			after, of[page[0].Node] = page[0].Node, page[0]
		}
	}
	soon := time.Now().Add(time.Hour)
	expect(t, "of all nodes", len(surplus(soon)), 2)
	expect(t, "of the busy one", surplus(soon)[busy.UUID], store.Surplus{Node: busy.UUID, History: 12, OldWorks: 3})
	expect(t, "of the idle one", surplus(soon)[idle.UUID], store.Surplus{Node: idle.UUID, History: 12})
	expect(t, "before any work", surplus(time.Unix(1, 0))[busy.UUID].OldWorks, 0)
	for _, want := range []int64{3, 3, 1, 0} {
		n, err := s.PruneHistory(t.Context(), busy.UUID, 5, 3)
		expect(t, "removed of history", n, want)
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.History(t.Context(), store.HistoryQuery{Node: busy.UUID})
	if err != nil || len(list) != 5 || list[4].Event != "10" && list[4].Event != "11" {
		t.Errorf("left: %d, %v", len(list), err)
	}
	expect(t, "of the other's history", surplus(soon)[idle.UUID].History, 12)
	for _, want := range []int64{2, 1, 0} {
		n, err := s.PruneWorks(t.Context(), busy.UUID, soon, 2)
		expect(t, "removed works", n, want)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Work(t.Context(), first); err == nil {
		t.Error("the oldest work is still there")
	}
	if w, err := s.Work(t.Context(), last); err != nil || w.State != store.WorkOpen {
		t.Errorf("the open work: %+v, %v", w, err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.EndWork(ctx, last, store.WorkEnded, "") })
	if n, err := s.PruneWorks(t.Context(), busy.UUID, soon, 2); err != nil || n != 0 {
		t.Errorf("the newest work: %d removed, %v", n, err)
	}
}
