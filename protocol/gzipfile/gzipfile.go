package image

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// members reads a gzip file of one member or several. Zeros behind the last are padding, as gzip itself takes them.
type members struct {
	raw *bufio.Reader
	z   *gzip.Reader
}

func newMembers(r io.Reader) (*members, error) {
	raw := bufio.NewReaderSize(r, 64<<10)
	z, err := gzip.NewReader(raw)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{raw, z}, nil
}

func (m *members) Read(p []byte) (int, error) {
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
			return 0, err
		}
		m.z.Multistream(false)
	}
}

// padding reads the rest of the file; io.EOF: it was zeros.
func (m *members) padding() error {
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
