package imagecache

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf is a server with one file, of which it sells versions.
type shelf struct {
	*httptest.Server
	mu      sync.Mutex
	content string
	etag    string
	status  int // answered instead of the file
	sent    int // how often all of it went out
}

func newShelf(t *testing.T, content, etag string) *shelf {
	s := &shelf{content: content, etag: etag}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status != 0 {
			w.WriteHeader(s.status)
			return
		}
		if s.etag != "" {
			w.Header().Set("ETag", s.etag)
			if r.Header.Get("If-None-Match") == s.etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		s.sent++
		w.Write([]byte(s.content))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) set(content, etag string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content, s.etag, s.status = content, etag, status
}

func (s *shelf) count() int { s.mu.Lock(); defer s.mu.Unlock(); return s.sent }

func latest(t *testing.T, c *Cache, url, content string) {
	t.Helper()
	e, err := c.Latest(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(e.Path)
	if err != nil || string(got) != content || e.ID != "sha256-"+sumOf(content) || !c.Holds(e.ID) {
		t.Errorf("%s is %q (%v) under %s, want %q", url, got, err, e.ID, content)
	}
}

func TestLatestFollowsTheServer(t *testing.T) {
	s := newShelf(t, "one", `"1"`)
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	for range 3 {
		latest(t, c, s.URL+"/kernel", "one")
	}
	if s.count() != 1 {
		t.Errorf("fetched %d times, want once", s.count())
	}
	s.set("two", `"2"`, 0)
	latest(t, c, s.URL+"/kernel", "two")
	again := openCache(t, Config{Dir: dir}) // restarted
	latest(t, again, s.URL+"/kernel", "two")
	if s.count() != 2 {
		t.Errorf("fetched %d times, want twice", s.count())
	}
	s.set("", "", http.StatusServiceUnavailable) // the server, or the WAN, is down
	latest(t, again, s.URL+"/kernel", "two")
	s.set("", "", http.StatusNotFound) // it is no more: the operator must know
	if _, err := again.Latest(t.Context(), s.URL+"/kernel"); !errors.Is(err, ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
	if _, err := again.Latest(t.Context(), "http://127.0.0.1:1/kernel?token=s3cret"); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("never had and does not answer: %v", err)
	}
}

func TestLatestOfAServerWithoutVersions(t *testing.T) {
	s := newShelf(t, "one", "")
	c := openCache(t, Config{})
	latest(t, c, s.URL, "one")
	s.set("two", "", 0)
	latest(t, c, s.URL, "two")
}

func TestLatestOfAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kernel")
	c := openCache(t, Config{AllowedDirs: []string{dir}})
	for _, content := range []string{"one", "three"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			latest(t, c, "file://"+path, content)
		}
	}
	if _, err := c.Latest(t.Context(), "file:///etc/shadow"); !errors.Is(err, ErrSource) {
		t.Errorf("a file from elsewhere: %v", err)
	}
}

// An address whose content was evicted is fetched, not found unchanged.
func TestLatestAfterEviction(t *testing.T) {
	s := newShelf(t, strings.Repeat("a", 600), `"1"`)
	c := openCache(t, Config{MaxBytes: 1000})
	latest(t, c, s.URL, strings.Repeat("a", 600))
	now := time.Now().Add(handOver + time.Second)
	c.now = func() time.Time { return now }
	mustEnsure(t, c, newOrigin(t).put("/image", 900))
	now = now.Add(handOver + time.Second)
	latest(t, c, s.URL, strings.Repeat("a", 600))
	if s.count() != 2 {
		t.Errorf("fetched %d times, want twice", s.count())
	}
}
