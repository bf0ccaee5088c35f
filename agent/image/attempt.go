package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/protocol/gzipfile"
)

// attempt is the work on one image and disk; run is called once for each try.
type attempt struct {
	w      *Writer
	spec   Spec
	disk   Disk
	report Report
	// touched is true once the disk's old content has been damaged.
	touched bool
	// stop ends what this try reads; nil where nothing is read that may wait.
	stop context.CancelCauseFunc
}

func (a *attempt) run(ctx context.Context, url string) (int64, error) {
	ctx, a.stop = context.WithCancelCause(ctx)
	defer a.stop(nil)
	a.report(0, 0)
	if a.spec.Format == "qcow2" {
		return a.qcow2(ctx, url)
	}
	return a.raw(ctx, url)
}

// stream is a file being downloaded: hashed as served, read decompressed.
type stream struct {
	*download
	sum   *summing
	raw   io.Reader // as served, hashing
	plain io.Reader // decompressed
	close func()
}

func (a *attempt) open(ctx context.Context, url string) (*stream, error) {
	d, err := a.w.download(ctx, a.spec.URLs, url)
	if err != nil {
		return nil, err
	}
	s := &stream{download: d, sum: sumAside(a.spec.newHash()), close: func() {}}
	s.raw = io.TeeReader(d, s.sum)
	if s.plain, err = s.decompress(a.spec.Compression); err != nil {
		err = a.ending(s, url, err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// maxDictionary bounds the memory for an xz file, in bytes: `xz -9` needs as much. A file that asks for more is refused.
const maxDictionary = 64 << 20

func (s *stream) decompress(kind string) (io.Reader, error) {
	switch kind {
	case diskformat.Gzip:
		return gzipfile.NewReader(s.raw)
	case diskformat.Zstd:
		// The limits are those of `zstd --long=27`, more than a small ramdisk bears otherwise.
		z, err := zstd.NewReader(s.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		s.close = z.Close
		return z, nil
	case diskformat.XZ:
		return xz.NewReader(bufio.NewReaderSize(s.raw, 1<<20), maxDictionary)
	}
	return s.raw, nil
}

func (s *stream) Close() {
	s.close()
	s.download.Close()
	s.sum.close()
}

// ending judges an error while reading: of a file that is not the promised one,
// the wrong checksum says more than what the decompressor made of it.
func (a *attempt) ending(s *stream, url string, err error) error {
	if _, ok := isTransient(err); ok {
		return err
	}
	verr := a.verify(s, url)
	if bug, ok := errors.AsType[*panicError](err); ok {
		return errors.Join(verr, bug)
	}
	if verr != nil {
		return verr
	}
	return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf("%s cannot be unpacked as %s: %v", redact(url), a.spec.Compression, err)}
}

// mostUntoldRest is how much a file whose length no server tells may have beyond the disk's size, in bytes.
const mostUntoldRest = 1 << 30

// verify reads what is left of the file and compares the checksum. A server that tells no length might send for ever.
func (a *attempt) verify(s *stream, url string) error {
	rest := s.raw
	if s.length < 0 {
		rest = io.LimitReader(s.raw, max(a.disk.Size()+mostUntoldRest-s.n, 1))
	}
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return err
	}
	if s.length < 0 && s.n >= a.disk.Size()+mostUntoldRest {
		return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf(
			"%s tells no length and sends more than %d bytes, which no image for this disk has: its checksum was not compared", redact(url), s.n)}
	}
	return a.spec.verify(s.sum.close(), url, s.n)
}

// touch wipes the disk's ends before the first byte of an image is written.
func (a *attempt) touch() error {
	a.touched = true
	return a.disk.WipeEnds()
}

func (a *attempt) raw(ctx context.Context, url string) (int64, error) {
	s, err := a.open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	out := &sink{ctx: ctx, disk: a.disk, report: a.report}
	if a.spec.Compression == "" && s.length > 0 {
		out.total = s.length
		if s.length > a.disk.Size() {
			return 0, &TooSmallError{Disk: a.disk.Name(), DiskBytes: a.disk.Size(), ImgBytes: s.length}
		}
	}
	head := make([]byte, headLen)
	n, err := io.ReadFull(s.plain, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, a.ending(s, url, err)
	}
	if err := a.spec.sniff(head[:n], url); err != nil {
		return 0, err
	}
	if n < headLen {
		if err := a.verify(s, url); err != nil {
			return 0, err
		}
		return 0, &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf("%s holds only %d bytes, less than a disk's first sector", redact(url), n)}
	}
	if err := a.touch(); err != nil {
		return 0, err
	}
	if err := a.pump(io.MultiReader(bytes.NewReader(head), s.plain), out.write); err != nil {
		if r, ok := err.(*readError); ok {
			return 0, a.ending(s, url, r.err)
		}
		return 0, err
	}
	if err := a.verify(s, url); err != nil {
		return 0, err
	}
	return out.off, out.finish()
}

// readError tells an error of the source from one of the disk.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// pumpBuffers of pumpSize each let the network and the disk work at the same time.
const (
	pumpBuffers = 4
	pumpSize    = 1 << 20
)

// fill reads until buf is full, or r has ended: io.EOF. Unlike io.ReadFull it keeps that apart from a decompressor's io.ErrUnexpectedEOF,
// which is a file that was cut off.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	if n == len(buf) && err == io.EOF {
		err = nil // the next call tells it
	}
	return n, err
}

// giveUp ends what this try reads, after a write that failed. Else the disk's error would be told only once a silent server is given up.
// why is what the try's context tells then: the spool's error, where the disk makes zeros meanwhile.
func (a *attempt) giveUp(why error) {
	if a.stop != nil {
		a.stop(why)
	}
}

// pump reads r to its end, handing full buffers to write, which runs in the
// calling goroutine. The reading goroutine has ended when pump returns: an error
// of write closes free and gives up what is read.
func (a *attempt) pump(r io.Reader, write func([]byte) error) error {
	type piece struct {
		data []byte
		err  error
	}
	free, full := make(chan []byte, pumpBuffers), make(chan piece, pumpBuffers)
	for range pumpBuffers {
		free <- make([]byte, pumpSize)
	}
	go func() {
		defer close(full)
		for buf := range free {
			var n int
			err := guarded("reading the image", func() (err error) {
				n, err = fill(r, buf)
				return err
			})
			full <- piece{buf[:n], err}
			if err != nil {
				return
			}
		}
	}()
	var failed error
	for p := range full {
		if failed != nil {
			continue
		}
		if len(p.data) > 0 {
			failed = write(p.data)
		}
		switch {
		case failed != nil:
			close(free)
			a.giveUp(failed)
		case p.err == io.EOF:
			return nil
		case p.err != nil:
			return &readError{p.err}
		default:
			free <- p.data[:pumpSize]
		}
	}
	return failed
}
