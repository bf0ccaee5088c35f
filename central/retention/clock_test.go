package retention_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/retention"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Lines bear the time of their event, by the clock of the rackd that told it. What is pruned is what was written first.
func TestWhatWasWrittenLastIsKept(t *testing.T) {
	const node = "11111111-2222-4333-8444-555555555555"
	for name, c := range map[string]struct{ before, now time.Duration }{
		"after lines of a clock that was ahead":  {365 * 24 * time.Hour, 0},
		"by a clock that is behind by now":       {0, -365 * 24 * time.Hour},
		"by a clock that has always been behind": {-365 * 24 * time.Hour, -365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), storetest.SQLite(t), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			add := func(n int, at time.Time, text string) {
				t.Helper()
				err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
					for i := range n {
						if err := tx.AppendHistory(ctx, &store.HistoryEntry{Node: node, CreatedAt: at.Add(time.Duration(i) * time.Second), Event: fmt.Sprintf("%s %d", text, i)}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertNode(ctx, &store.Node{UUID: node, Driver: "fake-hardware", AcceptedState: provision.Enroll})
			}); err != nil {
				t.Fatal(err)
			}
			add(300, time.Now().Add(c.before), "before")
			add(40, time.Now().Add(c.now), "today")
			if err := retention.New(retention.Config{Rows: s, Before: byThisHost, Log: slog.New(slog.DiscardHandler)}).Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			lines, err := s.History(t.Context(), store.HistoryQuery{Node: node, Page: store.Page{Limit: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			today := 0
			for _, l := range lines {
				if strings.HasPrefix(l.Event, "today") {
					today++
				}
			}
			if len(lines) != 300 || today != 40 {
				t.Errorf("%d lines are left, and %d of the 40 that were written last", len(lines), today)
			}
		})
	}
}
