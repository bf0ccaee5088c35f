package image

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lima-vm/go-qcow2reader/image"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/protocol/qcow2file"
)

// mostAhead is how far the table is looked through for zeros at most, in bytes.
const mostAhead = 1 << 30

// qcow2Header is what has to be known before a library may look at a file.
type qcow2Header struct{ size int64 }

func (s Spec) qcow2Header(ra io.ReaderAt) (qcow2Header, error) {
	h := make([]byte, diskformat.QCOW2HeaderLen)
	n, err := ra.ReadAt(h, 0)
	if err != nil && err != io.EOF {
		return qcow2Header{}, s.unreadable(err)
	}
	size, err := diskformat.QCOW2Header(h[:n])
	if err != nil {
		return qcow2Header{}, &FormatError{Image: s.ID, Reason: err.Error()}
	}
	return qcow2Header{size}, nil
}

func (a *attempt) qcow2(ctx context.Context, url string) (int64, error) {
	file, err := a.file(ctx, url)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	h, err := a.spec.qcow2Header(file)
	if err != nil {
		return 0, a.unreadable(file, err)
	}
	if err := a.fits(h); err != nil {
		return 0, err
	}
	img, err := qcow2file.Open(file)
	if err != nil {
		return 0, a.unreadable(file, err)
	}
	if err := a.touch(); err != nil {
		return 0, err
	}
	return h.size, a.convert(ctx, file, img, h.size, 1<<img.ClusterBits)
}

func (a *attempt) fits(h qcow2Header) error {
	if h.size > a.disk.Size() {
		return &TooSmallError{Disk: a.disk.Name(), DiskBytes: a.disk.Size(), ImgBytes: h.size}
	}
	return nil
}

// unreadable is what a file cannot be read for: the server or the file as it was sent, else its content.
func (s Spec) unreadable(err error) error {
	if _, ok := isTransient(err); ok {
		return err
	}
	if checksum, ok := errors.AsType[*ChecksumError](err); ok {
		return checksum
	}
	if refused, ok := errors.AsType[*StatusError](err); ok { // the file was right when it was read first
		return refused
	}
	return &FormatError{Image: s.ID, Reason: fmt.Sprintf("qcow2 file cannot be read: %v", err)}
}

// unreadable is what a qcow2 file cannot be read for. A file that did not come, or came as another, says more than what was made of it.
func (a *attempt) unreadable(file randomFile, err error) error {
	whole := file.whole()
	if bug, ok := errors.AsType[*panicError](err); ok {
		return errors.Join(whole, bug)
	}
	if whole != nil {
		return whole
	}
	return a.spec.unreadable(err)
}

// run is what comes next of a virtual disk: data, or so many zeros.
type run struct {
	data  []byte
	zeros int64
	// read tells once that data has been read, or why not.
	read chan error
}

// convert copies the virtual disk, leaving out what the table says is zero. It is read, and unpacked, while the disk writes.
func (a *attempt) convert(ctx context.Context, file randomFile, img image.Image, size, cluster int64) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	free, full := make(chan []byte, pumpBuffers), make(chan run, pumpBuffers)
	for range pumpBuffers {
		free <- make([]byte, pumpSize)
	}
	var unread error // why the reader ended early; full is closed behind it
	go func() {
		defer close(full)
		unread = guarded("reading the qcow2 file", func() error { return a.runs(reading, file, img, size, cluster, free, full) })
	}()
	out := &sink{ctx: ctx, disk: a.disk, report: a.report, total: size}
	var failed error
	for r := range full { // to the end: the readers have ended when convert returns
		var broken error
		if r.data != nil {
			broken = <-r.read
		}
		switch {
		case failed != nil:
			continue
		case broken != nil:
			failed = broken
		case r.data != nil:
			failed = out.write(r.data)
			free <- r.data[:pumpSize]
		default:
			failed = out.skip(r.zeros)
		}
		if failed != nil {
			stop()
			a.giveUp(failed)
		}
	}
	switch {
	case failed != nil:
		return failed
	case unread != nil:
		return unread
	}
	if err := file.whole(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return out.finish()
}

// runs reads the virtual disk into free buffers, and puts what it finds into full, until the disk or the context ends. Pieces are read,
// and unpacked, side by side: one processor unpacks slower than disks write. Those of a file that is asked for by ranges are read in turn.
func (a *attempt) runs(ctx context.Context, file randomFile, img image.Image, size, cluster int64, free <-chan []byte, full chan<- run) error {
	_, inTurn := file.(*ranges)
	put := func(r run) bool {
		select {
		case full <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	// ahead grows with the zeros that are found: to look through all of the table for each piece would take longer than the write.
	for off, ahead := int64(0), int64(0); off < size; {
		// The reader counts right from the start of a cluster alone.
		at := off / cluster * cluster
		ahead = max(ahead, pumpSize, cluster)
		extent, err := img.Extent(at, min(size-at, ahead))
		if err != nil {
			return a.unreadable(file, err)
		}
		n := min(at+extent.Length, size) - off
		// Clusters may be smaller than a grain; such pieces are read, not skipped.
		if !extent.Allocated || extent.Zero {
			if whole := n / grain * grain; whole > 0 || n == size-off {
				if n != size-off {
					n = whole
				}
				if !put(run{zeros: n}) {
					return nil
				}
				off, ahead = off+n, min(2*ahead, mostAhead)
				continue
			}
		}
		ahead = 0
		n = min(max(n/grain*grain, grain), pumpSize, size-off)
		var buf []byte
		select {
		case buf = <-free:
		case <-ctx.Done():
			return nil
		}
		r, from := run{data: buf[:n], read: make(chan error, 1)}, off
		if inTurn {
			r.read <- a.piece(file, img, r.data, from)
		} else {
			go func() { r.read <- a.piece(file, img, r.data, from) }()
		}
		if !put(r) {
			<-r.read // its reader has ended
			return nil
		}
		off += n
	}
	return nil
}

// piece fills p with the virtual disk's bytes from off on.
func (a *attempt) piece(file randomFile, img image.Image, p []byte, off int64) error {
	var n int
	err := guarded("reading the qcow2 file", func() (err error) {
		n, err = img.ReadAt(p, off)
		return err
	})
	if n == len(p) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return a.unreadable(file, err)
}
