package image

import (
	"bytes"
	"errors"
	"testing"
)

// A compressed file that was cut off before its checksum was computed (a broken upload or copy) is no image: what its rest would have been
// is not on the disk, and the deploy must not end well.
func TestACompressedFileThatWasCutOffIsNoImage(t *testing.T) {
	t.Parallel()
	raw := content(16 << 20)
	// Data in the second half, so that the cut takes some of it.
	for i := 12 << 20; i < 15<<20; i++ {
		raw[i] = byte(i * i >> 7)
	}
	for _, kind := range []string{"gzip", "zstd", "xz"} {
		whole := compressed(t, kind, raw)
		cut := whole[:len(whole)*3/4]
		d, path := staleDisk(t, diskSize)
		n, err := writer(t, 1<<30).Write(t.Context(), Spec{ID: "cut", URLs: []string{serveBytes(t, cut)}, HashAlgo: "sha256", HashValue: sum256(cut),
			Format: "raw", Compression: kind}, d, nil)
		var format *FormatError
		if !errors.As(err, &format) {
			got := readBack(t, path)
			t.Errorf("%s: %d of %d bytes of the file: written %d of %d bytes, error %v; the disk holds the image: %v", kind, len(cut), len(whole), n, len(raw), err, bytes.Equal(got[:len(raw)], raw))
		}
	}
}
