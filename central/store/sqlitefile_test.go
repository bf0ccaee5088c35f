package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Database, log and index of the log are for their owner's eyes, whatever the umask says;
// an operator who lets others read a database is not overruled.
func TestSQLiteFilesAreTheirOwners(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"new.db": 0o600, "opened.db": 0o640} {
		path := filepath.Join(t.TempDir(), name)
		if mode != 0o600 {
			if err := os.WriteFile(path, nil, mode); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), "sqlite:"+path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != mode {
				t.Errorf("%s%s: mode %o, want %o", name, suffix, got, mode)
			}
		}
	}
}

func TestSQLiteFileThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nowhere", "central.db")
	if _, err := Open(t.Context(), "sqlite:"+path, Options{}); err == nil || !strings.Contains(err.Error(), path+": no such file or directory") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
