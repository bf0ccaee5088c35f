package disk

import "fmt"

// Part is a range of a disk that is written as if it were a disk. Where writes go beyond it they fail. It is for the goroutine
// that writes to the disk.
type Part struct {
	disk        *Disk
	name        string
	start, size int64
}

// Part is the range of size bytes from start; name is what errors call it.
func (d *Disk) Part(name string, start, size int64) *Part { return &Part{d, name, start, size} }

// Name is what errors call the part.
func (p *Part) Name() string { return p.name }

// Size is the part's size in bytes.
func (p *Part) Size() int64 { return p.size }

// SectorSize is the disk's logical sector size in bytes.
func (p *Part) SectorSize() int64 { return p.disk.sector }

// ReadAt reads as io.ReaderAt does.
func (p *Part) ReadAt(b []byte, off int64) (int, error) {
	if err := p.within("reading", off, int64(len(b))); err != nil {
		return 0, err
	}
	return p.disk.ReadAt(b, p.start+off)
}

// WriteAt writes b at off of the part. Errors are those of Disk.WriteAt.
func (p *Part) WriteAt(b []byte, off int64) (int, error) {
	if err := p.within("writing", off, int64(len(b))); err != nil {
		return 0, err
	}
	return p.disk.WriteAt(b, p.start+off)
}

// Zero makes n bytes at off of the part read as zero. Errors are those of Disk.Zero.
func (p *Part) Zero(off, n int64) error {
	if err := p.within("zeroing", off, n); err != nil {
		return err
	}
	return p.disk.Zero(p.start+off, n)
}

func (p *Part) within(doing string, off, n int64) error {
	if off < 0 || off+n > p.size {
		return fmt.Errorf("%s %d bytes at %d of %s: beyond its %d bytes", doing, n, off, p.name, p.size)
	}
	return nil
}

// WipeEnds overwrites both ends of the part with zeros, as Disk.WipeEnds does those of a disk.
func (p *Part) WipeEnds() error { return p.disk.wipe(p.start, p.size) }

// Flush is Disk.Flush.
func (p *Part) Flush() error { return p.disk.Flush() }
