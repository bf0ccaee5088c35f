package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// groupKeys are kept by the group's name, whatever its case; a group without a row has generation 0.
func groupKeys(t *testing.T, s *store.Store) {
	if g, err := s.GroupKey(t.Context(), "Rack-A"); err != nil || !reflect.DeepEqual(g, &store.GroupKey{Group: "rack-a"}) {
		t.Errorf("a group without a row: %+v, error %v", g, err)
	}
	if list, err := s.GroupKeys(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("rows at first: %+v, error %v", list, err)
	}
	at := time.Date(2026, 11, 24, 10, 0, 0, 123000, time.UTC) // to the microsecond
	whole := &store.GroupKey{Group: "rack-a", Newest: 3, Sealing: 2, Oldest: 1, Stage: "handing out", StageAt: at, BeganAt: at.Add(-time.Hour), Hastened: 1, Counted: 77, CountedOf: "3 handing out"}
	defaults := &store.GroupKey{Newest: 1, Sealing: 1, Oldest: 1, StageAt: at, BeganAt: at} // of the group without a name
	put := func(list ...*store.GroupKey) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			for _, g := range list {
				if err := tx.PutGroupKey(ctx, g); err != nil {
					return err
				}
			}
			return nil
		})
	}
	same := func(when string, want ...*store.GroupKey) {
		t.Helper()
		list, err := s.GroupKeys(t.Context())
		if err != nil || len(list) != len(want) {
			t.Fatalf("%s: %d rows, error %v, want %d", when, len(list), err, len(want))
		}
		for i, g := range want {
			for _, got := range []*store.GroupKey{list[i], one(t, s, g.Group)} {
				if got.StageAt, got.BeganAt = got.StageAt.UTC(), got.BeganAt.UTC(); !reflect.DeepEqual(got, g) {
					t.Errorf("%s: row %+v, want %+v", when, got, g)
				}
			}
		}
	}
	put(whole, defaults)
	same("two groups, in their order", defaults, whole)
	if g, err := s.GroupKey(t.Context(), "RACK-A"); err != nil || g.Newest != 3 {
		t.Errorf("in another case: %+v, error %v", g, err)
	}
	over := *whole
	over.Sealing, over.Oldest, over.Stage, over.StageAt, over.Hastened, over.Counted = 3, 3, "", at.Add(time.Hour), 0, 78
	put(&over)
	same("written again", defaults, &over)

	failed := errors.New("given up")
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		g, err := tx.GroupKey(ctx, "Rack-A")
		if err != nil || g.Newest != 3 {
			t.Errorf("in a transaction: %+v, error %v", g, err)
		}
		g.Newest++
		if err := tx.PutGroupKey(ctx, g); err != nil {
			return err
		}
		if again, err := tx.GroupKey(ctx, "rack-a"); err != nil || again.Newest != 4 {
			t.Errorf("what the transaction has written: %+v, error %v", again, err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("a transaction that is given up: %v", err)
	}
	same("after one that was given up", defaults, &over)
}

func one(t *testing.T, s *store.Store, group string) *store.GroupKey {
	t.Helper()
	g, err := s.GroupKey(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
