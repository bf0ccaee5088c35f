// Package image brings a whole-disk image from HTTP onto a disk: raw or qcow2,
// plain or compressed, verified against the checksum of the file as served.
//
// It may import protocol/trickle, protocol/diskformat and protocol/qcow2file. Invariants:
//   - Every byte of the image's range reads on the disk as in the image; zeros are
//     not sent over the bus but made by the disk, never assumed.
//   - The first MiB (boot sector, partition table) is written last, after the
//     checksum was right. A wrong or interrupted image never boots. After a
//     failure both ends of the disk are wiped.
//   - Nothing is written before the image is known to fit, where its size can be
//     known (Content-Length of a plain raw file, header of a qcow2).
//   - A download that breaks off goes on where it was, at any server that has the
//     same file by its strong entity tag; else it starts over.
//   - The file's format is what was declared: the first bytes are looked at, and a
//     qcow2 that refers to other files is refused.
//
// A qcow2 file has to be read out of order. If it fits in half of the free memory
// it is downloaded there once, hashed on the way, and written while it comes. If
// not, it is read twice over HTTP: once in order, for the checksum, while the
// SHA-256 of each MiB is kept; then by range requests, in which every MiB is
// compared with what was verified.
package image

import (
	"context"
	"net/http"
	"time"
)

// Disk is where an image goes.
type Disk interface {
	Name() string
	Size() int64
	WriteAt(p []byte, off int64) (int, error)
	// Zero makes a range read as zero.
	Zero(off, n int64) error
	// WipeEnds makes both ends read as zero, on the medium, also after a write that failed.
	WipeEnds() error
	Flush() error
}

// Spec says what to fetch and what it must be.
type Spec struct {
	ID   string
	URLs []string
	// HashAlgo is sha256 or sha512; HashValue is hex.
	HashAlgo, HashValue string
	// Format is raw or qcow2; Compression "", gzip, zstd or xz.
	Format, Compression string
}

// Writer fetches and writes images. Safe for concurrent use with different disks.
type Writer struct {
	Client *http.Client
	// SpoolDir is where a qcow2 file is kept while it is converted (a tmpfs).
	SpoolDir string
	// SpoolLimit returns how many bytes may be kept there.
	SpoolLimit func() int64
	// Stall is the time in which a download must bring trickle.Least; zero means trickle.Within.
	Stall time.Duration
	// Pause is the first pause before a retry; it doubles. Zero means 2 s.
	Pause time.Duration
}

// Report is told how many bytes of the virtual disk are done, of how many (0: not
// known yet). It is called from one goroutine, some times a second at most.
type Report func(done, total int64)

// Attempts is how often a download is begun in the face of network errors that it
// could not go on after.
const Attempts = 3

// Write brings the image onto the disk and returns the size of the image's virtual
// disk. Network errors are retried; everything else is final.
func (w *Writer) Write(ctx context.Context, s Spec, d Disk, report Report) (int64, error) {
	if report == nil {
		report = func(int64, int64) {}
	}
	if err := s.check(); err != nil {
		return 0, err
	}
	a := &attempt{w: w, spec: s, disk: d, report: report}
	n, err := w.tries(ctx, s.URLs, func(url string) (int64, error) { return a.run(ctx, url) })
	if err != nil && a.touched {
		// Even when the caller gave up: what lies there must not boot.
		if werr := d.WipeEnds(); werr != nil {
			err = &wipeError{err, werr}
		}
	}
	return n, err
}
