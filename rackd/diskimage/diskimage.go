// Package diskimage tells what an image in the rack's cache is before any machine is touched, and converts once what the
// agents in the ramdisks do not read. It unpacks once what rackd itself reads out of order.
//
// It may import protocol and rackd/imagecache. Invariants: an image that refers to other files is refused before any
// program reads it. The program that converts is told the format and reads that one file. It has bounds for memory,
// time and output. Where rackd is root, the program has no rights and no network.
package diskimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// ErrRefused: the image is not what it must be. Trying again does not help.
var ErrRefused = errors.New("image refused")

// Image is an image that agents can read.
type Image struct {
	imagecache.Entry
	Format      string // raw or qcow2
	Compression string // "", gzip, zstd or xz
	// Converted is the format that it was converted from, and Unpacked the compression that it was within; empty: it is as its source
	// has it.
	Converted, Unpacked string
}

// None is the declaration that an image is not compressed.
const None = "none"

// Prepare judges an image of the cache, and converts it if need be. format and compression are as declared; empty: the
// content tells. Errors that wrap ErrRefused are final; others are of the cache or of the conversion.
func Prepare(ctx context.Context, c *imagecache.Cache, e imagecache.Entry, format, compression string) (Image, error) {
	found, packed, err := look(c, e.ID)
	if err != nil {
		return Image{}, err
	}
	if compression == None && packed != "" || compression != None && compression != "" && packed != compression {
		return Image{}, fmt.Errorf("%w: the file is declared to be compressed as %s, and its content is %s; correct image_compression", ErrRefused, compression, orNone(packed))
	}
	// A fixed VHD is a raw image with 512 bytes behind it: what is declared decides.
	if format == diskformat.Raw && found.Format == diskformat.VHD && packed == "" && rawFirst(c, e.ID) {
		found.Format = diskformat.Raw
	}
	if format != "" && found.Format != format {
		return Image{}, fmt.Errorf("%w: the file is declared as %s, and its content is %s; correct image_disk_format", ErrRefused, format, found.Format)
	}
	i := Image{Entry: e, Format: found.Format, Compression: packed}
	if found.Format == diskformat.Raw || found.Format == diskformat.QCOW2 {
		return i, nil
	}
	if packed != "" {
		return Image{}, fmt.Errorf("%w: a %s file that is compressed as %s cannot be converted; give it as it is, or as raw or qcow2", ErrRefused, found.Format, packed)
	}
	if i.Entry, err = c.Derive(ctx, e, converter{found}); err != nil {
		return Image{}, err
	}
	i.Format, i.Converted = diskformat.QCOW2, found.Format
	return i, nil
}

func orNone(compression string) string {
	if compression == "" {
		return "not compressed"
	}
	return "compressed as " + compression
}

// look reads the headers of an image, inside its compression.
func look(c *imagecache.Cache, id string) (found diskformat.Info, packed string, err error) {
	f, done, err := c.File(id)
	if errors.Is(err, fs.ErrNotExist) {
		return found, "", fmt.Errorf("%w: it was evicted before it could be looked at", imagecache.ErrFull)
	}
	if err != nil {
		return found, "", fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	defer done()
	info, err := f.Stat()
	if err != nil {
		return found, "", fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	head, err := head(f)
	if err != nil {
		return found, "", fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	if packed = diskformat.Compression(head); packed == "" {
		found, err = diskformat.Inspect(f, info.Size())
	} else {
		found, err = inside(f, packed)
	}
	switch {
	case err == nil:
	case errors.As(err, new(*diskformat.Error)):
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	case !errors.Is(err, ErrRefused):
		err = fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
	}
	return found, packed, err
}

// rawFirst reports whether the beginning of an image looks like a raw one.
func rawFirst(c *imagecache.Cache, id string) bool {
	f, done, err := c.File(id)
	if err != nil {
		return false
	}
	defer done()
	h, err := head(f)
	return err == nil && diskformat.Sniff(h) == diskformat.Raw
}

func head(f *os.File) ([]byte, error) {
	h := make([]byte, diskformat.HeadLen)
	n, err := f.ReadAt(h, 0)
	if err == io.EOF {
		err = nil
	}
	return h[:n], err
}

// inside reads the beginning of what a compressed file holds, and no more: what it unpacks to is bounded by each machine's disk.
func inside(f *os.File, packed string) (diskformat.Info, error) {
	r, err := unpacking(io.NewSectionReader(f, 0, 1<<62), packed)
	if errors.Is(err, ErrRefused) {
		return diskformat.Info{}, err
	}
	var h []byte
	if err == nil {
		defer r.Close()
		h, err = io.ReadAll(io.LimitReader(r, diskformat.HeadLen))
	}
	if err != nil {
		return diskformat.Info{}, fmt.Errorf("%w: it cannot be unpacked as %s: %w", ErrRefused, packed, err)
	}
	found := diskformat.Info{Format: diskformat.Sniff(h)}
	if again := diskformat.Compression(h); again != "" {
		return found, fmt.Errorf("%w: it is compressed as %s inside %s", ErrRefused, again, packed)
	}
	switch found.Format {
	case diskformat.QCOW2:
		found.Bytes, err = diskformat.QCOW2Header(h)
		return found, err
	case diskformat.Raw:
		return found, nil
	}
	if slices.Contains([]string{diskformat.VMDK, diskformat.VHD, diskformat.VHDX, diskformat.VDI}, found.Format) {
		return found, nil // Prepare refuses it, with what to do
	}
	return found, fmt.Errorf("%w: it holds %s; give a raw or qcow2 image", ErrRefused, found.Format)
}
