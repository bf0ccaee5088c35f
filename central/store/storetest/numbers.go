package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// numbering: whichever replicas write and number at once, each number is given once, without
// gaps, and whoever follows the numbers misses nothing. Some replicas share commits and number
// what they write themselves; others do not, as on CockroachDB.
func numbering(t *testing.T, address func(testing.TB) string) {
	for name, apart := range map[string][2]bool{"both in turn": {}, "one in turn": {false, true}, "none in turn": {true, true}} {
		t.Run(name, func(t *testing.T) {
			at := address(t)
			first, second := open(t, at, store.Options{Apart: apart[0]}), open(t, at, store.Options{Apart: apart[1]})
			inTurn := !apart[1] && first.Engine() != "cockroachdb"
			numberWhileWritten(t, inTurn, first, second)
			if inTurn {
				told := map[string]string{}
				for _, c := range followed(t, first) {
					told[c.Object] += c.Action + " "
				}
				for object, actions := range told {
					expect(t, "what happened to "+object, actions, "create update ")
				}
			}
		})
	}
}

// numberWhileWritten lets stores of one database write, number and follow at once.
func numberWhileWritten(t *testing.T, inTurn bool, stores ...*store.Store) {
	const writers, writes = 3, 8
	ctx := store.WithCause(t.Context(), &store.Cause{}) // a request's: an update is told of
	var writing, numbering sync.WaitGroup
	done := make(chan struct{})
	for i, s := range stores {
		for w := range writers {
			writing.Go(func() {
				for k := range writes {
					n := NewNode(fmt.Sprintf("n-%d-%d-%d", i, w, k))
					if err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, n) }); err != nil {
						t.Error(err)
						return
					}
					if err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
						row, err := tx.Node(ctx, n.UUID)
						if err != nil {
							return err
						}
						row.Description = "changed"
						return tx.UpdateNode(ctx, row)
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		numbering.Go(func() { numberUntil(t, s, inTurn, done) })
	}
	changes := map[string]int{}
	last := int64(0)
	follow := func() {
		list, err := stores[0].Changes(t.Context(), last, 10)
		if err != nil {
			t.Error(err)
		}
		for _, c := range list {
			if c.Seq != last+c.Numbers() {
				t.Errorf("number %d follows %d, want %d", c.Seq, last, last+c.Numbers())
			}
			last = c.Seq
			changes[c.Object]++
		}
	}
	total := len(stores) * writers * writes
	for len(changes) < total/2 && !t.Failed() {
		follow()
	}
	writing.Wait()
	close(done)
	numbering.Wait()
	for range total {
		follow()
	}
	expect(t, "nodes followed", len(changes), total)
	for object, n := range changes {
		expect(t, "changes of "+object, n, 2)
	}
}

// numberUntil numbers what has no number, at least once more after done.
func numberUntil(t *testing.T, s *store.Store, inTurn bool, done <-chan struct{}) {
	for ended := false; ; {
		n, err := s.NumberChanges(t.Context(), 7)
		if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrBusy) {
			t.Error(err)
			return
		}
		if inTurn && n.Count > 0 {
			t.Errorf("%d changes were written without a number", n.Count)
		}
		if ended && err == nil && n.Count == 0 {
			return
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
}

// numberAll numbers what has no number.
func numberAll(t *testing.T, s *store.Store) {
	t.Helper()
	for {
		n, err := s.NumberChanges(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if n.Count < 3 {
			return
		}
	}
}

// followed returns all changes, and checks that no number is missing.
func followed(t *testing.T, s *store.Store) []*store.Change {
	t.Helper()
	numberAll(t, s)
	list, err := s.Changes(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, c := range list {
		if c.Seq-c.Numbers() != last {
			t.Errorf("number %d (%s of %s) follows %d", c.Seq, c.Action, c.Object, last)
		}
		last = c.Seq
	}
	r, err := s.ChangeRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the newest number", r.Newest, last)
	return list
}

// claims: of those who claim changes at once each gets some, in order, and nobody gets one
// that another has.
func claims(t *testing.T, s *store.Store) {
	const changes = 40
	Insert(t, s, numbered("n", changes)...)
	numberAll(t, s)
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := int64(0); ; {
				list, err := s.ClaimChanges(t.Context(), 3)
				if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				if len(list) == 0 {
					return
				}
				mu.Lock()
				for _, c := range list {
					if c.Seq <= last {
						t.Errorf("change %d was claimed after %d", c.Seq, last)
					}
					last = c.Seq
					all = append(all, c.Seq)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	expect(t, "changes claimed", len(slices.Compact(slices.Clone(all))), changes)
	expect(t, "claims", len(all), changes)
	// What was left to nobody is not claimed; what was claimed stays so.
	Insert(t, s, numbered("later", 3)...)
	numberAll(t, s)
	for _, skip := range []int64{2, 2*changes + 4} {
		if err := s.SkipClaims(t.Context(), skip); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.ClaimChanges(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].Seq != 2*changes+6 {
		t.Errorf("claimed %d, error %v, want the last change", len(list), err)
	}
}
