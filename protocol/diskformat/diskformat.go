// Package diskformat tells what the file of a disk image is, and refuses files whose content depends on other files.
// Racks judge an image by it before a machine is touched, and agents before they touch a disk.
//
// It imports nothing of the project. Invariants: it reads headers only, a bounded number of bytes whatever they say, and
// opens nothing that they name.
package diskformat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Formats of disk images, in Ironic's words.
const (
	Raw   = "raw"
	QCOW2 = "qcow2"
	VMDK  = "vmdk"
	VHD   = "vhd"
	VHDX  = "vhdx"
	VDI   = "vdi"
)

// Compressions of the file as a whole.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	XZ   = "xz"
)

// HeadLen is how many bytes Sniff wants to see, if there are so many.
const HeadLen = 512

var magics = []struct {
	format string
	at     int
	magic  string
}{
	{QCOW2, 0, "QFI\xfb"}, {VMDK, 0, "KDMV"}, {VMDK, 0, "COWD"}, {VMDK, 0, "# Disk Descriptor"},
	{VHDX, 0, "vhdxfile"}, {VHD, 0, "conectix"}, {VDI, 64, "\x7f\x10\xda\xbe"}, {"qed", 0, "QED\x00"},
	{"parallels", 0, "WithoutFreeSpace"}, {"parallels", 0, "WithouFreSpacExt"}, {"luks", 0, "LUKS\xba\xbe"}, {"a tar archive", 257, "ustar"},
}

var compressions = []struct{ name, magic string }{
	{Gzip, "\x1f\x8b\x08"}, {Zstd, "\x28\xb5\x2f\xfd"}, {XZ, "\xfd7zXZ\x00"}, {"bzip2", "BZh"}, {"zip", "PK\x03\x04"},
}

// Sniff names the format that the first bytes of a disk image show; Raw where they show none.
func Sniff(head []byte) string {
	for _, m := range magics {
		if len(head) > m.at && bytes.HasPrefix(head[m.at:], []byte(m.magic)) {
			return m.format
		}
	}
	return Raw
}

// Compression names the compression that the first bytes of a file show; empty for none.
func Compression(head []byte) string {
	// Parallel compressors put frames before the data that decompressors skip: magic 0x184D2A50 to 0x184D2A5F (RFC 8878, section 3.1.2).
	if len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18" {
		return Zstd
	}
	for _, c := range compressions {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return c.name
		}
	}
	return ""
}

// Error says why an image is refused.
type Error struct{ Format, Reason string }

func (e *Error) Error() string { return e.Format + " file refused: " + e.Reason }

func refuse(format, reason string, args ...any) error {
	return &Error{format, fmt.Sprintf(reason, args...)}
}

// Info is what an image's headers say.
type Info struct {
	Format string
	// Bytes of the virtual disk; 0 where the format does not say.
	Bytes int64
}

// Inspect reads the headers of a disk image that is not compressed as a whole; size is that of the file. Its error is an
// *Error, or one of r.
func Inspect(r io.ReaderAt, size int64) (Info, error) {
	head, err := read(r, 0, HeadLen)
	if err != nil {
		return Info{}, err
	}
	i := Info{Format: Sniff(head)}
	switch i.Format {
	case QCOW2:
		i.Bytes, err = QCOW2Header(head)
	case VMDK:
		i.Bytes, err = vmdk(r, head)
	case VHD:
		i.Bytes, err = vhd(head)
	case VHDX:
		i.Bytes, err = vhdx(r)
	case VDI:
		i.Bytes, err = vdi(head, size)
	case Raw:
		i, err = rawOrVHD(r, size)
	default:
		err = refuse(i.Format, "give a raw or qcow2 image, or one of the formats vmdk, vhd, vhdx and vdi")
	}
	return i, err
}

// rawOrVHD tells a raw image from a VHD file of fixed size, which is marked at its end alone.
func rawOrVHD(r io.ReaderAt, size int64) (Info, error) {
	if size > vhdFooter {
		foot, err := read(r, size-vhdFooter, vhdFooter)
		if err != nil {
			return Info{}, err
		}
		if bytes.HasPrefix(foot, []byte("conectix")) {
			bytes, err := vhd(foot)
			if err == nil && bytes == size-vhdFooter {
				return Info{VHD, bytes}, nil
			}
		}
	}
	return Info{Format: Raw}, nil
}

// read returns up to n bytes at off; what a file lacks is left out.
func read(r io.ReaderAt, off int64, n int) ([]byte, error) {
	p := make([]byte, n)
	m, err := r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return p[:m], nil
}
