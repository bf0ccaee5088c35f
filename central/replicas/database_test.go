package replicas

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// While clients write, the database goes away and comes back, with and without saying
// good-bye. Requests are carried out or answered 503, and what was promised holds.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	own, err := storetest.StartPostgres(t.Context()) // the other tests' goes on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := newFleet(t, own.Database(t))
	clients, stop := f.clients(6)
	defer stop()
	for _, how := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGQUIT} {
		time.Sleep(time.Second) // of ordinary work, for the restart to fall into
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := own.Restart(ctx, how, 500*time.Millisecond)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	stop()
	f.checkAll(clients)
	away := 0
	for _, c := range clients {
		away += c.statuses[503]
	}
	if away == 0 {
		t.Error("no request was answered 503: the test shows nothing")
	}
}

// While clients write, transactions that conflict with every other make the database
// ask for retries all the time.
func TestStormOfSerializationFailures(t *testing.T) {
	t.Parallel()
	f := newFleet(t, postgres.Database(t))
	clients, stop := f.clients(6)
	defer stop()
	var nodes []string
	for _, c := range clients {
		nodes = append(nodes, c.node)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	var committed, attempts, gaveUp atomic.Int64
	raging := func() bool { // at least 4 s, and on a busy machine until it shows something
		return ctx.Err() == nil && (time.Since(began) < 4*time.Second || attempts.Load()-committed.Load() < 20)
	}
	var storm sync.WaitGroup
	for range 3 {
		s, err := store.Open(t.Context(), f.database, store.Options{Apart: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 3 {
			storm.Go(func() {
				for raging() {
					err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
						attempts.Add(1)
						return conflict(ctx, tx, nodes)
					})
					switch {
					case err == nil:
						committed.Add(1)
					case errors.Is(err, store.ErrBusy):
						gaveUp.Add(1)
					case ctx.Err() == nil:
						t.Errorf("the storm: %v", err)
						return
					}
				}
			})
		}
	}
	storm.Wait()
	stop()
	f.checkAll(clients)
	t.Logf("the storm: %d transactions in %d attempts, %d given up", committed.Load(), attempts.Load(), gaveUp.Load())
	if retries := attempts.Load() - committed.Load(); retries < 20 {
		t.Errorf("%d transactions had to be tried again: the test shows little", retries)
	}
}

// conflict writes all nodes' observations again as they are, one after the other, so
// that it is in everybody's way.
func conflict(ctx context.Context, tx *store.Tx, nodes []string) error {
	seen, err := tx.Observed(ctx, nodes)
	if err != nil {
		return err
	}
	for _, id := range nodes {
		if err := tx.SaveObserved(ctx, []*store.Node{seen[id]}); err != nil {
			return err
		}
	}
	return nil
}
