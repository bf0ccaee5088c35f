package imagecache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// withoutFiles runs do while this process can open no file.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// The same image is fetched or made once more, and its folder cannot be synced. The one that was there stays: machines are loading it. An
// image of which there was none does not count.
func TestAFolderThatCannotBeSynced(t *testing.T) {
	content := strings.Repeat("image", 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, content) }))
	defer s.Close()
	for there, left := range map[bool]bool{true: true, false: false} {
		c := openCache(t, Config{})
		sum := checksum{algo: "sha256", value: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))}
		if there {
			if _, err := c.Ensure(t.Context(), Source{URL: s.URL, HashAlgo: sum.algo, HashValue: sum.value}); err != nil {
				t.Fatal(err)
			}
		}
		part, err := os.CreateTemp(c.dir, "again.*"+partSuffix)
		if err != nil {
			t.Fatal(err)
		}
		defer part.Close()
		if _, err := part.WriteString(content); err != nil {
			t.Fatal(err)
		}
		withoutFiles(t, func() { err = c.settle(&flight{sum: sum, from: supplier{url: s.URL}}, part) })
		if !errors.Is(err, syscall.EMFILE) || !errors.Is(err, ErrDisk) {
			t.Fatalf("there before: %t: %v", there, err)
		}
		got, err := os.ReadFile(filepath.Join(c.dir, sum.id()))
		if is := err == nil && string(got) == content; is != left {
			t.Errorf("there before: %t: the image is there afterwards: %t, want %t (%v)", there, is, left, err)
		}
	}
}
