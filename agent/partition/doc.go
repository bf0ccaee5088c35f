// Package partition reads and changes the partition table of a disk that an image
// was written to: GPT (UEFI specification 2.10, section 5) and the primary
// partitions of an MBR. It makes the table of a disk that a partition image was written to.
//
// It may import protocol/sectors. It changes only what it has to: headers
// and entries that it does not understand, hybrid MBRs, boot code and the numbers
// of existing partitions survive, because the image's boot loader may count on
// them. That is why it is not a partitioning library, all of which write tables of
// their own making. Every number read from the disk is checked before use.
package partition

import (
	"errors"
	"fmt"
	"io"

	"github.com/ironyard/ironyard/protocol/sectors"
)

// Disk is what a table lies on.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Name() string
	Size() int64
	SectorSize() int64
}

// Partition is one partition, in bytes from the start of the disk.
type Partition struct {
	Number int    // from 1, as the kernel counts
	Label  string // GPT name; empty on MBR
	Type   string // GUID in capitals, or the two hex digits of an MBR type
	GUID   string // GPT only
	Start  int64
	Size   int64
}

// Kind tells the two tables apart.
type Kind string

// The kinds of table.
const (
	GPT Kind = "gpt"
	MBR Kind = "mbr"
)

// Well-known partition types.
const (
	TypeESP   = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
	TypeLinux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
)

// ErrNone means that the disk has no partition table.
var ErrNone = errors.New("no partition table")

// Table is a disk's partition table. Changes reach the disk with Write.
type Table interface {
	Kind() Kind
	// ID is the disk's own identifier as blkid writes it: a GUID, or 0x and eight hex digits.
	ID() string
	Partitions() []Partition
	// GrowToDisk makes the whole disk usable; for GPT it moves the backup table
	// to the disk's end.
	GrowToDisk() error
	// AddLast adds a partition of at least size bytes at the end of the disk.
	AddLast(label string, size int64) (Partition, error)
	// SetType gives a partition another type, one that a new table may have. The rest of its entry stays.
	SetType(number int, kind string) error
	// Write puts the table on the disk.
	Write() error
}

// Read reads the table of a disk; the error wraps ErrNone if there is none.
func Read(d Disk) (Table, error) {
	if d.Size() < 64*d.SectorSize() {
		return nil, fmt.Errorf("disk %s of %d bytes: %w", d.Name(), d.Size(), ErrNone)
	}
	first := make([]byte, 512)
	if _, err := d.ReadAt(first, 0); err != nil {
		return nil, fmt.Errorf("reading the partition table of disk %s: %w", d.Name(), err)
	}
	signed := first[510] == 0x55 && first[511] == 0xaa
	is, err := sectors.GPT(d, d.Name(), d.SectorSize())
	switch {
	case err != nil:
		return nil, err
	case is && !signed:
		return nil, fmt.Errorf("GPT of disk %s is damaged: there is no protective MBR before it, so that no kernel believes it", d.Name())
	case is:
		return readGPT(d)
	case !signed:
		return nil, fmt.Errorf("disk %s: %w", d.Name(), ErrNone)
	case sectors.Protective(first):
		return nil, fmt.Errorf("GPT of disk %s is damaged: it has a protective MBR, and no entry that begins in sector 1 or no header there", d.Name())
	}
	return readMBR(d, first)
}

const mib = 1 << 20

func roundUp(n, to int64) int64   { return (n + to - 1) / to * to }
func roundDown(n, to int64) int64 { return n / to * to }
