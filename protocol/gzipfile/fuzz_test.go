package gzipfile

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

// FuzzReader lets a file be anything. What Go's own package takes is taken with the same content; what it refuses is taken only where
// zeros end the file.
func FuzzReader(f *testing.F) {
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if _, err := w.Write([]byte("disk")); err != nil || w.Close() != nil {
		f.Fatal(err)
	}
	f.Add(one.Bytes())
	f.Add(bytes.Repeat(one.Bytes(), 2))
	f.Add(append(bytes.Clone(one.Bytes()), 0, 0))
	f.Fuzz(func(t *testing.T, file []byte) {
		const most = 1 << 20
		read := func(r io.Reader, err error) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return io.ReadAll(io.LimitReader(r, most))
		}
		m, err := NewReader(bytes.NewReader(file))
		got, err := read(m, err)
		z, werr := gzip.NewReader(bytes.NewReader(file))
		want, werr := read(z, werr)
		if werr == nil && (err != nil || !bytes.Equal(got, want)) {
			t.Errorf("%d bytes (%v) of a file with %d", len(got), err, len(want))
		}
		if werr != nil && err == nil && !bytes.HasSuffix(file, []byte{0}) {
			t.Errorf("taken: %v", werr)
		}
	})
}
