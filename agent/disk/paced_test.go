package disk

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// An image with holes is written out while it comes, like one without, and takes no more memory. The kernel tells how much of the disk it
// holds.
func TestWritesWithGapsAreWrittenOut(t *testing.T) {
	_, device := smallStore(t, "256", 256<<20)
	d, err := Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const piece = 768 << 10
	data := bytes.Repeat([]byte("data"), piece/4)
	var most uint64
	for off := int64(0); off < 192<<20; off += 1 << 20 {
		if _, err := d.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
		if err := d.Zero(off+piece, 1<<20-piece); err != nil {
			t.Fatal(err)
		}
		var held unix.Cachestat_t
		if err := unix.Cachestat(uint(d.f.Fd()), &unix.CachestatRange{}, &held, 0); errors.Is(err, unix.ENOSYS) {
			t.Skip("the kernel (before 6.5) does not tell what it holds")
		} else if err != nil {
			t.Fatal(err)
		}
		most = max(most, (held.Dirty+held.Writeback)*uint64(os.Getpagesize()))
	}
	if most > 3*writebackWindow {
		t.Errorf("%d bytes wait to be written out, of windows of %d", most, writebackWindow)
	}
	t.Logf("%d bytes at most have waited", most)
}
