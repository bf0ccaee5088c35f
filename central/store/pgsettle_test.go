package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// lazy is a PostgreSQL that brings what is committed without waiting to its disk only when
// it is asked to, and a connection to the database besides the store's.
func lazy(t *testing.T) (*store.Store, *pgx.Conn) {
	p, err := storetest.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	address := p.Database(t)
	s := storetest.Open(t, address)
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	for _, stmt := range []string{"ALTER SYSTEM SET wal_writer_delay = '10s'", "ALTER SYSTEM SET wal_writer_flush_after = '1GB'", "SELECT pg_reload_conf()"} {
		if _, err := c.Exec(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	return s, c
}

// unflushed returns how many bytes of the log are not on the disk, of those before end;
// empty: before now. It also returns where the log ends.
func unflushed(t *testing.T, c *pgx.Conn, end string) (bytes int64, now string) {
	t.Helper()
	err := c.QueryRow(t.Context(), "SELECT pg_wal_lsn_diff(COALESCE(NULLIF($1, '')::pg_lsn, pg_current_wal_insert_lsn()), pg_current_wal_flush_lsn())::bigint, "+
		"pg_current_wal_insert_lsn()::text", end).Scan(&bytes, &now)
	if err != nil {
		t.Fatal(err)
	}
	return bytes, now
}

func turn(t *testing.T, s *store.Store, row string) *store.Turn {
	t.Helper()
	tx, err := s.TakeTurn(t.Context(), "INSERT INTO write_turns (name) VALUES ($1)", row)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestPostgresSettlesBeside(t *testing.T) {
	s, c := lazy(t)
	t.Run("the next turn", func(t *testing.T) { nextTurn(t, s, c) })
	t.Run("readers wait for what they see", func(t *testing.T) { readersWait(t, s) })
	t.Run("another replica goes on from numbers that last", func(t *testing.T) { othersWait(t, s, c) })
	t.Run("a connection is lost", func(t *testing.T) { connectionLost(t, s, c) })
}

func nextTurn(t *testing.T, s *store.Store, c *pgx.Conn) {
	first := turn(t, s, "first")
	second := turn(t, s, "second") // does not wait for the first to be on the disk
	left, end := unflushed(t, c, "")
	if left <= 0 {
		t.Fatal("the commit has waited for the disk")
	}
	if err := second.Settle(); err != nil {
		t.Fatal(err)
	}
	if left, _ := unflushed(t, c, end); left > 0 {
		t.Errorf("%d bytes of what was committed are not on the disk after Settle", left)
	}
	if err := first.Settle(); err != nil {
		t.Fatal(err)
	}
}

// readersWait: nobody is shown what a crash of the server may undo.
func readersWait(t *testing.T, s *store.Store) {
	tx := turn(t, s, "seen")
	read := make(chan error, 1)
	go func() {
		_, err := s.ChangeRange(t.Context())
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("the read ended before what it saw was on the disk: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.ChangeRange(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read whose time is over ended with %v", err)
	}
	if err := tx.Settle(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// othersWait: another replica, which does not know what this one has settled, has what it
// follows on the disk itself.
func othersWait(t *testing.T, s *store.Store, c *pgx.Conn) {
	other := storetest.Open(t, c.Config().ConnString())
	for name, read := range map[string]func() error{
		"range":   func() error { _, err := other.ChangeRange(t.Context()); return err },
		"changes": func() error { _, err := other.Changes(t.Context(), 0, 10); return err },
	} {
		storetest.Insert(t, s, storetest.NewNode("")) // there are changes to be read
		tx := turn(t, s, name)
		left, end := unflushed(t, c, "")
		if left <= 0 {
			t.Fatal("the commit has waited for the disk")
		}
		if err := read(); err != nil {
			t.Error(err)
		}
		if left, _ := unflushed(t, c, end); left > 0 {
			t.Errorf("%s: %d bytes of what another replica was shown are not on the disk", name, left)
		}
		if err := tx.Settle(); err != nil {
			t.Fatal(err)
		}
	}
}

// connectionLost: a new connection cannot tell whether the server has been away in between,
// and says nothing about what was committed before.
func connectionLost(t *testing.T, s *store.Store, c *pgx.Conn) {
	tx := turn(t, s, "lost")
	if _, err := c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE pid <> pg_backend_pid() AND datname = current_database() ORDER BY state_change DESC LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Settle(); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Settle without a connection: %v, want ErrUnknown", err)
	}
	next := turn(t, s, "next")
	if err := next.Settle(); err != nil {
		t.Errorf("the next: %v", err)
	}
	if _, err := s.ChangeRange(t.Context()); err != nil {
		t.Errorf("a read after that: %v", err)
	}
}
