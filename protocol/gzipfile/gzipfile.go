// Package gzipfile reads what gzip itself reads: a file of one member or several, and zeros behind them.
//
// It imports nothing of the project. The ramdisk's agent and rackd read images by it, so that both take the same files.
package gzipfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Reader reads what the members of a file hold. Zeros behind the last are padding. A file that was cut off, or that goes on with
// other bytes, is an error. Not safe for concurrent use.
type Reader struct {
	raw *bufio.Reader
	z   *gzip.Reader
}

// NewReader reads the header of the first member from r.
func NewReader(r io.Reader) (*Reader, error) {
	raw := bufio.NewReaderSize(r, 64<<10)
	z, err := gzip.NewReader(raw)
	if err != nil {
		return nil, within(err)
	}
	z.Multistream(false)
	return &Reader{raw, z}, nil
}

// Read implements io.Reader.
func (m *Reader) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			if errors.Is(err, io.EOF) {
				err = nil // the next call says so again
			}
			return n, err
		}
		next, err := m.raw.Peek(1)
		if err != nil {
			return 0, err
		}
		if next[0] == 0 {
			return 0, m.padding()
		}
		if err := m.z.Reset(m.raw); err != nil {
			return 0, within(err)
		}
		m.z.Multistream(false)
	}
}

// within is the error of a header: a file that ends there was cut off. The package says io.EOF where that is within a name.
func within(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// padding reads the rest of the file; io.EOF: it was zeros.
func (m *Reader) padding() error {
	p := make([]byte, 4<<10)
	for {
		n, err := m.raw.Read(p)
		if len(bytes.TrimLeft(p[:n], "\x00")) > 0 {
			return gzip.ErrHeader
		}
		if err != nil {
			return err
		}
	}
}
