package imagecache

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The cache leaves some of its disk free for others, and evicts for that before it writes. What does not fit at all evicts too, but only
// once the disk is full.
func TestTheCacheLeavesSomeOfItsDiskFree(t *testing.T) {
	const mib = 1 << 20
	dir := small(t)
	o := newOrigin(t)
	c := openCache(t, Config{Dir: filepath.Join(dir, "cache")})
	k := &clock{time.Now()}
	c.now = k.now
	old := mustEnsure(t, c, o.put("/old", 3*mib))
	k.at = k.at.Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, "others"), make([]byte, 4*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := spaceOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	mustEnsure(t, c, o.put("/new", int(s.free)-64<<10)) // it fits, and would leave less than the spare
	if s, err = spaceOf(dir); err != nil || s.free < s.size/100*spare || has(c, old) {
		t.Errorf("%d of %d bytes are free, %v; the old image is there: %t", s.free, s.size, err, has(c, old))
	}
}
