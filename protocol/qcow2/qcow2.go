// Package qcow2 looks at the header of a qcow2 file before a library may read it: files of hostile origin name other files,
// or tables that fill the memory.
//
// It may import nothing of the project. Offsets are those of QEMU's docs/interop/qcow2.txt.
package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// RefusedError says why a file is not read.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "qcow2 file refused: " + e.Reason }

// Feature bits of the header that make the content depend on other files or mean that it is not whole.
const (
	incompatCorrupt  = 1 << 1
	incompatDataFile = 1 << 2
)

// Check returns the size of the virtual disk in bytes. An error is of the reader or a *RefusedError.
func Check(file io.ReaderAt) (size int64, err error) {
	refuse := func(format string, args ...any) (int64, error) {
		return 0, &RefusedError{fmt.Sprintf(format, args...)}
	}
	h := make([]byte, 104)
	n, err := file.ReadAt(h, 0)
	if n < 72 {
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		return refuse("the file ends after %d bytes", n)
	}
	be := binary.BigEndian
	if be.Uint32(h) != 0x514649fb {
		return refuse("it does not begin as one")
	}
	version, bits := be.Uint32(h[4:]), be.Uint32(h[20:])
	bytes, l1 := be.Uint64(h[24:]), uint64(be.Uint32(h[36:]))
	switch {
	case version != 2 && version != 3:
		return refuse("version %d is unknown", version)
	case be.Uint64(h[8:]) != 0:
		return refuse("it has a backing file; flatten it with qemu-img convert")
	case be.Uint32(h[32:]) != 0:
		return refuse("it is encrypted")
	case bits < 9 || bits > 21:
		return refuse("clusters of 2^%d bytes", bits)
	case bytes == 0 || bytes > 1<<53:
		return refuse("a virtual disk of %d bytes", bytes)
	}
	// One L1 entry covers cluster/8 clusters; more entries than the disk needs are an attempt at our memory (extended
	// entries are twice as large, hence twice).
	cover := uint64(1) << bits << (bits - 3)
	if need := 2*((bytes+cover-1)/cover) + 1; l1 > need || l1 > 4<<20 {
		return refuse("a first-level table of %d entries", l1)
	}
	if version == 3 {
		features := be.Uint64(h[72:])
		if features&incompatDataFile != 0 {
			return refuse("its data is in another file; convert it with qemu-img convert")
		}
		if features&incompatCorrupt != 0 {
			return refuse("it is marked as corrupt; repair it with qemu-img check -r all")
		}
	}
	return int64(bytes), nil
}
