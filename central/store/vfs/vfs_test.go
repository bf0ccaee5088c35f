package vfs_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/ironyard/ironyard/central/store/vfs"
)

// TestOthersSeeEachCommit writes by the VFS, with so little memory for pages that
// transactions write some of theirs early and read and change them again, and looks at it by
// a connection without.
func TestOthersSeeEachCommit(t *testing.T) {
	if err := vfs.Register(); err != nil {
		t.Fatal(err)
	}
	for _, sync := range []string{"NORMAL", "FULL", "OFF"} {
		t.Run(sync, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			writer := open(t, file+"?vfs="+vfs.Name+"&_pragma=journal_mode(WAL)&_pragma=cache_size(8)&_pragma=wal_autocheckpoint(50)&_pragma=synchronous("+sync+")")
			reader := open(t, file)
			must(t, writer, "CREATE TABLE a (id INTEGER PRIMARY KEY, text TEXT, number INTEGER)")
			must(t, writer, "CREATE INDEX b ON a (text)")
			rows := 0
			for round := range 15 {
				must(t, writer, "BEGIN IMMEDIATE")
				size := []int{1, 20, 300}[round%3]
				for i := range size {
					must(t, writer, "INSERT INTO a (text, number) VALUES (?, 0)", fmt.Sprintf("%064d", (i*7919+round)%100_003))
				}
				must(t, writer, "UPDATE a SET number = number + 1 WHERE id % 7 = ?", round%7)
				if got := count(t, reader); got != rows {
					t.Fatalf("round %d: another connection sees %d rows before the commit, want %d", round, got, rows)
				}
				if got := count(t, writer); got != rows+size {
					t.Fatalf("round %d: the transaction sees %d rows, want %d", round, got, rows+size)
				}
				if round%4 == 3 {
					must(t, writer, "ROLLBACK")
				} else {
					must(t, writer, "COMMIT")
					rows += size
				}
				if got := count(t, reader); got != rows {
					t.Fatalf("round %d: another connection sees %d rows, want %d", round, got, rows)
				}
			}
			var sound string
			if err := reader.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
				t.Fatalf("the database is %s, error %v", sound, err)
			}
		})
	}
}

func open(t *testing.T, name string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	return c
}

func must(t *testing.T, c *sql.Conn, stmt string, args ...any) {
	t.Helper()
	if _, err := c.ExecContext(context.WithoutCancel(t.Context()), stmt, args...); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func count(t *testing.T, c *sql.Conn) (n int) {
	t.Helper()
	if err := c.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM a").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
