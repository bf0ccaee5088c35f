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

// claims: of those who claim changes at once one gets them, and nobody gets one that another
// has or had, unless he takes it from him.
func claims(t *testing.T, s *store.Store) {
	const changes = 40
	Insert(t, s, numbered("n", changes)...)
	numberAll(t, s)
	busy := func(err error) bool { return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) }
	var mu sync.Mutex
	var all []int64
	claim := func() (left bool) {
		at, err := s.Publication(t.Context())
		if err != nil || at.Open() {
			return err == nil
		}
		list, at, err := s.ClaimChanges(t.Context(), at, 3)
		if err != nil || len(list) == 0 {
			if err != nil && !busy(err) {
				t.Error(err)
			}
			return busy(err)
		}
		mu.Lock()
		for _, c := range list {
			all = append(all, c.Seq)
		}
		mu.Unlock()
		for { // nobody else writes while the claim is open
			_, err := s.PublishedChanges(t.Context(), at, at.Claimed)
			if err == nil {
				return true
			}
			if !errors.Is(err, store.ErrBusy) {
				t.Error(err)
				return false
			}
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for claim() {
			}
		})
	}
	wg.Wait()
	if !slices.IsSorted(all) {
		t.Errorf("claimed %v, which is not in order", all)
	}
	expect(t, "changes claimed", len(slices.Compact(slices.Clone(all))), changes)
	expect(t, "claims", len(all), changes)
	taken(t, s)
}

// taken: a claim can be taken from who has it, once, and he is told so.
func taken(t *testing.T, s *store.Store) {
	t.Helper()
	was, err := s.Publication(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	Insert(t, s, numbered("later", 3)...)
	numberAll(t, s)
	first, mine, err := s.ClaimChanges(t.Context(), was, 2)
	if err != nil || len(first) != 2 || !mine.Open() || mine.Told != was.Told {
		t.Fatalf("claimed %d changes after %+v: %+v, error %v", len(first), was, mine, err)
	}
	if found, err := s.Publication(t.Context()); err != nil || found != mine {
		t.Errorf("the database says %+v, error %v, want %+v", found, err, mine)
	}
	second, theirs, err := s.ClaimChanges(t.Context(), mine, 10)
	if err != nil || len(second) != 3 || second[0].Seq != first[0].Seq {
		t.Fatalf("took %d changes, error %v, want all three", len(second), err)
	}
	for what, err := range map[string]error{
		"who has lost his claim publishes": errOf(s.PublishedChanges(t.Context(), mine, mine.Claimed)),
		"somebody claims after the others": func() error { _, _, err := s.ClaimChanges(t.Context(), mine, 1); return err }(),
	} {
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	// Part of it is done, the rest is anybody's.
	done, err := s.PublishedChanges(t.Context(), theirs, second[1].Seq)
	if err != nil || done.Open() {
		t.Errorf("after two of three changes: %+v, error %v", done, err)
	}
	rest, _, err := s.ClaimChanges(t.Context(), done, 10)
	if err != nil || len(rest) != 1 || rest[0].Seq != second[2].Seq {
		t.Errorf("claimed %d, error %v, want the last change", len(rest), err)
	}
}

func errOf[T any](_ T, err error) error { return err }
