//go:build !race

// The work is done by the databases; the race detector has nothing to see here.

package retention_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/retention"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

var postgres storetest.Cluster

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// perNode is what a fleet has after years: each node so many lines. make e2e takes 1,000 nodes, go test a twentieth.
const perNode = 1000

func nodes() int {
	if os.Getenv("IRONYARD_E2E") == "" {
		return 50
	}
	return 1000
}

// rowsOf inserts rows for the nodes.
const rowsOf = `WITH RECURSIVE i (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < %d), k (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < %d)
	INSERT INTO %s SELECT %s FROM i, k`

func fill(t *testing.T, exec func(string) error) {
	t.Helper()
	for _, s := range []string{
		fmt.Sprintf(rowsOf, nodes()-1, 0, "nodes (uuid, created_at, name, driver, conductor_group, resource_class)", "'node-' || i.n, i.n, 'n' || i.n, 'fake-hardware', '', ''"),
		fmt.Sprintf(rowsOf, nodes()-1, perNode-1, "node_history (uuid, node, created_at, event)", "i.n || '-' || k.n, 'node-' || i.n, k.n, 'an event of a few words'"),
		fmt.Sprintf(rowsOf, nodes()-1, 19, "works (id, node, generation, verb, entry, state, requested_at, ended_at)", "i.n || '-' || k.n, 'node-' || i.n, k.n, 'deploy', 'available', 'ended', 1, 2"),
	} {
		if err := exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

// A million lines go while requests are written beside that.
func TestAMillionLines(t *testing.T) {
	for engine, made := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			address := storetest.SQLite(t)
			db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(address, "sqlite:"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			fill(t, func(s string) error { _, err := db.ExecContext(t.Context(), s); return err })
			return address
		},
		"PostgreSQL": func(t *testing.T) string {
			address := postgres.Database(t)
			c, err := pgx.Connect(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			fill(t, func(s string) error { _, err := c.Exec(t.Context(), s); return err })
			return address
		},
	} {
		t.Run(engine, func(t *testing.T) {
			s := storetest.Open(t, made(t))
			removed := map[string]int64{}
			p := retention.New(retention.Config{Rows: s, Before: byThisHost, Log: slog.New(slog.DiscardHandler), Removed: func(kind string, n int64) { removed[kind] += n }})
			ctx, cancel := context.WithCancel(t.Context())
			var took []time.Duration
			var g errgroup.Group
			g.Go(func() error {
				for ctx.Err() == nil {
					began := time.Now()
					err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
						return tx.AppendHistory(ctx, &store.HistoryEntry{Node: "node-7", Event: "new"})
					})
					if err != nil {
						return err
					}
					took = append(took, time.Since(began))
				}
				return nil
			})
			began := time.Now()
			if err := p.Round(t.Context()); err != nil {
				t.Error(err)
			}
			round := time.Since(began)
			cancel()
			if err := g.Wait(); err != nil {
				t.Fatal("a request beside it:", err)
			}
			if err := p.Round(t.Context()); err != nil {
				t.Error(err)
			}
			list, err := s.Surpluses(t.Context(), "", time.Unix(1, 0), 2000)
			if err != nil || len(list) != nodes() {
				t.Fatal(len(list), err)
			}
			for _, n := range list {
				if n.History != retention.DefaultHistory || n.OldWorks != 0 {
					t.Errorf("%+v", n)
				}
			}
			if want := int64(nodes()*(perNode-retention.DefaultHistory) + len(took)); removed["history"] != want || removed["works"] != int64(nodes()*19) {
				t.Errorf("removed %v, want %d lines and %d works", removed, want, nodes()*19)
			}
			slices.Sort(took)
			t.Logf("%s: a round took %s; %d writes beside it: p99 %s, the longest %s", engine, round.Round(time.Millisecond), len(took),
				took[len(took)*99/100].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
		})
	}
}
