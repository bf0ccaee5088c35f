package feed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for changes that are another replica's.
const atOnce = 8

// TestMain lets the test run itself as a replica that is to be killed.
func TestMain(m *testing.M) {
	if address := os.Getenv(envReplica); address != "" {
		if err := replicaUntilKilled(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}

// hub passes hints from each replica to all.
type hub struct {
	mu    sync.Mutex
	heard []func()
}

func (h *hub) Tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.heard {
		f()
	}
}

func (h *hub) Hear(f func()) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, f)
	return func() {}, nil
}

// run runs a feed until the test ends, or stop.
func run(t *testing.T, c feed.Config) (f *feed.Feed, stop func()) {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	f = feed.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the feed ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return f, stop
}

func follow(t *testing.T, f *feed.Feed, after int64) *feed.Follower {
	t.Helper()
	w, err := f.Follow(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// collect reads until n changes have come, and checks that no number is missing.
func collect(t *testing.T, w *feed.Follower, n int) []*store.Change {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []*store.Change
	for len(all) < n {
		last := w.Seq()
		list, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d changes: %v", len(all), n, err)
		}
		for _, c := range list {
			if c.Seq-c.Numbers() > last {
				t.Fatalf("number %d follows %d", c.Seq, last)
			}
			last = c.Seq
		}
		all = append(all, list...)
	}
	return all
}

func insert(t *testing.T, db *store.Store, n int) {
	t.Helper()
	for range n {
		storetest.Insert(t, db, storetest.NewNode(""))
	}
}

// Two replicas on one database, both written to at once: who follows either sees
// everything, once and in one order; what is published is published once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	address := storetest.SQLite(t)
	var published sync.Map
	var feeds []*feed.Feed
	var stores []*store.Store
	bus := &hub{}
	for range 2 {
		db := storetest.Open(t, address)
		f, _ := run(t, feed.Config{Store: db, Hints: bus, Publish: func(_ context.Context, list []*store.Change) error {
			for _, c := range list {
				if _, twice := published.LoadOrStore(c.UUID, true); twice {
					t.Errorf("change %d was published twice", c.Seq)
				}
			}
			return nil
		}})
		feeds, stores = append(feeds, f), append(stores, db)
	}
	const each = 30
	a, b := follow(t, feeds[0], 0), follow(t, feeds[1], 0)
	var wg sync.WaitGroup
	for _, db := range stores {
		wg.Go(func() { insert(t, db, each) })
	}
	first, second := collect(t, a, 2*each), collect(t, b, 2*each)
	wg.Wait()
	for i := range first {
		if first[i].UUID != second[i].UUID {
			t.Fatalf("change %d is %s for one and %s for the other", i, first[i].Object, second[i].Object)
		}
	}
	for _, c := range first {
		until(t, fmt.Sprintf("change %d is published", c.Seq), func() bool {
			_, ok := published.Load(c.UUID)
			return ok
		})
	}
	// Who comes back reads on where they were, from the database.
	if again := collect(t, follow(t, feeds[1], first[19].Seq), 2*each-20); again[0].UUID != first[20].UUID {
		t.Errorf("read on at %d, want %d", again[0].Seq, first[20].Seq)
	}
	if w := follow(t, feeds[0], -1); w.Seq() != first[len(first)-1].Seq {
		t.Errorf("begins after %d, want the newest, %d", w.Seq(), first[len(first)-1].Seq)
	}
}

func TestOldNumbersAreGone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	f, _ := run(t, feed.Config{Store: db})
	insert(t, db, 5)
	collect(t, follow(t, f, 0), 5)
	if err := db.PruneChanges(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[int64]error{0: feed.ErrGone, 3: feed.ErrGone, 4: nil, 10: nil, 11: feed.ErrGone} {
		w, err := f.Follow(t.Context(), after)
		if !errors.Is(err, want) {
			t.Errorf("after %d: %v, want %v", after, err, want)
		}
		if err == nil {
			w.Close()
		}
	}
}

// The feed itself removes what is beyond those that are kept, when it starts too.
func TestPrune(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	insert(t, db, 10)
	f, _ := run(t, feed.Config{Store: db, Keep: 6})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		r, err := db.ChangeRange(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.Pruned == 14 && r.Newest == 20 {
			break
		}
	}
	w := follow(t, f, -1)
	insert(t, db, 1)
	collect(t, w, 1)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	f, stop := run(t, feed.Config{Store: db, Followers: 2})
	a := follow(t, f, -1)
	follow(t, f, -1)
	if _, err := f.Follow(t.Context(), -1); !errors.Is(err, feed.ErrFull) {
		t.Errorf("the third follower: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with nothing new: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := a.Next(context.Background())
		waited <- err
	}()
	stop()
	if err := <-waited; !errors.Is(err, feed.ErrStopped) {
		t.Errorf("when the replica ends: %v", err)
	}
	if _, err := f.Follow(t.Context(), -1); !errors.Is(err, feed.ErrStopped) {
		t.Errorf("after its end: %v", err)
	}
}

// More changes than memory holds are read in order by somebody slow.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t))
	f, _ := run(t, feed.Config{Store: db})
	fast, slow := follow(t, f, -1), follow(t, f, -1)
	const rows = 2600
	for range 2 {
		if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			for range rows {
				if err := tx.InsertNode(ctx, storetest.NewNode("")); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	collect(t, fast, 2*rows)
	collect(t, slow, 2*rows)
}
