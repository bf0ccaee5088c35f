package store

import (
	"path/filepath"
	"testing"
)

// A connection that was given up in the middle of a transaction leaves nothing of it: the
// next transaction begins on another one.
func TestADroppedConnectionIsClosed(t *testing.T) {
	e, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "central.db"), new(counter))
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	tx, err := e.writer.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.exec(t.Context(), "CREATE TABLE a (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	e.writer.drop()
	tx.end()
	if tx, err = e.writer.begin(t.Context()); err != nil {
		t.Fatalf("the next transaction: %v", err)
	}
	defer tx.rollback(t.Context())
	if _, err := tx.exec(t.Context(), "CREATE TABLE a (id INTEGER)"); err != nil {
		t.Errorf("what was not committed is there: %v", err)
	}
}
