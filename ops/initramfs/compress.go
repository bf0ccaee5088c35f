package initramfs

import (
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Compression names a compressor that Debian's kernels can undo.
type Compression string

// The compressors.
const (
	None Compression = "none"
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// Compress returns a writer that compresses into w, with the same bytes out for
// the same bytes in. The caller must close it; w stays open.
func Compress(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case None:
		return keepOpen{w}, nil
	case Gzip:
		return gzip.NewWriterLevel(w, gzip.BestCompression)
	case Zstd:
		// One encoder: with several, where blocks are cut could depend on timing.
		// The kernel's decompressor refuses windows above 8 MiB.
		return zstd.NewWriter(w,
			zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
			zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(4<<20))
	default:
		return nil, fmt.Errorf("unknown compression %q (known: none, gzip, zstd)", c)
	}
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
