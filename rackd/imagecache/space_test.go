package imagecache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// small is a folder on a file system of 10 MiB.
func small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: a file system of its own wants root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=10m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Whatever the configured bound is, the cache fills a share of its disk, and evicts where that
// is not enough because others fill the disk too.
func TestTheDiskBoundsTheCache(t *testing.T) {
	const mib = 1 << 20
	dir := small(t)
	o := newOrigin(t)
	cache := filepath.Join(dir, "cache")
	c := openCache(t, Config{Dir: cache})
	k := &clock{time.Now()}
	c.now = k.now
	if _, err := c.Ensure(t.Context(), o.put("/large", 9*mib)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "the disk of "+cache+" has 10485760 bytes") {
		t.Errorf("an image of nine tenths of the disk: %v", err)
	}
	var had []Entry
	for _, path := range []string{"/a", "/b", "/c"} {
		had = append(had, mustEnsure(t, c, o.put(path, 3*mib)))
		k.at = k.at.Add(time.Hour)
	}
	if has(c, had[0]) || !has(c, had[1]) || !has(c, had[2]) {
		t.Error("three images of three tenths are not cut to two")
	}
	// Others fill the disk: 3 MiB are left. What is announced, and what comes without a length and so
	// runs into the full disk in the middle, has the older images evicted.
	if err := os.WriteFile(filepath.Join(dir, "others"), make([]byte, 3*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	d := mustEnsure(t, c, o.put("/d", 2*mib))
	k.at = k.at.Add(time.Hour)
	if has(c, had[1]) || !has(c, had[2]) || !has(c, d) {
		t.Error("the oldest image did not make room")
	}
	e := mustEnsure(t, c, o.put("/chunked", 4*mib))
	k.at = k.at.Add(time.Hour)
	if has(c, had[2]) || !has(c, e) {
		t.Error("the older image did not make room for one without a length")
	}
	// No image may go: the error says how full the disk is, and nothing is left of the fetch.
	serving := c.acquire(e.ID)
	defer c.release(serving)
	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, mib), 0o600); err != nil {
		t.Logf("the disk is full: %v", err)
	}
	if _, err := c.Ensure(t.Context(), o.put("/f", 5*mib/2)); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "are free") {
		t.Errorf("a full disk: %v", err)
	}
}

// A disk that gets full between the look at it and the write evicts and goes on.
func TestAFullDiskInTheMiddleOfAWriteEvicts(t *testing.T) {
	const mib = 1 << 20
	dir := small(t)
	o := newOrigin(t)
	c := openCache(t, Config{Dir: filepath.Join(dir, "cache")})
	k := &clock{time.Now()}
	c.now = k.now
	old := mustEnsure(t, c, o.put("/old", 4*mib))
	k.at = k.at.Add(time.Hour)
	got := make(chan error, 1)
	src := o.put("/held", 3*mib)
	go func() { _, err := c.Ensure(t.Context(), src); got <- err }()
	<-o.began // half of it is sent, and all of it is granted
	await(t, func() bool { return c.locked(func() int64 { return c.written }) == 3*mib/2 })
	f, err := os.Create(filepath.Join(dir, "others"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, mib/4); ; {
		if _, err := f.Write(piece); errors.Is(err, unix.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	close(o.hold)
	if err := <-got; err != nil {
		t.Errorf("the fetch: %v", err)
	}
	if has(c, old) {
		t.Error("the old image was not evicted")
	}
}
