package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// crowd holds the store's writers up until n updates wait, then lets them all go: they
// are committed together where the engine does so. It returns their errors in order.
func crowd(t *testing.T, s *store.Store, updates ...func(ctx context.Context, tx *store.Tx) error) []error {
	t.Helper()
	return crowdOf(t, s, "", updates...)
}

// crowdOf is crowd for updates that begin by reading a node.
func crowdOf(t *testing.T, s *store.Store, node string, updates ...func(ctx context.Context, tx *store.Tx) error) []error {
	t.Helper()
	started, free := make(chan struct{}), make(chan struct{})
	holder := make(chan error, 1)
	go func() {
		holder <- s.Update(t.Context(), func(context.Context, *store.Tx) error {
			close(started)
			<-free
			return errors.New("only here to hold the others up")
		})
	}()
	<-started
	errs := make([]error, len(updates))
	var called, done sync.WaitGroup
	for i, f := range updates {
		called.Add(1)
		done.Go(func() {
			called.Done()
			errs[i] = s.UpdateOf(t.Context(), node, f)
		})
	}
	called.Wait()
	close(free)
	done.Wait()
	<-holder
	return errs
}

// together: each of many concurrent updates is done, and told to the outbox's watchers,
// once.
func together(t *testing.T, s *store.Store) {
	const n = 40
	var told atomic.Int64
	defer s.WatchOutbox(func(list []*store.Outbox) { told.Add(int64(len(list))) })()
	nodes := numbered("n", n)
	var updates []func(context.Context, *store.Tx) error
	for _, node := range nodes {
		updates = append(updates, func(ctx context.Context, tx *store.Tx) error {
			fresh := *node
			if err := tx.InsertNode(ctx, &fresh); err != nil {
				return err
			}
			found, err := tx.Node(ctx, node.UUID) // a write is seen by what follows it
			if err != nil {
				return err
			}
			found.Description = "seen"
			if err := tx.UpdateNode(ctx, found); err != nil {
				return err
			}
			return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: node.UUID})
		})
	}
	for i, err := range crowd(t, s, updates...) {
		if err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	for _, node := range nodes {
		expect(t, "description of "+node.Name, read(t, s, node.UUID).Description, "seen")
	}
	left, err := s.OwnOutbox(t.Context(), "", "", 2*n)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "rows in the outbox", len(left), n)
	expect(t, "rows that watchers were told", told.Load(), int64(n))
}

// togetherButOne: of a crowd in which some are refused, before and after they have
// written, fail in the database or are not what they were read as, each gets its own
// error, and the others are done all the same.
func togetherButOne(t *testing.T, s *store.Store) {
	early, late := errors.New("refused before a write"), errors.New("refused after a write")
	Insert(t, s, NewNode("taken"), NewNode("old"))
	old := read(t, s, "old")
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, "old")
		if err != nil {
			return err
		}
		return tx.UpdateNode(ctx, n)
	})
	insert := func(name string, then error) func(context.Context, *store.Tx) error {
		return func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertNode(ctx, NewNode(name)); err != nil {
				return err
			}
			return then
		}
	}
	errs := crowd(t, s,
		insert("a", nil),
		func(context.Context, *store.Tx) error { return early },
		insert("b", late),
		insert("taken", nil),
		insert("twice", nil),
		insert("twice", nil),
		func(ctx context.Context, tx *store.Tx) error { stale := *old; return tx.UpdateNode(ctx, &stale) },
		insert("c", nil),
	)
	var taken *store.DuplicateError
	if errs[0] != nil || errs[7] != nil {
		t.Errorf("two that nothing speaks against: %v, %v", errs[0], errs[7])
	}
	if !errors.Is(errs[1], early) || !errors.Is(errs[2], late) {
		t.Errorf("two that changed their minds: %v, %v", errs[1], errs[2])
	}
	if !errors.As(errs[3], &taken) || taken.Field != "name" || taken.Value != "taken" {
		t.Errorf("a name that is taken: %v", errs[3])
	}
	if (errs[4] == nil) == (errs[5] == nil) || !errors.As(errors.Join(errs[4], errs[5]), &taken) || taken.Value != "twice" {
		t.Errorf("two of one name: %v, %v", errs[4], errs[5])
	}
	if !errors.Is(errs[6], store.ErrConflict) {
		t.Errorf("a node that has changed: %v", errs[6])
	}
	for name, want := range map[string]bool{"a": true, "b": false, "twice": true, "c": true} {
		if _, err := s.Node(t.Context(), name); (err == nil) != want {
			t.Errorf("node %s: %v, want it there: %t", name, err, want)
		}
	}
	expect(t, "changes of what was done", len(followed(t, s)), 2+1+3) // with those of the beginning
}

// togetherAndGone: who gives up while it waits, or panics, changes nothing and holds
// nobody up.
func togetherAndGone(t *testing.T, s *store.Store) {
	gone, cancel := context.WithCancel(t.Context())
	waits := func(ctx context.Context, tx *store.Tx) error { return errors.New("it must not run") }
	panics := func(name string) (p any) {
		defer func() { p = recover() }()
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertNode(ctx, NewNode(name)); err != nil {
				return err
			}
			panic("out of cheese")
		})
	}
	started, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		s.Update(t.Context(), func(context.Context, *store.Tx) error { close(started); <-free; return nil })
	})
	<-started
	left := make(chan error, 1)
	wg.Go(func() { left <- s.Update(gone, waits) })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	for i := range 4 {
		wg.Go(func() {
			if p := panics(fmt.Sprintf("p%d", i)); p != "out of cheese" {
				t.Errorf("the panic of an update came out as %v", p)
			}
		})
		wg.Go(func() { Insert(t, s, NewNode(fmt.Sprintf("q%d", i))) })
	}
	close(free)
	wg.Wait()
	for i := range 4 {
		if _, err := s.Node(t.Context(), fmt.Sprintf("p%d", i)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("node of an update that panicked: %v", err)
		}
		read(t, s, fmt.Sprintf("q%d", i))
	}
	expect(t, "changes of what was done", len(followed(t, s)), 4)
}

// togetherReadAhead: many at once who change one node see it as those before them have
// left it, whatever part of it these have changed.
func togetherReadAhead(t *testing.T, s *store.Store) {
	const n = 12
	node := numbered("n", 1)[0]
	node.Extra = map[string]any{"rounds": 0.0}
	Insert(t, s, node)
	var stale atomic.Int64
	var updates []func(context.Context, *store.Tx) error
	for i := range n {
		trait := fmt.Sprintf("CUSTOM_%d", i)
		updates = append(updates, func(ctx context.Context, tx *store.Tx) error {
			found, err := tx.Node(ctx, node.Name) // what is read by name is not read ahead
			if err != nil {
				return err
			}
			if i%2 == 0 {
				ahead, err := tx.Node(ctx, node.UUID)
				if err != nil {
					return err
				}
				if ahead.Revision != found.Revision || len(ahead.Traits) != len(found.Traits) {
					stale.Add(1)
				}
			}
			if i == n-1 {
				return tx.SetTraits(ctx, node.UUID, append(found.Traits, trait))
			}
			rounds := found.Extra["rounds"].(float64)
			found.Extra["rounds"] = rounds + 1
			if err := tx.UpdateNode(ctx, found); err != nil {
				return err
			}
			again, err := tx.Node(ctx, node.UUID)
			if err != nil {
				return err
			}
			if again.Extra["rounds"] != rounds+1 || again.Revision != found.Revision {
				stale.Add(1) // as an error it would only be run again, alone
			}
			if i%3 == 2 {
				return nil
			}
			return tx.SetTraits(ctx, node.UUID, append(again.Traits, trait))
		})
	}
	for i, err := range crowdOf(t, s, node.UUID, updates...) {
		if err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	if stale.Load() > 0 {
		t.Errorf("%d times what was read ahead was not what others had left", stale.Load())
	}
	found, err := s.Node(t.Context(), node.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if found.Extra["rounds"] != float64(n-1) || len(found.Traits) != n-n/3+1 {
		t.Errorf("%v rounds and the traits %v are left of %d", found.Extra["rounds"], found.Traits, n)
	}
}

// togetherWritten: of a crowd that writes to single nodes each writes what it meant to,
// also two to one node and what was NULL, and whoever cannot be served shows by itself.
func togetherWritten(t *testing.T, s *store.Store) {
	yes := true
	var updates []func(context.Context, *store.Tx) error
	write := func(name string, change func(*store.Node), times int) {
		Insert(t, s, NewNode(name))
		updates = append(updates, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, name)
			for range times {
				if err == nil {
					change(n)
					err = tx.UpdateNode(ctx, n)
				}
			}
			return err
		})
	}
	write("clean", func(n *store.Node) { n.AutomatedClean = &yes }, 1)
	write("unclean", func(n *store.Node) { n.AutomatedClean = nil; n.Protected = true }, 1)
	write("twice", func(n *store.Node) { n.Description += "+"; n.Generation++ }, 2)
	write("a", func(n *store.Node) { n.Name = "same" }, 1)
	write("b", func(n *store.Node) { n.Name = "same" }, 1)
	write("c", func(n *store.Node) { n.Name = "other" }, 1)
	before := read(t, s, "twice")
	errs := crowd(t, s, updates...)
	var taken *store.DuplicateError
	if (errs[3] == nil) == (errs[4] == nil) || !errors.As(errors.Join(errs[3], errs[4]), &taken) || taken.Value != "same" {
		t.Errorf("two that want one name: %v, %v", errs[3], errs[4])
	}
	if err := errors.Join(errs[0], errs[1], errs[2], errs[5]); err != nil {
		t.Errorf("the others: %v", err)
	}
	if got := read(t, s, "clean").AutomatedClean; got == nil || !*got {
		t.Errorf("automated_clean is %v, want true", got)
	}
	if got := read(t, s, "unclean"); got.AutomatedClean != nil || !got.Protected {
		t.Errorf("automated_clean is %v, protected %v, want null and true", got.AutomatedClean, got.Protected)
	}
	after := read(t, s, "twice")
	expect(t, "description written twice", after.Description, before.Description+"++")
	expect(t, "generation", after.Generation, before.Generation+2)
	expect(t, "revision", after.Revision, before.Revision+2)
	read(t, s, "other")
}
