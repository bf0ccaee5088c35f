// Package disk is one block device as the agent writes to it: opened exclusively,
// written in large pieces, zeroed the fastest way that truly reads back as zero,
// flushed, read back from the medium, and its partition table shown to the kernel again.
// A regular file can stand in for a device, which is how some of the tests run.
//
// It may import nothing of the project. Invariants: a device that is mounted or
// otherwise in use is never opened; Zero never trusts a discard, whose result is
// undefined; the first error of a write is kept, however late the kernel tells of it, and
// every later write and Flush return it.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk is an open disk. WriteAt and Zero may be called from one goroutine at a time.
type Disk struct {
	name   string
	f      *os.File
	size   int64
	sector int64
	block  bool
	// window is where was written since the last time writeback was started, and how many bytes: zeros that the disk makes leave gaps.
	window struct{ start, end, bytes, prevStart, prevEnd int64 }
	// failed is the first error of a write. The kernel tells of a failed writeback once, so
	// what is told here must not be forgotten.
	failed  error
	samples samples
	// fallocate is unix.Fallocate but in tests.
	fallocate func(fd int, mode uint32, off, n int64) error
}

// Open opens a disk exclusively for writing.
func Open(path string) (*Disk, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening disk: %w", err)
	}
	d := &Disk{name: path, sector: 512, size: st.Size(), block: st.Mode()&fs.ModeDevice != 0, fallocate: unix.Fallocate}
	flags := os.O_RDWR
	if d.block {
		// Without O_CREAT this asks the kernel for exclusive use: EBUSY if mounted.
		flags |= unix.O_EXCL
	}
	if d.f, err = os.OpenFile(path, flags, 0); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("opening disk %s: it is in use (mounted, or part of a RAID or volume group): %w", path, err)
		}
		return nil, fmt.Errorf("opening disk: %w", err)
	}
	if d.block {
		if err = d.geometry(); err != nil {
			d.f.Close()
			return nil, err
		}
	}
	if d.size == 0 {
		d.f.Close()
		return nil, fmt.Errorf("opening disk %s: it has no size (an empty drive?)", path)
	}
	d.samples = newSamples(d.size)
	return d, nil
}

func (d *Disk) geometry() error {
	var bytes uint64
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&bytes))); e != 0 {
		return fmt.Errorf("asking size of disk %s: %w", d.name, e)
	}
	sector, err := unix.IoctlGetInt(int(d.f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("asking sector size of disk %s: %w", d.name, err)
	}
	d.size, d.sector = int64(bytes), int64(sector)
	return nil
}

// Name is the path the disk was opened by.
func (d *Disk) Name() string { return d.name }

// Size is the disk's size in bytes.
func (d *Disk) Size() int64 { return d.size }

// SectorSize is the logical sector size in bytes.
func (d *Disk) SectorSize() int64 { return d.sector }

// ReadAt reads as io.ReaderAt does.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) { return d.f.ReadAt(p, off) }

// writebackWindow bounds dirty memory: a ramdisk has little, and a progress bar
// that runs ahead of the disk lies.
const writebackWindow = 16 << 20

// WriteAt writes p at off. A write beyond the end is an error that names the disk. After a
// write that failed, also one of before, it writes nothing and returns that one's error.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > d.size {
		return 0, fmt.Errorf("writing %d bytes at %d of disk %s: beyond its %d bytes", len(p), off, d.name, d.size)
	}
	if d.failed != nil {
		return 0, d.failed
	}
	n, err := d.write(p, off)
	return n, d.keep(err)
}

// keep remembers the first error of a write, and returns that one.
func (d *Disk) keep(err error) error {
	if d.failed == nil {
		d.failed = err
	}
	return d.failed
}

func (d *Disk) write(p []byte, off int64) (int, error) {
	n, err := d.f.WriteAt(p, off)
	if err != nil {
		return n, fmt.Errorf("writing to disk %s: %w", d.name, err)
	}
	d.samples.note(p, off, int64(n))
	return n, d.paced(off, off+int64(n))
}

// paced starts writeback of each full window and waits for the one before. An error of
// writeback, which Flush would not be told any more, is returned.
func (d *Disk) paced(from, to int64) error {
	w := &d.window
	if from < w.end || w.bytes == 0 {
		w.start, w.bytes = from, 0
	}
	w.end, w.bytes = to, w.bytes+to-from
	if w.bytes < writebackWindow {
		return nil
	}
	fd := int(d.f.Fd())
	start, n := w.start, w.end-w.start
	prevStart, prev := w.prevStart, w.prevEnd-w.prevStart
	w.prevStart, w.prevEnd, w.bytes = w.start, w.end, 0
	err := unix.SyncFileRange(fd, start, n, unix.SYNC_FILE_RANGE_WRITE)
	if prev > 0 {
		err = errors.Join(err, unix.SyncFileRange(fd, prevStart, prev,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER))
		_ = unix.Fadvise(fd, prevStart, prev, unix.FADV_DONTNEED) // advice: it frees memory
	}
	if err != nil {
		return fmt.Errorf("writing to disk %s, between %d and %d: %w", d.name, prevStart, start+n, err)
	}
	return nil
}

// Zero makes n bytes at off read as zero. The disk does it itself where it can: it unmaps them, or is told to write
// zeros. Else the kernel writes zeros. What was there may still be on the medium: Overwrite is for erasing. Errors are those of
// WriteAt.
func (d *Disk) Zero(off, n int64) error { return d.clear("zeroing", off, n, d.zero) }

// Overwrite sends zeros to the disk for n bytes at off. It unmaps nothing, and takes as long as any other write. Errors are those
// of WriteAt.
func (d *Disk) Overwrite(off, n int64) error { return d.clear("overwriting", off, n, d.writeZeros) }

func (d *Disk) clear(doing string, off, n int64, clear func(off, n int64) error) error {
	if off < 0 || off+n > d.size {
		return fmt.Errorf("%s %d bytes at %d of disk %s: beyond its %d bytes", doing, n, off, d.name, d.size)
	}
	if d.failed != nil {
		return d.failed
	}
	return d.keep(clear(off, n))
}

func (d *Disk) zero(off, n int64) error {
	if n == 0 {
		return nil
	}
	// On block devices both calls promise zeros. The first is an unmap, and refuses rather than be slow.
	for _, mode := range []uint32{
		unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE,
		unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE,
	} {
		if off%d.sector != 0 || n%d.sector != 0 {
			break
		}
		var err error
		for {
			if err = d.fallocate(int(d.f.Fd()), mode, off, n); err != unix.EINTR {
				break
			}
		}
		if err == nil {
			d.samples.note(nil, off, n)
			return nil
		}
		// Also a drive that claims a command may answer it with an error. Whether the drive is
		// faulty shows when zeros are written.
	}
	return d.writeZeros(off, n)
}

func (d *Disk) writeZeros(off, n int64) error {
	piece := make([]byte, min(n, 1<<20))
	for n > 0 {
		k := min(n, int64(len(piece)))
		if _, err := d.write(piece[:k], off); err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}

// EndsSize is how much WipeEnds zeroes at each end, in bytes: both copies of a
// GPT, boot sectors and the superblocks of software RAID lie within.
const EndsSize = 1 << 20

// WipeEnds overwrites with zeros the first and the last MiB, so that nothing boots from or
// assembles the disk's former content. It returns when the zeros are on the medium. It does
// so also after a write that failed, of which its own error says nothing.
func (d *Disk) WipeEnds() error { return d.wipe(0, d.size) }

// wipe is WipeEnds for the range of size bytes from start.
func (d *Disk) wipe(start, size int64) error {
	// An error of before is kept, and told by Flush; what the second one tells is about the zeros.
	_ = d.keep(d.sync())
	n := min(size, EndsSize)
	if err := errors.Join(d.writeZeros(start, n), d.writeZeros(start+size-n, n)); err != nil {
		return d.keepFrom(err)
	}
	return d.keepFrom(d.sync())
}

// keepFrom remembers err as the first error if there is none yet, and returns err itself.
func (d *Disk) keepFrom(err error) error {
	_ = d.keep(err)
	return err
}

// Flush returns when everything written is on the medium, or the first error since Open of
// any write.
func (d *Disk) Flush() error { return d.keep(d.sync()) }

func (d *Disk) sync() error {
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("flushing disk %s: %w", d.name, err)
	}
	return nil
}

// RereadPartitions makes the kernel read the partition table again. On a regular
// file it does nothing.
func (d *Disk) RereadPartitions() error {
	if !d.block {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), unix.BLKRRPART, 0); e != 0 && e != unix.EINVAL {
		// EINVAL: a device that cannot have partitions, such as a plain loop device.
		return fmt.Errorf("reading the partition table of disk %s again: %w", d.name, e)
	}
	return nil
}

// Refresh writes out what the kernel keeps of the disk, and has it forgotten. So what was written by the files of its partitions is read.
// On a regular file it does nothing.
func (d *Disk) Refresh() error {
	if !d.block {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), unix.BLKFLSBUF, 0); e != 0 {
		return fmt.Errorf("forgetting what the kernel keeps of disk %s: %w", d.name, e)
	}
	return nil
}

// Close closes the disk without flushing.
func (d *Disk) Close() error { return d.f.Close() }
