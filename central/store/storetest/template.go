package storetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// sqliteTemplate is the file of a database that has its tables and nothing in them:
// making the tables is a hundred commits, more than most tests do themselves.
var sqliteTemplate = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "ironyard-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "central.db")
	if err := migrate(context.Background(), "sqlite:"+file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// SQLite returns the address of a SQLite database for t that has its tables.
func SQLite(t testing.TB) string {
	t.Helper()
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "central.db")
	if err := os.WriteFile(file, template, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + file
}

// EmptySQLite returns the address of a SQLite database for t without tables.
func EmptySQLite(t testing.TB) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "central.db")
}

// migrate makes the tables and closes the database, which leaves all in its file.
func migrate(ctx context.Context, address string) error {
	s, err := store.Open(ctx, address, store.Options{})
	if err != nil {
		return err
	}
	if _, err := s.Migrate(ctx); err != nil {
		s.Close()
		return err
	}
	return s.Close()
}
