package image

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"

	"github.com/ironyard/ironyard/protocol/diskformat"
)

// maxCluster bounds the memory for a compressed cluster, in bytes. A cluster has 2 MiB at most, and some encoders use the window of
// their level whatever there is.
const maxCluster = 8 << 20

// mostAhead is how far the table is looked through for zeros at most, in bytes.
const mostAhead = 1 << 30

func init() {
	// The reader knows zlib by itself; the registry is the library's, process-wide.
	qcow2.SetDecompressor(qcow2.CompressionTypeZstd, func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxCluster))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	})
}

// qcow2Header is what has to be known before a library may look at a file.
type qcow2Header struct{ size int64 }

func (s Spec) qcow2Header(ra io.ReaderAt) (qcow2Header, error) {
	h := make([]byte, diskformat.QCOW2HeaderLen)
	n, err := ra.ReadAt(h, 0)
	if _, ok := isTransient(err); ok {
		return qcow2Header{}, err
	}
	size, err := diskformat.QCOW2Header(h[:n])
	if err != nil {
		return qcow2Header{}, &FormatError{Image: s.ID, Reason: err.Error()}
	}
	return qcow2Header{size}, nil
}

var errOtherFile = errors.New("the file refers to another file")

func (a *attempt) qcow2(ctx context.Context, url string) (int64, error) {
	file, err := a.file(ctx, url)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	h, err := a.spec.qcow2Header(file)
	if err != nil {
		return 0, err
	}
	if err := a.fits(h); err != nil {
		return 0, err
	}
	img, err := qcow2.Open(file, func(io.ReaderAt, image.Type) (image.Image, error) { return nil, errOtherFile })
	if err == nil {
		err = img.Readable()
	}
	if err != nil {
		return 0, a.unreadable(err)
	}
	if err := a.touch(); err != nil {
		return 0, err
	}
	return h.size, a.convert(ctx, img, h.size, 1<<img.ClusterBits)
}

func (a *attempt) fits(h qcow2Header) error {
	if h.size > a.disk.Size() {
		return &TooSmallError{Disk: a.disk.Name(), DiskBytes: a.disk.Size(), ImgBytes: h.size}
	}
	return nil
}

func (a *attempt) unreadable(err error) error {
	if _, ok := isTransient(err); ok {
		return err
	}
	var checksum *ChecksumError
	if errors.As(err, &checksum) {
		return checksum
	}
	return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf("qcow2 file cannot be read: %v", err)}
}

// convert copies the virtual disk, leaving out what the table says is zero.
func (a *attempt) convert(ctx context.Context, img image.Image, size, cluster int64) error {
	out := &sink{disk: a.disk, report: a.report, total: size}
	buf := make([]byte, pumpSize)
	// ahead grows with the zeros that are found: to look through all of the table for each piece would take longer than the write.
	for ahead := int64(0); out.off < size; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		// The reader counts right from the start of a cluster alone.
		at := out.off / cluster * cluster
		ahead = max(ahead, pumpSize, cluster)
		extent, err := img.Extent(at, min(size-at, ahead))
		if err != nil {
			return a.unreadable(err)
		}
		n := min(at+extent.Length, size) - out.off
		// Clusters may be smaller than a grain; such pieces are read, not skipped.
		if !extent.Allocated || extent.Zero {
			if whole := n / grain * grain; whole > 0 || n == size-out.off {
				if n != size-out.off {
					n = whole
				}
				if err := out.skip(n); err != nil {
					return err
				}
				ahead = min(2*ahead, mostAhead)
				continue
			}
		}
		ahead = 0
		n = min(max(n/grain*grain, grain), int64(len(buf)), size-out.off)
		if m, err := img.ReadAt(buf[:n], out.off); int64(m) < n {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return a.unreadable(err)
		}
		if err := out.write(buf[:n]); err != nil {
			return err
		}
	}
	return out.finish()
}
