package secretfile

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for mode, open := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o660: false, 0o644: true, 0o604: true, 0o602: true, 0o444: true, 0o777: true} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		var said bytes.Buffer
		text, err := Read(path, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil || string(text) != "secret" {
			t.Errorf("%o: %q, %v", mode, text, err)
		}
		if warned := strings.Contains(said.String(), "level=WARN") && strings.Contains(said.String(), path); warned != open || strings.Contains(said.String(), "secret\"") {
			t.Errorf("%o: it said %q", mode, said.String())
		}
	}
	var said bytes.Buffer
	if _, err := Read(filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(&said, nil))); !os.IsNotExist(err) || said.Len() > 0 {
		t.Errorf("a file that is not there: %v, %q", err, said.String())
	}
}
