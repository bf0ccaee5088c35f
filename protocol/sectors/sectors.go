// Package sectors tells whether the partition table of an image was made for the sectors of a disk. A table counts in sectors, and a disk
// on which they have another size has no partition where the table says.
//
// It may import nothing of the project. The ramdisk's agent judges by it what it has written, rackd what it is about to write.
package sectors

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Error says that a table was made for sectors of another size.
type Error struct {
	Table string // "the image's GPT" or "its MBR"
	Made  int64  // bytes of the sectors that it counts
	Disk  string // its name
	Has   int64  // bytes of the disk's sectors
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s is made for sectors of %d bytes, disk %s has sectors of %d: use an image made for such disks", e.Table, e.Made, e.Disk, e.Has)
}

const (
	gptSignature = "EFI PART"
	mbrTable     = 446
	mbrSize      = 512
	// mbrProtective is the type of the entry that stands for a GPT.
	mbrProtective = 0xee
)

// GPT reports whether r, which is an image from its start or the disk that it was written to, has a GPT for sectors of that size.
// One that was made for others is an *Error. Kernel and firmware believe a GPT only behind a protective entry that begins in sector 1.
// Behind another MBR it was left by a table before.
func GPT(r io.ReaderAt, disk string, sector int64) (bool, error) {
	first := make([]byte, mbrSize)
	if n, _ := r.ReadAt(first, 0); n == mbrSize && first[510] == 0x55 && first[511] == 0xaa && !stands(first, 1, 1) {
		return false, nil
	}
	if Signed(r, sector) {
		return true, nil
	}
	for _, other := range []int64{512, 4096} {
		if other != sector && Signed(r, other) {
			return false, &Error{"the image's GPT", other, disk, sector}
		}
	}
	return false, nil
}

// Signed reports whether the header of a GPT may be at a place.
func Signed(r io.ReaderAt, at int64) bool {
	sig := make([]byte, len(gptSignature))
	n, _ := r.ReadAt(sig, at)
	return string(sig[:n]) == gptSignature
}

// Protective reports whether an MBR, the first 512 bytes, has an entry that stands for a GPT, wherever it begins.
func Protective(mbr []byte) bool { return stands(mbr, 0, 1<<32-1) }

// stands reports whether it has one that begins in one of those sectors.
func stands(mbr []byte, from, to uint32) bool {
	for i := range 4 {
		e := mbr[mbrTable+16*i:]
		if start := binary.LittleEndian.Uint32(e[8:]); e[4] == mbrProtective && start >= from && start <= to {
			return true
		}
	}
	return false
}

// Fit returns an *Error for an image that was made for sectors of another size. An MBR does not say which it counts. But its partitions end
// behind the image's end as the disk counts, and begin within the image as it was made. image is its size in bytes; 0: it is not known, and
// no MBR is refused.
func Fit(r io.ReaderAt, image int64, disk string, sector int64) error {
	if is, err := GPT(r, disk, sector); is || err != nil || sector == mbrSize {
		return err
	}
	first := make([]byte, mbrSize)
	if n, _ := r.ReadAt(first, 0); n < mbrSize || first[510] != 0x55 || first[511] != 0xaa {
		return nil
	}
	var wrong error
	for i := range 4 {
		e := first[mbrTable+16*i:][:16]
		if e[0]&0x7f != 0 {
			return nil // the boot sector of a file system, which has text here
		}
		start, length := int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
		if e[4] != 0 && (start+length)*sector > image && start*mbrSize < image {
			wrong = &Error{"its MBR", mbrSize, disk, sector}
		}
	}
	return wrong
}
