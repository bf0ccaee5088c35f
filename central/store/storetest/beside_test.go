package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ironyard/ironyard/central/store"
)

// turn is the turn to write on PostgreSQL, held by no replica.
type turn struct{ tx pgx.Tx }

func takeTurn(t *testing.T, url string) *turn {
	t.Helper()
	tx := begun(t, url)
	if _, err := tx.Exec(t.Context(), "LOCK TABLE write_turns IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return &turn{tx}
}

// begun is a transaction on a connection of its own.
func begun(t *testing.T, url string) pgx.Tx {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// awaited waits until so many transactions wait for the turn.
func (w *turn) awaited(t *testing.T, want int) {
	t.Helper()
	counted(t, w.tx, want, "transactions wait for their turn",
		"SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'write_turns'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
}

// counted waits until the server counts so many, whom what names.
func counted(t *testing.T, tx pgx.Tx, want int, what, count string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		var n int
		if err := tx.QueryRow(t.Context(), count).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s, want %d", n, what, want)
		}
	}
}

// A group that only adds rows has sent them before it has its turn, and another one of that
// kind, of as many, comes along beside it: the one's rows are written while the disk works for
// the other. Numbers of changes come in the order of the turns all the same.
func TestGroupsBesideEachOther(t *testing.T) {
	url := postgres.Database(t)
	s := Open(t, url)
	w := takeTurn(t, url)
	errs := make(chan error, 3)
	insert := func(name string) {
		go func() {
			errs <- s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, NewNode(name)) })
		}()
	}
	insert("first")
	w.awaited(t, 1)
	insert("second")
	w.awaited(t, 2)
	insert("third") // not sent before the first has ended
	if err := w.tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	changes := followed(t, s)
	expect(t, "changes", len(changes), 3)
	for _, name := range []string{"first", "second", "third"} {
		read(t, s, name)
	}
}

// A group that has to read waits until the one that only adds rows has ended, and sees them; one
// that adds what that has added is told so, and the others of it are done.
func TestGroupsBesideThatMeet(t *testing.T) {
	url := postgres.Database(t)
	s := Open(t, url)
	w := takeTurn(t, url)
	insert := func(names ...string) (errs chan error) {
		errs = make(chan error, len(names))
		for _, name := range names {
			go func() {
				errs <- s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, NewNode(name)) })
			}()
		}
		return errs
	}
	first := insert("one")
	w.awaited(t, 1)
	seen := make(chan error, 1)
	go func() {
		seen <- s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Node(ctx, "one")
			return err
		})
	}()
	second := insert("one")
	if err := w.tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-seen; err != nil {
		t.Errorf("what came before is not seen: %v", err)
	}
	var taken *store.DuplicateError
	if err := <-second; !errors.As(err, &taken) || taken.Value != "one" {
		t.Errorf("a name that is taken: %v", err)
	}
}

// A replica that adds, in its turn, what another has added that waits for its own, lets that one
// go first at once. It must not be the server that finds the circle: that takes it a second, in
// which nobody writes, and longer where it is told to.
func TestSameNameInTurnAndBeside(t *testing.T) {
	url := postgres.Database(t)
	w := takeTurn(t, url)
	patient(t, url)
	errs := make(chan error, 2)
	insert := func(s *store.Store, readFirst bool) {
		go func() {
			errs <- s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				if readFirst {
					if _, err := tx.Node(ctx, "another"); !errors.Is(err, store.ErrNotFound) {
						return fmt.Errorf("a node that is not there: %w", err)
					}
				}
				return tx.InsertNode(ctx, NewNode("same"))
			})
		}()
	}
	insert(Open(t, url), true)
	w.awaited(t, 1)
	insert(Open(t, url), false) // its row is there, and its turn comes after the other's
	w.awaited(t, 2)
	if err := w.tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := 0
	for range cap(errs) {
		var taken *store.DuplicateError
		select {
		case err := <-errs:
			if err == nil {
				made++
			} else if !errors.As(err, &taken) || taken.Value != "same" {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("two that add the same name wait for each other")
		}
	}
	expect(t, "nodes made", made, 1)
}

// Two replicas that add the same names in opposite order do not wait for each other in a
// circle. Each is stopped between the two by a row of somebody else's, so that, in the order in
// which they were asked, each would have its first name before it came to its second.
func TestSameNamesInOppositeOrder(t *testing.T) {
	for name, unusual := range map[string]string{"nodes of a kind": "", "one that says more than usual": "a project"} {
		t.Run(name, func(t *testing.T) {
			url := postgres.Database(t)
			patient(t, url)
			replicas := []*store.Store{Open(t, url), Open(t, url)}
			between := holdNames(t, url, "m0", "m1")
			errs := make(chan error, len(replicas))
			for i, s := range replicas {
				names := []string{"a", fmt.Sprintf("m%d", i), "z"}
				if i > 0 {
					slices.Reverse(names)
				}
				go func() {
					errs <- s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
						for _, name := range names {
							n := NewNode(name)
							if name == "a" {
								n.Lessee = unusual
							}
							if err := tx.InsertNode(ctx, n); err != nil {
								return err
							}
						}
						return nil
					})
				}()
			}
			between.release(t, len(replicas))
			made := 0
			for range replicas {
				select {
				case err := <-errs:
					var refused *pgconn.PgError
					if err == nil {
						made++
					} else if !errors.As(err, &refused) || refused.ConstraintName != "nodes_name" {
						t.Error(err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the two wait for each other")
				}
			}
			expect(t, "transactions that were committed", made, 1)
		})
	}
}

// held are names of nodes that somebody has added and not committed.
type held struct{ tx pgx.Tx }

func holdNames(t *testing.T, url string, names ...string) *held {
	t.Helper()
	tx := begun(t, url)
	for _, name := range names {
		if _, err := tx.Exec(t.Context(), "INSERT INTO nodes (uuid, name) VALUES ($1, $1)", name); err != nil {
			t.Fatal(err)
		}
	}
	return &held{tx}
}

// release gives the names up once so many transactions wait for others' rows.
func (h *held) release(t *testing.T, want int) {
	t.Helper()
	counted(t, h.tx, want, "transactions wait for a row",
		"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'transactionid'")
	if err := h.tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// patient has the server look for circles of those who wait after an hour only.
func patient(t *testing.T, url string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{c.Config().Database}.Sanitize()+" SET deadlock_timeout = '1h'"); err != nil {
		t.Fatal(err)
	}
}

// Replicas that add rows beside each other, of which some are the same, do each once, and
// number what they did without gaps.
func TestReplicasBesideEachOther(t *testing.T) {
	url := postgres.Database(t)
	const replicas, callers, names = 3, 8, 60
	stores := make([]*store.Store, replicas)
	for i := range stores {
		stores[i] = Open(t, url)
	}
	var mu sync.Mutex
	made := map[string]int{}
	var wg sync.WaitGroup
	for i, s := range stores {
		for c := range callers {
			wg.Go(func() {
				for k := c; k < names; k += callers {
					// Every third name is wanted by all replicas.
					name := fmt.Sprintf("all-%d", k)
					if k%3 > 0 {
						name = fmt.Sprintf("r%d-%d", i, k)
					}
					err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
						n := NewNode(name)
						if err := tx.InsertNode(ctx, n); err != nil {
							return err
						}
						return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID})
					})
					var taken *store.DuplicateError
					if err != nil && (k%3 > 0 || !errors.As(err, &taken)) {
						t.Errorf("replica %d, node %s: %v", i, name, err)
					}
					if err == nil {
						mu.Lock()
						made[name]++
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	const want = names/3 + replicas*(names-names/3)
	expect(t, "nodes that were made", len(made), want)
	for name, times := range made {
		if times != 1 {
			t.Errorf("node %s was made %d times", name, times)
		}
	}
	changed := map[string]bool{}
	for _, c := range followed(t, stores[0]) {
		changed[c.Object] = true
	}
	expect(t, "nodes with a change", len(changed), want)
}
