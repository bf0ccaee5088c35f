// Package filesystem knows the file systems of partitions: it tells which one is there and how it is named, and formats those
// that need no program, swap and FAT32.
//
// It may import nothing of the project. What it reads is an image's, and is not believed: superblocks are of fixed size.
//
// Sources: Linux Documentation/filesystems/ext4 (super.rst), the XFS algorithms and data structures, btrfs' on-disk format,
// mm/swapfile.c (union swap_header), Microsoft's FAT specification (fatgen103).
package filesystem

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Kind is a file system as mount names it.
type Kind string

// The kinds that Identify knows.
const (
	Ext   Kind = "ext4" // ext2 and ext3 too: the kernel's ext4 mounts them
	XFS   Kind = "xfs"
	Btrfs Kind = "btrfs"
	Swap  Kind = "swap"
	VFAT  Kind = "vfat"
)

// ErrUnknown means that there is none of the kinds that this package knows.
var ErrUnknown = errors.New("no file system that is known: ext2, ext3, ext4, xfs, btrfs")

// Found is a file system on a partition.
type Found struct {
	Kind Kind
	UUID string // as blkid prints it
}

// marks are what a file system is known by, and where its UUID stands, in bytes from the partition's start.
var marks = []struct {
	kind Kind
	at   int64
	mark string
	uuid int64
}{
	{Ext, 1024 + 0x38, "\x53\xef", 1024 + 0x68},
	{XFS, 0, "XFSB", 32},
	{Btrfs, 64<<10 + 0x40, "_BHRfS_M", 64<<10 + 0x20},
	{Swap, 4096 - 10, "SWAPSPACE2", 1024 + 12},
}

// Identify tells which file system begins at the reader's start.
func Identify(r io.ReaderAt) (Found, error) {
	for _, m := range marks {
		mark, id := make([]byte, len(m.mark)), make([]byte, 16)
		if _, err := r.ReadAt(mark, m.at); errors.Is(err, io.EOF) || err == nil && string(mark) != m.mark {
			continue
		} else if err != nil {
			return Found{}, fmt.Errorf("looking for a file system: %w", err)
		}
		if _, err := r.ReadAt(id, m.uuid); err != nil {
			return Found{}, fmt.Errorf("looking for a file system: %w", err)
		}
		return Found{m.kind, uuidText(id)}, nil
	}
	boot := make([]byte, 512)
	if _, err := r.ReadAt(boot, 0); err == nil && boot[510] == 0x55 && boot[511] == 0xaa {
		for _, f := range []struct {
			kind, serial int
			name         string
		}{{fatKind, fatSerial, "FAT32   "}, {smallFATKind, smallFATSerial, "FAT16   "}, {smallFATKind, smallFATSerial, "FAT12   "}} {
			if bytes.HasPrefix(boot[f.kind:], []byte(f.name)) {
				return Found{VFAT, serialText(binary.LittleEndian.Uint32(boot[f.serial:]))}, nil
			}
		}
	}
	return Found{}, ErrUnknown
}

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func serialText(n uint32) string { return fmt.Sprintf("%04X-%04X", n>>16, n&0xffff) }
