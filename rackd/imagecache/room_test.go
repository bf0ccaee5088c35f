package imagecache

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// clock is a cache's clock that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func openSmall(t *testing.T, dir string) (*Cache, *clock) {
	c := openCache(t, Config{Dir: dir, MaxBytes: 1000})
	k := &clock{time.Now()}
	c.now = k.now
	return c, k
}

func has(c *Cache, e Entry) bool {
	_, err := os.Stat(e.Path)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && c.entries[e.ID] != nil
}

func TestEvictsLongestUnused(t *testing.T) {
	o := newOrigin(t)
	c, k := openSmall(t, "")
	a := mustEnsure(t, c, o.put("/a", 400))
	k.at = k.at.Add(time.Hour)
	b := mustEnsure(t, c, o.put("/b", 400))
	k.at = k.at.Add(time.Hour)
	mustEnsure(t, c, o.put("/a", 400)) // used again
	k.at = k.at.Add(time.Hour)
	mustEnsure(t, c, o.put("/c", 400))
	if !has(c, a) || has(c, b) {
		t.Errorf("of the used a and the unused b remain: %v, %v", has(c, a), has(c, b))
	}
}

func TestKeepsWhatIsInUse(t *testing.T) {
	o := newOrigin(t)
	c, k := openSmall(t, "")
	a, b := mustEnsure(t, c, o.put("/a", 500)), mustEnsure(t, c, o.put("/b", 500))
	if _, err := c.Ensure(t.Context(), o.put("/c", 500)); !errors.Is(err, ErrFull) || Permanent(err) {
		t.Errorf("images just handed over were evicted: %v", err)
	}
	serving := c.acquire(a.ID) // the older one
	k.at = k.at.Add(time.Hour)
	mustEnsure(t, c, o.put("/c", 500))
	if !has(c, a) || has(c, b) {
		t.Errorf("of a being served and b idle remain: %v, %v", has(c, a), has(c, b))
	}
	c.release(serving)
}

func TestFetchesCountForTheBound(t *testing.T) {
	o := newOrigin(t)
	c, _ := openSmall(t, "")
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Ensure(ctx, o.put("/held", 600))
		ended <- err
	}()
	<-o.began
	await(t, func() bool { return c.locked(func() int64 { return c.reserved }) == 600 })
	for _, path := range []string{"/a", "/chunked"} {
		if _, err := c.Ensure(t.Context(), o.put(path, 500)); !errors.Is(err, ErrFull) {
			t.Errorf("%s beside a fetch of 600 of 1000 bytes: %v", path, err)
		}
	}
	giveUp()
	<-ended
	mustEnsure(t, c, o.put("/a", 500))
}

func TestLowerBoundAtStart(t *testing.T) {
	o := newOrigin(t)
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	old, young := mustEnsure(t, c, o.put("/a", 600)), mustEnsure(t, c, o.put("/b", 600))
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old.Path, before, before); err != nil {
		t.Fatal(err)
	}
	again := openCache(t, Config{Dir: dir, MaxBytes: 1000})
	if has(again, old) || !has(again, young) {
		t.Errorf("of the old and the young image remain: %v, %v", has(again, old), has(again, young))
	}
	c.mu.Lock() // for checkBooks: the folder is the new cache's now
	c.entries, c.stored = again.entries, again.stored
	c.mu.Unlock()
}

// Copies of what neighbours work with do not keep a deploy of one's own from its image; they
// do not chase each other out either.
func TestOwnFetchesEvictCopies(t *testing.T) {
	o := newOrigin(t)
	c, k := openSmall(t, "")
	var copies []Entry
	for _, path := range []string{"/a", "/b"} {
		k.at = k.at.Add(time.Second)
		e, err := c.Copy(t.Context(), o.put(path, 400))
		if err != nil {
			t.Fatal(err)
		}
		copies = append(copies, e)
	}
	if _, err := c.Copy(t.Context(), o.put("/c", 400)); !errors.Is(err, ErrFull) {
		t.Errorf("a third copy took the place of one that is wanted: %v", err)
	}
	own := mustEnsure(t, c, o.put("/own", 400))
	if has(c, copies[0]) || !has(c, copies[1]) || !has(c, own) {
		t.Errorf("of the older copy, the younger and the own image remain: %v, %v, %v", has(c, copies[0]), has(c, copies[1]), has(c, own))
	}
	serving := c.acquire(copies[1].ID)
	if _, err := c.Ensure(t.Context(), o.put("/more", 400)); !errors.Is(err, ErrFull) {
		t.Errorf("a copy that is being served, or an own image, was evicted: %v", err)
	}
	c.release(serving)
	mustEnsure(t, c, o.put("/b", 400)) // asked for here: a copy no more
	if _, err := c.Ensure(t.Context(), o.put("/more", 400)); !errors.Is(err, ErrFull) {
		t.Errorf("an own image was evicted for another: %v", err)
	}
}
