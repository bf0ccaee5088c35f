package imagecache

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A file that is written to while rackd reads it is no image: without a checksum, only this tells a mixture of two versions.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	for name, content := range map[string]string{
		"same size": strings.Repeat("b", 1000), "grown": strings.Repeat("b", 1500), "cut": strings.Repeat("b", 700), "emptied": "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "image")
			write := func(content string, at time.Time) {
				t.Helper()
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			write(strings.Repeat("a", 1000), time.Unix(1e9, 0))
			c := openCache(t, Config{AllowedDirs: []string{dir}})
			body, size, err := c.openFile(path, nil)
			if err != nil || size != 1000 {
				t.Fatal(size, err)
			}
			defer body.Close()
			if _, err := io.ReadFull(body, make([]byte, 500)); err != nil {
				t.Fatal(err)
			}
			write(content, time.Unix(1e9+1, 0))
			if rest, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "was written to while rackd read it") {
				t.Errorf("%d more bytes, of another version, were taken: %v", len(rest), err)
			}
		})
	}
}

// Last-Modified counts seconds: a file that was written in the second of the answer may be written again in it.
func TestLatestOfAFileThatIsWrittenTwiceInASecond(t *testing.T) {
	var content atomic.Value
	var sent atomic.Int64
	modified := time.Unix(1e9, 0)
	var answered atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Unix(answered.Load(), 0).UTC().Format(http.TimeFormat))
		body := content.Load().(string)
		if r.Header.Get("If-Modified-Since") == "" {
			sent.Add(1)
		}
		http.ServeContent(w, r, "", modified, strings.NewReader(body))
	}))
	defer s.Close()
	c := openCache(t, Config{})
	answered.Store(1e9)
	content.Store("one")
	latest(t, c, s.URL, "one")
	content.Store("two")
	latest(t, c, s.URL, "two")
	answered.Store(1e9 + 60)
	for range 3 {
		latest(t, c, s.URL, "two")
	}
	if got := sent.Load(); got != 3 {
		t.Errorf("all of it was asked for %d times, want 3: twice in its second, and once after it", got)
	}
}
