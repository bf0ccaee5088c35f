package diskimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/protocol/gzipfile"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// Seekable returns a qcow2 file within a compression as the file that it unpacks to, for a writer that reads it out of order. It is
// unpacked once, and is an image of the cache like any other. All other images are returned as they are. Errors are those of Prepare.
func Seekable(ctx context.Context, c *imagecache.Cache, i Image) (Image, error) {
	if i.Format != diskformat.QCOW2 || i.Compression == "" {
		return i, nil
	}
	e, err := c.Derive(ctx, i.Entry, unpacker{i.Compression})
	if err != nil {
		return Image{}, fmt.Errorf("unpack the image's qcow2 file from %s: %w", i.Compression, err)
	}
	i.Entry, i.Compression, i.Unpacked = e, "", i.Compression
	return i, nil
}

// Of compressed files: the memory that one may ask for, in bytes, as agents have it.
const (
	maxWindow     = 128 << 20
	maxDictionary = 64 << 20
)

// unpacking reads what a compressed file holds. It may be closed once.
func unpacking(in io.Reader, packed string) (io.ReadCloser, error) {
	switch packed {
	case diskformat.Gzip:
		r, err := gzipfile.NewReader(in)
		return io.NopCloser(r), err
	case diskformat.Zstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case diskformat.XZ:
		r, err := xz.NewReader(in, maxDictionary)
		return io.NopCloser(r), err
	}
	return nil, fmt.Errorf("%w: it is compressed as %s; give gzip, zstd, xz or an image that is not compressed", ErrRefused, packed)
}

// unpacker makes the file itself of one that is compressed. It implements imagecache.Maker.
type unpacker struct{ packed string }

// Way implements imagecache.Maker.
func (u unpacker) Way() string { return "un" + u.packed }

// Need implements imagecache.Maker. What a file unpacks to is known once it was unpacked: what its header says of that may be wrong. So
// it is unpacked to nothing, and no image has to go for a file that is cut off or too large.
func (u unpacker) Need(ctx context.Context, in *os.File, room int64) (int64, error) {
	return u.unpack(ctx, in, io.Discard, room)
}

// Make implements imagecache.Maker.
func (u unpacker) Make(ctx context.Context, in, out *os.File, most int64) error {
	n, err := u.unpack(ctx, in, out, most)
	if err != nil {
		return err
	}
	if n > most {
		return fmt.Errorf("%w: it has unpacked to %d bytes, and unpacks to more now", imagecache.ErrDisk, most)
	}
	made, err := diskformat.Inspect(out, n)
	switch {
	case errors.As(err, new(*diskformat.Error)):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	case made.Format != diskformat.QCOW2:
		return fmt.Errorf("%w: it has held a qcow2 file, and unpacks to %s now", imagecache.ErrDisk, made.Format)
	}
	return nil
}

// unpackedAtOnce is how much is unpacked before the next look whether it is still wanted, in bytes.
const unpackedAtOnce = 1 << 20

// unpack writes what a file unpacks to, most bytes of it, and returns how much that was. One byte more: there is more.
func (u unpacker) unpack(ctx context.Context, in io.ReaderAt, out io.Writer, most int64) (n int64, err error) {
	r, err := unpacking(bufio.NewReaderSize(io.NewSectionReader(in, 0, 1<<62), unpackedAtOnce), u.packed)
	if err != nil {
		return 0, u.unreadable(err)
	}
	defer r.Close()
	for buf := make([]byte, unpackedAtOnce); ; {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		got, readErr := r.Read(buf)
		if n+int64(got) > most {
			return most + 1, nil
		}
		if _, err := out.Write(buf[:got]); err != nil {
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				return n, fmt.Errorf("%w: no space for what it unpacks to: %w", imagecache.ErrFull, err)
			}
			return n, fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
		}
		n += int64(got)
		switch {
		case errors.Is(readErr, io.EOF):
			return n, nil
		case readErr != nil:
			return n, u.unreadable(readErr)
		}
	}
}

func (u unpacker) unreadable(err error) error {
	return fmt.Errorf("%w: it cannot be unpacked as %s: %w", ErrRefused, u.packed, err)
}
