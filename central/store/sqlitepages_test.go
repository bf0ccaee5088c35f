package store

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// TestPagesHaveTheirPlaces holds that SQLite keeps pages where placePages wants them,
// and takes no other memory for them.
func TestPagesHaveTheirPlaces(t *testing.T) {
	st, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "central.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := placePages(); err != nil {
		t.Fatal(err)
	}
	if used := sqliteStatus(t, sqlite3.SQLITE_STATUS_PAGECACHE_USED); used == 0 || used > sqlitePages {
		t.Errorf("%d of %d places are taken, want some", used, sqlitePages)
	}
	if beside := sqliteStatus(t, sqlite3.SQLITE_STATUS_PAGECACHE_OVERFLOW); beside != 0 {
		t.Errorf("pages take %d bytes elsewhere", beside)
	}
}

// sqliteStatus is one of SQLite's counters for the process.
func sqliteStatus(t *testing.T, what int32) uint32 {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	out := libc.Xcalloc(tls, 2, 4)
	defer libc.Xfree(tls, out)
	if code := sqlite3.Xsqlite3_status(tls, what, out, out+4, 0); code != sqlite3.SQLITE_OK {
		t.Fatalf("status %d: code %d", what, code)
	}
	return binary.NativeEndian.Uint32(libc.GoBytes(out, 4))
}
