package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

func rollback(t *testing.T, s *store.Store) {
	why := errors.New("changed my mind")
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertNode(ctx, NewNode("n")); err != nil {
			return err
		}
		return why
	})
	if !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	if _, err := s.Node(t.Context(), "n"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rolled back node: %v, want ErrNotFound", err)
	}
}

// contention: many replicas that write one row all get through, one after the other,
// and the database is seen to have asked for retries. Half of them share no commits, as on
// CockroachDB, and so disturb those that do.
func contention(t *testing.T, address string) {
	const writers, writes = 8, 10
	s := Open(t, address)
	Insert(t, s, NewNode("n"))
	var stores []*store.Store
	for i := range writers {
		stores = append(stores, open(t, address, store.Options{Apart: i%2 == 0}))
	}
	var attempts atomic.Int64
	most := 1
	if s.Engine() != "sqlite" {
		most = 20 // on a busy machine the writers may come one after the other, for once
	}
	total := int64(0)
	for round := 0; round < most && attempts.Load() == total; round++ {
		var g errgroup.Group
		for _, s := range stores {
			g.Go(func() error {
				for range writes {
					err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
						attempts.Add(1)
						n, err := tx.Node(ctx, "n")
						if err != nil {
							return err
						}
						n.Accept(n.ProvisionState, n.TargetProvisionState, time.Now())
						return tx.UpdateNode(ctx, n)
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		total += writers * writes
	}
	expect(t, "generation", read(t, s, "n").Generation, total)
	if s.Engine() != "sqlite" && attempts.Load() == total {
		t.Error("no transaction was ever retried: the test does not show contention")
	}
	t.Logf("%s: %d transactions took %d attempts", s.Engine(), total, attempts.Load())
}

// deployCost bounds the statements that accepting a request and ingesting its end
// cost.
func deployCost(t *testing.T, s *store.Store) {
	Insert(t, s, NewNode("n"))
	before := s.Statements()
	var w *store.Work
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, "n")
		if err != nil {
			return err
		}
		n.Accept(provision.Deploying, provision.Active, time.Now())
		w = NewWork(n, work.Deploy)
		return errors.Join(tx.UpdateNode(ctx, n), tx.InsertWork(ctx, w), tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, Revision: n.Revision}),
			tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID}))
	})
	accepted := s.Statements()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, []string{w.Node})
		if err != nil {
			return err
		}
		n := seen[w.Node]
		return errors.Join(tx.SaveObserved(ctx, []*store.Node{n}), tx.EndWorks(ctx, []*store.Work{{ID: w.ID}}),
			tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, Revision: n.Revision}))
	})
	// A retry would add statements, but nothing contends here. One is for those who follow
	// changes; SQLite is asked for its number beforehand, by two.
	expect(t, "statements to accept", accepted-before, map[bool]uint64{true: 8, false: 6}[s.Engine() == "sqlite"])
	expect(t, "statements to ingest", s.Statements()-accepted, 4)
}

// migrateTogether: replicas that start at once migrate once.
func migrateTogether(t *testing.T, address string) {
	const replicas = 4
	var total atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, replicas)
	for range replicas {
		wg.Go(func() {
			errs <- func() error {
				s, err := store.Open(t.Context(), address, store.Options{})
				if err != nil {
					return err
				}
				defer s.Close()
				n, err := s.Migrate(t.Context())
				total.Add(int64(n))
				if err != nil {
					return err
				}
				if left, err := s.Pending(t.Context()); err != nil || left != 0 {
					return fmt.Errorf("%d migrations left, error %w", left, err)
				}
				return s.Ping(t.Context())
			}()
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n, err := Open(t, address).Migrate(t.Context()); err != nil || n != 0 || total.Load() == 0 {
		t.Errorf("migrations: %d at first, then %d, error %v", total.Load(), n, err)
	}
}
