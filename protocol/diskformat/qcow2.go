package diskformat

import "encoding/binary"

// Bits of a qcow2 header's incompatible features. Offsets and bits are of QEMU's docs/interop/qcow2.txt.
const (
	incompatCorrupt  = 1 << 1
	incompatDataFile = 1 << 2
	incompatKnown    = 1<<5 - 1
)

// QCOW2HeaderLen is how many bytes QCOW2Header reads.
const QCOW2HeaderLen = 104

// QCOW2Header returns the size of the virtual disk of a qcow2 file, in bytes, from the file's beginning.
func QCOW2Header(h []byte) (int64, error) {
	if len(h) < 72 {
		return 0, refuse(QCOW2, "the file ends after %d bytes", len(h))
	}
	if Sniff(h) != QCOW2 {
		return 0, refuse(QCOW2, "it does not begin as one")
	}
	h = append(h[:min(len(h), QCOW2HeaderLen):min(len(h), QCOW2HeaderLen)], make([]byte, QCOW2HeaderLen)...)
	be := binary.BigEndian
	version, bits := be.Uint32(h[4:]), be.Uint32(h[20:])
	size, l1 := be.Uint64(h[24:]), uint64(be.Uint32(h[36:]))
	switch {
	case version != 2 && version != 3:
		return 0, refuse(QCOW2, "version %d is unknown", version)
	case be.Uint64(h[8:]) != 0:
		return 0, refuse(QCOW2, "it has a backing file; flatten it with qemu-img convert")
	case be.Uint32(h[32:]) != 0:
		return 0, refuse(QCOW2, "it is encrypted")
	case bits < 9 || bits > 21:
		return 0, refuse(QCOW2, "clusters of 2^%d bytes", bits)
	case size == 0 || size > 1<<53:
		return 0, refuse(QCOW2, "a virtual disk of %d bytes", size)
	}
	// One L1 entry covers cluster/8 clusters; more entries than the disk needs are
	// an attempt at our memory (extended entries are twice as large, hence twice).
	cover := uint64(1) << bits << (bits - 3)
	if need := 2*((size+cover-1)/cover) + 1; l1 > need || l1 > 4<<20 {
		return 0, refuse(QCOW2, "a first-level table of %d entries", l1)
	}
	if version == 3 {
		switch features := be.Uint64(h[72:]); {
		case features&incompatDataFile != 0:
			return 0, refuse(QCOW2, "its data is in another file; convert it with qemu-img convert")
		case features&incompatCorrupt != 0:
			return 0, refuse(QCOW2, "it is marked as corrupt; repair it with qemu-img check -r all")
		case features&^incompatKnown != 0:
			return 0, refuse(QCOW2, "it needs features that are not known here (%#x)", features&^incompatKnown)
		}
	}
	return int64(size), nil
}
