package uefivars

import "fmt"

// Sizes of the firmware volume in the flash of QEMU's arm64 board (edk2, ArmVirtPkg/VarStore.fdf.inc): variables, the journal of
// writes, and the room that a write is kept in until it is done.
const (
	flashStore  = flashBlock - volumeHeader
	flashVolume = 3 * flashBlock
)

// Flash returns an empty store as arm64 firmware lays it out in blank flash of a size.
func Flash(size int) (*Store, error) {
	if size < flashVolume {
		return nil, fmt.Errorf("%w: flash of %d bytes has no room for a volume of %d", ErrLayout, size, flashVolume)
	}
	image := make([]byte, flashVolume)
	fill(image)
	clear(image[:volumeHeader+storeHeader])
	copy(image[16:], appendGUID(nil, volumeType))
	le.PutUint64(image[32:], flashVolume)
	copy(image[40:], "_FVH")
	le.PutUint32(image[44:], 0xe36) // may be read, written and erased
	le.PutUint16(image[48:], volumeHeader)
	image[55] = 2 // revision
	le.PutUint32(image[56:], uint32(size/flashBlock))
	le.PutUint32(image[60:], flashBlock)
	sum := uint16(0)
	for at := 0; at < volumeHeader; at += 2 {
		sum += le.Uint16(image[at:])
	}
	le.PutUint16(image[50:], -sum)
	store := image[volumeHeader:]
	copy(store, appendGUID(nil, storeType))
	le.PutUint32(store[16:], flashStore)
	store[20], store[21] = storeFormatted, storeHealthy
	// The journal is left for the firmware to lay out: it does so where there is none.
	return &Store{image, volumeHeader + flashStore, size - flashVolume}, nil
}
