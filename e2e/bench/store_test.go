package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
)

// BenchmarkWrites prints what the database's part of a request that writes costs: 16 writers at
// once, each transaction one node that is made or changed, with its line of the audit and its
// change, and the feed beside them, which numbers, prunes and follows. Statements are those of
// all that, for each write.
func BenchmarkWrites(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine, func(b *testing.B) {
			address := databaseURL(b, engine)
			if address == "" {
				address = "sqlite:" + filepath.Join(b.TempDir(), "central.db")
			}
			db, err := store.Open(b.Context(), address, store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer follows(b, db)()
			b.Run("creates", func(b *testing.B) {
				writes(b, db, func(ctx context.Context, i int) error {
					n := ordinaryNode(i)
					n.GiveUUID() // as the API does
					n.Name = "node-" + n.UUID
					return db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, n) })
				})
			})
			const nodes = 1000
			if err := db.Update(b.Context(), func(ctx context.Context, tx *store.Tx) error {
				for i := range nodes {
					if err := tx.InsertNode(ctx, ordinaryNode(i)); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			b.Run("changes", func(b *testing.B) {
				writes(b, db, func(ctx context.Context, i int) error {
					id := nodeUUID(i * 7919 % nodes)
					return db.UpdateOf(ctx, id, func(ctx context.Context, tx *store.Tx) error {
						n, err := tx.Node(ctx, id)
						if err != nil {
							return err
						}
						n.Extra["round"] = i
						return tx.UpdateNode(ctx, n)
					})
				})
			})
		})
	}
}

// follows runs a feed that somebody follows, until the function that it returns is called.
func follows(b *testing.B, db *store.Store) (stop func()) {
	f := feed.New(feed.Config{Store: db, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, cancel := context.WithCancel(b.Context())
	w, err := f.Follow(ctx, -1)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	wg.Go(func() {
		for {
			if _, err := w.Next(ctx); err != nil {
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// writes measures write, which 16 goroutines call, each on behalf of a request of its own.
func writes(b *testing.B, db *store.Store, write func(ctx context.Context, i int) error) {
	for b.Loop() {
		var wg sync.WaitGroup
		var mu sync.Mutex
		calls := 0
		end := time.Now().Add(window(b))
		began, used, sent := time.Now(), cpu(), db.Statements()
		for c := range clients {
			wg.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					ctx := store.WithCause(b.Context(), &store.Cause{Audit: &store.Audit{RequestID: "req-" + uuid.NewString(), User: "admin", Project: "admin",
						Client: "192.0.2.1", Action: "baremetal:node:update", Method: "PATCH", Path: "/v1/nodes/" + fmt.Sprint(c), Status: 200, Result: store.Accepted}})
					if err := write(ctx, i*clients+c); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					calls++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(calls)/time.Since(began).Seconds(), "writes/s")
		b.ReportMetric(float64((cpu()-used).Microseconds())/float64(calls), "cpu-us/write")
		b.ReportMetric(float64(db.Statements()-sent)/float64(calls), "statements/write")
		b.ReportMetric(0, "ns/op") // says nothing
	}
}
