package floppy

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The disk is one of mtools', whose file has several clusters.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	disk, file := filepath.Join(dir, "disk"), filepath.Join(dir, "parameters.txt")
	want := bytes.Repeat([]byte("a parameter\n"), 300)
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"mformat", "-C", "-f", "1440", "-v", "ir-vfd-dev", "-i", disk, "::"}, {"mcopy", "-i", disk, file, "::parameters.txt"}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c[0], err, out)
		}
	}
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer s.Close()
	if got, err := Read(t.Context(), s.URL+"/disk", "ir-vfd-dev"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	for _, c := range [][2]string{{"/disk", "another"}, {"/parameters.txt", "ir-vfd-dev"}, {"/missing", "ir-vfd-dev"}} {
		if got, err := Read(t.Context(), s.URL+c[0], c[1]); err == nil {
			t.Errorf("%v: %q", c, got)
		}
	}
}
