package imagecache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// flip changes one byte of an image's file and leaves its size and time.
func flip(t *testing.T, e Entry) {
	t.Helper()
	info, err := os.Stat(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(e.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, e.Size/2); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, e.Size/2); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(e.Path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// intact reports whether an image's file has its checksum.
func intact(t *testing.T, e Entry) bool {
	t.Helper()
	b, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	return sumOf(string(b)) == e.HashValue
}

// A damaged image is found out when an agent has complained, when a day has passed, and when another
// process has fetched it; then it is fetched once more. One that is whole is not.
func TestADamagedImageIsFetchedAgain(t *testing.T) {
	for name, look := range map[string]func(*testing.T, *Cache, *clock, Entry) *Cache{
		"an agent complains": func(t *testing.T, c *Cache, _ *clock, e Entry) *Cache {
			if whole, err := c.Verify(t.Context(), e.ID); whole || err != nil {
				t.Errorf("verified: whole %v, %v", whole, err)
			}
			return c
		},
		"a day later": func(_ *testing.T, c *Cache, k *clock, _ Entry) *Cache { k.at = k.at.Add(verifyAfter); return c },
		"after a restart": func(t *testing.T, c *Cache, _ *clock, _ Entry) *Cache {
			again := openCache(t, Config{Dir: c.dir})
			c.mu.Lock() // for checkBooks: the folder is the new cache's now
			defer c.mu.Unlock()
			c.entries, c.stored = again.entries, again.stored
			return again
		},
	} {
		for _, damaged := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				o := newOrigin(t)
				c := openCache(t, Config{})
				k := &clock{time.Now()}
				c.now = k.now
				e := mustEnsure(t, c, o.put("/a", 300_000))
				got := o.gets.Load()
				if damaged {
					flip(t, e)
				}
				if name == "an agent complains" && !damaged {
					if whole, err := c.Verify(t.Context(), e.ID); !whole || err != nil {
						t.Errorf("a whole image: %v, %v", whole, err)
					}
				} else {
					c = look(t, c, k, e)
				}
				again, err := c.Ensure(t.Context(), Source{URL: o.URL + "/a", HashValue: e.HashValue, Given: e.ID})
				if err != nil || !intact(t, again) {
					t.Errorf("damaged %v: the image that is given is intact: %v, %v", damaged, err == nil && intact(t, again), err)
				}
				if fetched := o.gets.Load() - got; (fetched > 0) != damaged {
					t.Errorf("damaged %v: fetched %d times more", damaged, fetched)
				}
				c.mu.Lock()
				stored := c.stored
				c.mu.Unlock()
				if stored != 300_000 {
					t.Errorf("the cache counts %d bytes", stored)
				}
			})
		}
	}
}

func TestVerifyIsCancelled(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	e := mustEnsure(t, c, o.put("/a", 100))
	c.verifying <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Verify(ctx, e.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-c.verifying
	if whole, err := c.Verify(t.Context(), "sha256-"+sumOf("other")); whole || err != nil {
		t.Errorf("an image that is not here: %v, %v", whole, err)
	}
}

// An address that says that nothing has changed does not make a damaged copy whole.
func TestADamagedFileOfAnAddressIsFetchedAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "a kernel")
	}))
	t.Cleanup(server.Close)
	c := openCache(t, Config{})
	k := &clock{time.Now()}
	c.now = k.now
	e, err := c.Latest(t.Context(), server.URL)
	if err != nil || !c.Ready(e.ID) {
		t.Fatalf("%v, ready %v", err, c.Ready(e.ID))
	}
	flip(t, e)
	k.at = k.at.Add(verifyAfter)
	if c.Ready(e.ID) {
		t.Error("what was not compared for a day is ready")
	}
	if e, err = c.Latest(t.Context(), server.URL); err != nil || !intact(t, e) || !c.Ready(e.ID) {
		t.Errorf("%v, intact %v, ready %v", err, intact(t, e), c.Ready(e.ID))
	}
	if err := os.Remove(e.Path); err != nil {
		t.Fatal(err)
	}
	if c.Holds(e.ID) || c.Ready(e.ID) {
		t.Error("a file that is gone is held")
	}
}
