package rackramdisk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// digests keeps the digest of each file's content for as long as its size and time stay.
type digests struct {
	mu sync.Mutex
	of map[string]digested
}

type digested struct {
	size    int64
	changed time.Time
	sum     string
}

// Identity tells the ramdisks from those that were under their names before, and from other racks': it is a digest of what the files hold.
// Racks with the same files have the same identity. Files may be replaced while this rackd runs: one that is new is read whole.
func (s *Shelf) Identity() string {
	s.digests.mu.Lock()
	defer s.digests.mu.Unlock()
	sum := sha256.New()
	for _, h := range s.all {
		fmt.Fprintf(sum, "%q %q %s %s %s ", h.Arch, h.Class, s.digests.read(h.Kernel), s.digests.read(h.Initramfs), s.digests.read(h.UKI))
	}
	fmt.Fprint(sum, s.digests.read(s.own.UKIARM64))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// read returns the digest of a file; "-" of none, and of one that cannot be read. The caller holds mu.
func (d *digests) read(path string) string {
	if path == "" {
		return "-"
	}
	f, err := os.Open(path)
	if err != nil {
		return "-"
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return "-"
	}
	if kept, ok := d.of[path]; ok && kept.size == is.Size() && kept.changed.Equal(is.ModTime()) {
		return kept.sum
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "-"
	}
	if d.of == nil {
		d.of = map[string]digested{}
	}
	kept := digested{size: is.Size(), changed: is.ModTime(), sum: hex.EncodeToString(sum.Sum(nil)[:8])}
	d.of[path] = kept
	return kept.sum
}
