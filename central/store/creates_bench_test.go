//go:build unix

package store_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// BenchmarkCreates has 16 callers create nodes in a SQLite database as the API does, each
// with its change, its line of the audit and its entry of the outbox. It reports what does
// not depend on what else the machine does: the processor's time for a node, the pages that
// a commit appends to the log, and how many nodes share a commit.
func BenchmarkCreates(b *testing.B) {
	const callers, before, sample = 16, 5_000, 300
	address := storetest.SQLite(b)
	s, err := store.Open(b.Context(), address, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	create := func(n int) {
		var wg sync.WaitGroup
		var begun atomic.Int64
		for range callers {
			wg.Go(func() {
				for begun.Add(1) <= int64(n) {
					if err := enrol(b.Context(), s); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	create(before)
	began := processorTime(b)
	b.ResetTimer()
	create(b.N)
	b.StopTimer()
	used := processorTime(b) - began
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
	file := strings.TrimPrefix(address, "sqlite:")
	emptyLog(b, file)
	create(sample)
	frames, commits := logged(b, file+"-wal")
	b.ReportMetric(float64(frames)/sample, "frames/op")
	b.ReportMetric(sample/float64(max(commits, 1)), "nodes/commit")
}

func enrol(ctx context.Context, s *store.Store) error {
	n := storetest.NewNode("new-" + uuid.NewString())
	n.GiveUUID()
	n.DriverInfo = map[string]any{"redfish_address": "https://192.0.2.7", "redfish_username": "operator", "redfish_password": strings.Repeat("x", 64)}
	n.Properties = map[string]any{"cpus": 64, "memory_mb": 262144, "local_gb": 1800, "cpu_arch": "x86_64"}
	ctx = store.WithCause(ctx, &store.Cause{Audit: &store.Audit{RequestID: "req-" + uuid.NewString(), User: "operator", UserID: "u", Project: "p", Client: "192.0.2.9",
		Action: "baremetal:node:create", Method: "POST", Path: "/v1/nodes", Resource: "node", Status: 201, Result: store.Accepted}})
	return s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertNode(ctx, n); err != nil {
			return err
		}
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup})
	})
}

func processorTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// emptyLog has the log begin anew with the next commit.
func emptyLog(b *testing.B, file string) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var busy, frames, copied int
	if err := db.QueryRowContext(b.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &copied); err != nil || busy != 0 {
		b.Fatalf("empty the log: busy %d, error %v", busy, err)
	}
}

// logged counts the frames of a write-ahead log since it last began anew, and the commits
// among them (https://www.sqlite.org/fileformat2.html#walformat).
func logged(b *testing.B, file string) (frames, commits int) {
	data, err := os.ReadFile(file)
	if err != nil || len(data) < 32 {
		b.Fatalf("%d bytes of log, error %v", len(data), err)
	}
	page, salts := int(binary.BigEndian.Uint32(data[8:])), string(data[16:24])
	for data = data[32:]; len(data) >= 24+page && string(data[8:16]) == salts; data = data[24+page:] {
		frames++
		if binary.BigEndian.Uint32(data[4:]) > 0 {
			commits++
		}
	}
	return frames, commits
}
