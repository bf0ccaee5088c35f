package uefivars

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

var le = binary.LittleEndian

// ErrLayout is the error of a file whose layout this package does not know.
var ErrLayout = errors.New("unknown layout of a UEFI variable store")

// ErrInterrupted is the error of a store that the firmware was compacting when it
// was stopped. The firmware ends that at its next start; until then a change would
// be lost.
var ErrInterrupted = errors.New("the firmware was stopped while it compacted its variables: start it once")

// Sizes of the firmware volume's header (UEFI PI 1.7, volume 3, section 3.2.1) with
// a block map of one entry, of the store's header, and of a variable's.
const (
	volumeHeader   = 72
	storeHeader    = 28
	variableHeader = 60
	blockSize      = 4096
	// flashBlock is the block of arm64 boards' flash.
	flashBlock = 0x40000
)

const (
	storeFormatted = 0x5a
	storeHealthy   = 0xfe
	startID        = 0x55aa
	erased         = 0xff
)

// States of a variable. Flash loses bits only, so that each state has fewer than
// the one before it.
const (
	stateAdded             = 0x3f
	stateDeletedTransition = 0xfe
	stateDeleted           = 0xfd
)

// split returns the firmware volume of an image, and how many zeros are behind it: flash of arm64 boards is larger than the volume.
func split(image []byte) (volume []byte, behind int) {
	if len(image) < volumeHeader || le.Uint32(image[60:]) != flashBlock {
		return image, 0
	}
	size := le.Uint64(image[32:])
	if size > uint64(len(image)) || len(bytes.TrimLeft(image[size:], "\x00")) > 0 {
		return image, 0
	}
	return image[:size], len(image) - int(size)
}

// checkLayout returns where the variables begin and where the store ends.
func checkLayout(image []byte) (end int, err error) {
	if len(image) < volumeHeader+storeHeader {
		return 0, fmt.Errorf("%w: only %d bytes", ErrLayout, len(image))
	}
	switch {
	case guidAt(image[16:]) != volumeType:
		return 0, fmt.Errorf("%w: file system %s", ErrLayout, guidAt(image[16:]))
	case string(image[40:44]) != "_FVH":
		return 0, fmt.Errorf("%w: no firmware volume", ErrLayout)
	case le.Uint64(image[32:]) != uint64(len(image)):
		return 0, fmt.Errorf("%w: a volume of %d bytes in a file of %d", ErrLayout, le.Uint64(image[32:]), len(image))
	case le.Uint16(image[48:]) != volumeHeader, le.Uint32(image[60:]) != blockSize && le.Uint32(image[60:]) != flashBlock:
		return 0, fmt.Errorf("%w: volume header of %d bytes, blocks of %d", ErrLayout, le.Uint16(image[48:]), le.Uint32(image[60:]))
	}
	sum := uint16(0)
	for at := 0; at < volumeHeader; at += 2 {
		sum += le.Uint16(image[at:])
	}
	if sum != 0 {
		return 0, fmt.Errorf("%w: the volume header's checksum is wrong", ErrLayout)
	}
	store := image[volumeHeader:]
	size := le.Uint32(store[16:])
	switch {
	case guidAt(store) != storeType:
		return 0, fmt.Errorf("%w: variables of kind %s", ErrLayout, guidAt(store))
	case store[20] != storeFormatted, store[21] != storeHealthy:
		return 0, fmt.Errorf("%w: store of format %02xh, state %02xh", ErrLayout, store[20], store[21])
	case size < storeHeader, uint64(size) > uint64(len(store)):
		return 0, fmt.Errorf("%w: a store of %d bytes in %d", ErrLayout, size, len(store))
	}
	return volumeHeader + int(size), nil
}

// record is a place of a variable in the image.
type record struct {
	at, name, data int // offset of the header, sizes in bytes
}

func (r record) nameAt() int { return r.at + variableHeader }
func (r record) dataAt() int { return r.nameAt() + r.name }
func (r record) end() int    { return r.dataAt() + r.data }

// next is where the variable after r begins.
func (r record) next() int { return (r.end() + 3) &^ 3 }

// records lists all variables, deleted ones too, and returns where free space begins.
func records(image []byte, end int) (all []record, free int, err error) {
	at := volumeHeader + storeHeader
	for at+variableHeader <= end && le.Uint16(image[at:]) == startID {
		header := image[at:]
		r := record{at: at}
		name, data := le.Uint32(header[36:]), le.Uint32(header[40:])
		// A header that was cut off in the writing has no sizes yet.
		if header[2] != erased && name != 1<<32-1 && data != 1<<32-1 && le.Uint32(header[4:]) != 1<<32-1 {
			if uint64(name)+uint64(data) > uint64(end-at-variableHeader) {
				return nil, 0, fmt.Errorf("%w: the variable at %#x goes beyond the store's end", ErrLayout, at)
			}
			r.name, r.data = int(name), int(data)
		}
		all = append(all, r)
		at = r.next()
	}
	free = min(at, end)
	for i, b := range image[free:end] {
		if b != erased {
			return nil, 0, fmt.Errorf("%w: byte %#x, in free space, is %02xh", ErrLayout, free+i, b)
		}
	}
	return all, free, nil
}

// interrupted tells whether the firmware's journal of writes has one that is not
// done (edk2, MdeModulePkg/Include/Guid/FaultTolerantWrite.h and FtwMisc.c).
func interrupted(image []byte, end int) bool {
	const header, entry = 32, 40
	for at := (end + blockSize - 1) / blockSize * blockSize; at+blockSize <= len(image); at += blockSize {
		if guidAt(image[at:]) != workingType {
			continue
		}
		size := min(le.Uint64(image[at+24:]), uint64(len(image)-at-header))
		queue := image[at+header:][:size]
		for len(queue) >= entry && queue[0]&1 == 0 { // allocated
			if queue[0]&4 != 0 { // not complete
				return true
			}
			writes, private := le.Uint64(queue[24:]), le.Uint64(queue[32:])
			if writes > blockSize || private > blockSize {
				return true
			}
			size := entry + writes*(entry+private)
			if size > uint64(len(queue)) {
				break
			}
			queue = queue[size:]
		}
		return false
	}
	return false
}
