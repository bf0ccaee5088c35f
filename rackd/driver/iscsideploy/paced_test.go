package iscsideploy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/rackd/iscsi"
	"github.com/ironyard/ironyard/rackd/iscsi/iscsitest"
)

// even is an image of one byte, over and over, with a MiB of zeros in each four.
type even struct{ bytes, off int64 }

func (e *even) size() int64 { return e.bytes }

func (e *even) next(p []byte) (int, int64, error) {
	if e.off == e.bytes {
		return 0, 0, io.EOF
	}
	e.off += int64(len(p))
	if e.off%(4<<20) < 1<<20 {
		return 0, int64(len(p)), nil
	}
	for i := range p {
		p[i] = 'e'
	}
	return len(p), 0, nil
}

func (e *even) check() (bool, error) { return true, nil }
func (e *even) close()               {}

// What tgtd has taken goes to the medium while the image is sent. The kernel tells how much of it waits in the host's memory.
func TestTheMediumWorksWhileTheImageIsSent(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs tgt (Debian's package); set IRONYARD_E2E=1")
	}
	const size, iqn = 5 * flushEvery, "iqn.2026-11.org.example:paced"
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var at unix.Statfs_t
	if err := errors.Join(f.Truncate(size), unix.Fstatfs(int(f.Fd()), &at)); err != nil {
		t.Fatal(err)
	}
	if at.Type == unix.TMPFS_MAGIC {
		t.Skip("the folder for tests is in memory, which has no medium: set TMPDIR")
	}
	g := iscsitest.Start(t, path, iqn)
	s, err := iscsi.Connect(t.Context(), iscsi.Target{Address: g.Address, IQN: iqn, LUN: 1, Initiator: "iqn.2026-11.org.example:rackd"}, iscsi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Disk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tr := newTransfer(s, d, &even{bytes: size})
	tr.done = func() {}
	defer tr.close()
	var most, now unix.Cachestat_t
	look := func() error {
		err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &now, 0)
		most.Dirty = max(most.Dirty, now.Dirty+now.Writeback)
		return err
	}
	if err := look(); errors.Is(err, unix.ENOSYS) {
		t.Skip("the kernel (before 6.5) does not tell what it holds")
	}
	for ended := false; !ended; {
		if ended, err = tr.step(t.Context(), time.Now().Add(slice), look); err != nil {
			t.Fatal(err)
		}
	}
	waited := int64(most.Dirty) * int64(os.Getpagesize())
	if waited == 0 || waited > 5*flushEvery/2 {
		t.Errorf("%d bytes of %d have waited at once: a flush is to begin each %d", waited, int64(size), flushEvery)
	}
	t.Logf("%d bytes at most have waited", waited)
}
