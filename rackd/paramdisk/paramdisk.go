// Package paramdisk lays out the floppy disk on which a ramdisk from a ready image finds the parameters of its boot: a FAT12 volume with
// the label ir-vfd-dev, which holds parameters.txt. Ironic has it so, and ironic-python-agent looks for it.
//
// It imports nothing of the project. Invariant: each image has the size of a 3½-inch floppy disk, for there are BMCs whose drive takes no
// other.
package paramdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Label is that of the volume, and File the name of the one file on it.
const (
	Label = "ir-vfd-dev"
	File  = "parameters.txt"
)

// Size of an image in bytes, and Max what the file may have.
const (
	Size = sectors * sector
	Max  = 64 << 10
)

// The layout of a disk of 1.44 MB (Microsoft's fatgen103): a boot sector, two tables, the root folder, clusters of a sector each.
const (
	sector       = 512
	sectors      = 2880
	tableSectors = 9
	rootEntries  = 224
	tablesAt     = 1
	rootAt       = tablesAt + 2*tableSectors
	dataAt       = rootAt + rootEntries*entry/sector
	entry        = 32
	medium       = 0xf0
	endOfChain   = 0xfff
	firstCluster = 2
)

// shortName is the file's name for readers that know no long names.
const shortName = "PARAME~1TXT"

// ErrTooLarge is returned for parameters that no agent is told.
var ErrTooLarge = errors.New("the parameters are too large for the virtual floppy disk")

// Image is a disk with the parameters, one in a line.
func Image(params []string) ([]byte, error) {
	text := strings.Join(params, "\n") + "\n"
	if len(text) > Max {
		return nil, fmt.Errorf("%w: they have %d bytes, and it takes %d", ErrTooLarge, len(text), Max)
	}
	b := make([]byte, Size)
	bootSector(b[:sector])
	table := b[tablesAt*sector : (tablesAt+tableSectors)*sector]
	set(table, 0, 0xf00|medium)
	set(table, 1, endOfChain)
	last := firstCluster + (len(text)-1)/sector
	for c := firstCluster; c < last; c++ {
		set(table, c, c+1)
	}
	set(table, last, endOfChain)
	copy(b[(tablesAt+tableSectors)*sector:], table)
	root := b[rootAt*sector:]
	writeEntry(root, fmt.Sprintf("%-11s", Label), volumeLabel, 0, 0)
	writeEntry(root[longName(root[entry:])+entry:], shortName, archive, firstCluster, len(text))
	copy(b[dataAt*sector:], text)
	return b, nil
}

func bootSector(b []byte) {
	copy(b, "\xeb\x3c\x90IRONYARD")
	binary.LittleEndian.PutUint16(b[11:], sector)
	b[13] = 1 // sectors of a cluster
	binary.LittleEndian.PutUint16(b[14:], tablesAt)
	b[16] = 2
	binary.LittleEndian.PutUint16(b[17:], rootEntries)
	binary.LittleEndian.PutUint16(b[19:], sectors)
	b[21] = medium
	binary.LittleEndian.PutUint16(b[22:], tableSectors)
	binary.LittleEndian.PutUint16(b[24:], 18) // sectors of a track
	binary.LittleEndian.PutUint16(b[26:], 2)  // heads
	b[38] = 0x29                              // label and kind follow
	copy(b[39:], "\x59\x49\x02\x00"+fmt.Sprintf("%-11s", Label)+"FAT12   ")
	b[510], b[511] = 0x55, 0xaa
}

// set writes an entry of 12 bits.
func set(table []byte, cluster, to int) {
	at := cluster * 3 / 2
	if cluster%2 == 0 {
		table[at], table[at+1] = byte(to), table[at+1]&0xf0|byte(to>>8)
		return
	}
	table[at], table[at+1] = table[at]&0x0f|byte(to<<4), byte(to>>4)
}

const (
	volumeLabel = 0x08
	archive     = 0x20
	partOfName  = 0x0f
)

func writeEntry(e []byte, name string, kind byte, cluster, size int) {
	copy(e[:11], name)
	e[11] = kind
	for _, date := range []int{16, 18, 24} { // made, read and written on 1 January 2000
		binary.LittleEndian.PutUint16(e[date:], 0x2821)
	}
	binary.LittleEndian.PutUint16(e[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(e[28:], uint32(size))
}

// Where an entry holds its 13 letters of a long name.
var letters = []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30}

// longName writes the file's name, its last part first, and returns how many bytes that took.
func longName(into []byte) int {
	name := append(utf16.Encode([]rune(File)), 0)
	parts := (len(name) + len(letters) - 1) / len(letters)
	var sum byte
	for _, c := range []byte(shortName) {
		sum = sum>>1 + sum<<7 + c
	}
	for p := range parts {
		e := into[(parts-1-p)*entry:]
		if e[0] = byte(p + 1); p == parts-1 {
			e[0] |= 0x40
		}
		e[11], e[13] = partOfName, sum
		for i, at := range letters {
			letter := uint16(0xffff)
			if n := p*len(letters) + i; n < len(name) {
				letter = name[n]
			}
			binary.LittleEndian.PutUint16(e[at:], letter)
		}
	}
	return parts * entry
}
