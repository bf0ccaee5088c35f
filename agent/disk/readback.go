package disk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// sampleSize is how much of a window is read back, in bytes.
	sampleSize = 64 << 10
	// leastWindow is how far apart samples lie at least, and maxSamples how many a disk has at
	// most: a hard disk of 20 TB reads them in some two minutes.
	leastWindow = 16 << 20
	maxSamples  = 16 << 10
	// grain is where samples begin and end: a multiple of all sector sizes, as reads past the
	// cache need it.
	grain = 4 << 10
)

// samples remembers, for each window of a disk, what one piece of it must read as. Which
// piece is left to chance, so that no pattern of faults escapes for good.
type samples struct {
	seed   maphash.Seed
	window int64 // bytes of the disk that share a sample
	kept   map[int64]sample
}

type sample struct {
	off  int64
	n    int64
	sum  uint64
	seen int64 // bytes written to the window, from which the piece was chosen
}

func newSamples(size int64) samples {
	window := max(leastWindow, (size/maxSamples+grain)/grain*grain)
	return samples{seed: maphash.MakeSeed(), window: window, kept: map[int64]sample{}}
}

// zeros is what a piece that was zeroed reads as.
var zeros [sampleSize]byte

// note takes in that n bytes at off were written: p, or zeros where p is nil.
func (s *samples) note(p []byte, off, n int64) {
	for w := off / s.window; w*s.window < off+n; w++ {
		from, to := max(off, w*s.window), min(off+n, (w+1)*s.window)
		s.noteWindow(w, from, to, func(at, n int64) []byte {
			if p == nil {
				return zeros[:n]
			}
			return p[at-off:][:n]
		})
	}
}

func (s *samples) noteWindow(w, from, to int64, bytesAt func(at, n int64) []byte) {
	k, ok := s.kept[w]
	switch {
	case !ok:
	case k.off+k.n <= from || to <= k.off: // not touched
	case from <= k.off && k.off+k.n <= to:
		k.sum = maphash.Bytes(s.seed, bytesAt(k.off, k.n))
	default: // a part of it is other by now
		k.n = 0
	}
	k.seen += to - from
	first, last := (from+grain-1)/grain*grain, to/grain*grain
	// Each byte of the window is as likely as another to be chosen, however it is cut into writes.
	if last > first && (k.n == 0 || rand.Int64N(k.seen) < to-from) {
		k.n = min(sampleSize, last-first)
		k.off = first + rand.Int64N((last-first-k.n)/grain+1)*grain
		k.sum = maphash.Bytes(s.seed, bytesAt(k.off, k.n))
	}
	if k.n == 0 {
		delete(s.kept, w)
		return
	}
	s.kept[w] = k
}

// DifferentError says that a disk does not hold what was written to it, although it reported
// no error.
type DifferentError struct {
	Disk string
	Off  int64 // of the piece that differs
	N    int64
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("disk %s does not hold what was written: %d bytes at %d read back differently; the disk, its cable or its controller is faulty", e.Disk, e.N, e.Off)
}

// FaultType names the error as ironic-python-agent does.
func (e *DifferentError) FaultType() string { return "BlockDeviceError" }

// Verify reads back past the kernel's cache, in each window of the disk that was written or
// zeroed since Open, one piece. It wants what was written to be flushed. The error is a
// *DifferentError where the disk holds something else.
func (d *Disk) Verify() error {
	m, err := d.medium()
	if err != nil {
		return err
	}
	defer m.Close()
	for w := range d.samples.kept {
		k := d.samples.kept[w]
		got, err := m.read(k.off, k.n)
		if err != nil {
			return fmt.Errorf("reading disk %s back: %w", d.name, err)
		}
		if maphash.Bytes(d.samples.seed, got) != k.sum {
			return &DifferentError{d.name, k.off, k.n}
		}
	}
	return nil
}

// VerifyAt reads back past the kernel's cache what was written at off, whole.
func (d *Disk) VerifyAt(p []byte, off int64) error {
	m, err := d.medium()
	if err != nil {
		return err
	}
	defer m.Close()
	for len(p) > 0 {
		n := min(sampleSize-off%grain, int64(len(p)))
		got, err := m.read(off, n)
		if err != nil {
			return fmt.Errorf("reading disk %s back: %w", d.name, err)
		}
		if !bytes.Equal(got, p[:n]) {
			return &DifferentError{d.name, off, n}
		}
		p, off = p[n:], off+n
	}
	return nil
}

// medium reads a disk past the kernel's cache. Not safe for concurrent use.
type medium struct {
	f      *os.File
	direct bool
	buf    []byte // at a page's start, as the kernel asks
}

func (d *Disk) medium() (*medium, error) {
	m := &medium{direct: true}
	var err error
	if m.f, err = os.OpenFile(d.name, os.O_RDONLY|unix.O_DIRECT, 0); errors.Is(err, unix.EINVAL) {
		// A file on a file system in memory: there is no medium behind the cache.
		m.direct = false
		m.f, err = os.Open(d.name)
	}
	if err != nil {
		return nil, fmt.Errorf("opening disk %s to read it back: %w", d.name, err)
	}
	if m.buf, err = unix.Mmap(-1, 0, sampleSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		m.f.Close()
		return nil, fmt.Errorf("memory to read disk %s back: %w", d.name, err)
	}
	return m, nil
}

// read returns n bytes at off, of memory that the next read uses again. They lie within
// sampleSize bytes from the grain's start.
func (m *medium) read(off, n int64) ([]byte, error) {
	from := off / grain * grain
	to := (off + n + grain - 1) / grain * grain
	if !m.direct {
		_ = unix.Fadvise(int(m.f.Fd()), from, to-from, unix.FADV_DONTNEED)
	}
	got, err := m.f.ReadAt(m.buf[:to-from], from)
	if err != nil && !(errors.Is(err, io.EOF) && int64(got) >= off-from+n) { // the disk's end is within the grain
		return nil, err
	}
	return m.buf[off-from:][:n], nil
}

// Close gives file and memory back.
func (m *medium) Close() {
	_ = unix.Munmap(m.buf) // it was mapped by medium; there is nothing else to do
	m.f.Close()
}
