package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallStore is a file system of some MiB in memory, with a file that is larger than it: a
// disk on that file has room for some of its bytes only.
func smallStore(t *testing.T, mib string, diskSize int64) (store, device string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: a file system and a loop device to fail on want root")
	}
	store = t.TempDir()
	if err := unix.Mount("tmpfs", store, "tmpfs", 0, "size="+mib+"m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	back := filepath.Join(store, "back")
	if err := os.WriteFile(back, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(back, diskSize); err != nil {
		t.Fatal(err)
	}
	if device = loop(t, back); device == "" {
		t.Fatal("no loop device")
	}
	return store, device
}

// fill takes all room of a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for {
		if _, err := f.Write(piece); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A disk fails for a while in the middle of a write, and is well again before the end: the
// kernel tells of it once, and that must be enough.
func TestAWriteErrorInTheMiddleIsNotForgotten(t *testing.T) {
	store, device := smallStore(t, "200", 160<<20)
	d, err := Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ballast := filepath.Join(store, "ballast")
	data := bytes.Repeat([]byte{0xab}, 1<<20)
	var failed error
	for i := int64(0); i < 128; i++ {
		switch i {
		case 32:
			fill(t, ballast)
		case 96:
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.WriteAt(data, i<<20); err != nil && failed == nil {
			failed = err
		}
	}
	if !errors.Is(failed, unix.EIO) && !errors.Is(failed, unix.ENOSPC) {
		t.Errorf("the writes while the disk failed, and those behind them: %v", failed)
	}
	if err := d.Flush(); err == nil || failed != nil && err.Error() != failed.Error() {
		t.Errorf("Flush: %v, want the first error of a write: %v", err, failed)
	}
	if err := d.Zero(0, 4096); err == nil {
		t.Error("a disk that has failed is zeroed as if it were well")
	}
	// The disk is well again: its ends can be wiped, so that nothing boots from it.
	if err := d.WipeEnds(); err != nil {
		t.Errorf("wiping the ends: %v", err)
	}
	if err := d.VerifyAt(make([]byte, EndsSize), 0); err != nil {
		t.Errorf("the wiped start: %v", err)
	}
	if err := d.Flush(); err == nil {
		t.Error("Flush forgets the error")
	}
}

// A disk that says well and keeps something else is found out.
func TestADiskThatLiesIsFoundOut(t *testing.T) {
	const size = 96 << 20
	path := file(t, size)
	device := path
	if dev := loop(t, path); dev != "" {
		device = dev
	}
	d, err := Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data := bytes.Repeat([]byte("ironyard"), 1<<17)
	for off := int64(0); off < 64<<20; off += 1 << 20 {
		if _, err := d.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(d.Zero(64<<20, 32<<20), d.Flush(), d.Verify(), d.VerifyAt(data, 5<<20), d.VerifyAt(data[3:70_000], 1<<20+3)); err != nil {
		t.Fatalf("a disk that is well: %v", err)
	}
	for _, c := range []struct {
		what    string
		from, n int64
	}{{"data", 16 << 20, 16 << 20}, {"zeros", 80 << 20, 16 << 20}} {
		// Behind the kernel's cache of the device, as a bad disk does it.
		was := make([]byte, c.n)
		back, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := back.ReadAt(was, c.from); err != nil {
			t.Fatal(err)
		}
		if _, err := back.WriteAt(bytes.Repeat([]byte{1}, int(c.n)), c.from); err != nil {
			t.Fatal(err)
		}
		var different *DifferentError
		if err := d.Verify(); !errors.As(err, &different) || different.Off < c.from || different.Off >= c.from+c.n || different.Disk != device {
			t.Errorf("other %s on the disk at %d: %v", c.what, c.from, err)
		}
		if _, err := back.WriteAt(was, c.from); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(back.Close(), d.Verify()); err != nil {
			t.Errorf("put right again: %v", err)
		}
	}
}

// What is kept of a window follows what is written over it.
func TestSamplesFollowWhatIsWrittenOver(t *testing.T) {
	const size = 64 << 20
	path := file(t, size)
	for round := range 8 {
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		piece := bytes.Repeat([]byte{byte(round), 7}, 1<<19)
		for i := range 200 {
			off := int64(i*7919+round*104_729) * 512 % (size - int64(len(piece)))
			n := int64(1 + i*i*1021%len(piece))
			if i%3 == 0 {
				err = d.Zero(off, n)
			} else {
				_, err = d.WriteAt(piece[:n], off)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(d.Flush(), d.Verify()); err != nil {
			t.Fatal(err)
		}
		if len(d.samples.kept) == 0 {
			t.Fatal("nothing is kept to be read back")
		}
		d.Close()
	}
}
