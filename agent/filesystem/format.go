package filesystem

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
)

// Area is an empty partition. What its file system does not write reads as zero where Zero was called.
type Area interface {
	io.WriterAt
	Size() int64
	SectorSize() int64
	// Zero makes a range read as zero.
	Zero(off, n int64) error
}

var le = binary.LittleEndian

const page = 4096

// FormatSwap makes swap space with a label of at most 16 bytes, as mkswap does for pages of 4 KiB.
func FormatSwap(a Area, label string) error {
	pages := a.Size() / page
	if pages < 10 || pages-1 > 1<<32-1 {
		return fmt.Errorf("making swap space: %d bytes are too few or too many", a.Size())
	}
	head := make([]byte, page)
	le.PutUint32(head[1024:], 1) // version
	le.PutUint32(head[1028:], uint32(pages-1))
	id, err := randomUUID()
	if err != nil {
		return err
	}
	copy(head[1036:], id)
	copy(head[1052:1068], label)
	copy(head[page-10:], "SWAPSPACE2")
	if _, err := a.WriteAt(head, 0); err != nil {
		return fmt.Errorf("making swap space: %w", err)
	}
	return nil
}

// Offsets in the boot sector of a FAT32.
const (
	fatSerial = 67
	fatLabel  = 71
	fatKind   = 82
)

// The same of a FAT12 and a FAT16, which mkfs.vfat makes on small partitions.
const (
	smallFATSerial = 39
	smallFATKind   = 54
)

const (
	fatReserved = 32 // sectors in front of the tables
	fatCopies   = 2
	fatInfo     = 1 // the sector with the count of free clusters
	fatBackup   = 6 // the sector with the boot sector's copy
	fatMedia    = 0xf8
	// leastClusters is what FAT32 has at least, with fatgen103's margin: their number alone tells it from FAT16.
	leastClusters = 65525 + 16
)

// FormatFAT32 makes an empty FAT32 with a label of at most 11 bytes and returns its serial number as blkid prints it. hidden is
// how many sectors lie before the area on its disk.
func FormatFAT32(a Area, label string, hidden int64) (uuid string, err error) {
	s := a.SectorSize()
	total := a.Size() / s
	perCluster := int64(1)
	for perCluster*s < page && total/(perCluster*2) > leastClusters*2 {
		perCluster *= 2
	}
	// A table's length depends on the number of clusters, which depends on the tables' length: a little too long is allowed.
	table := ((total/perCluster+2)*4 + s - 1) / s
	clusters := (total - fatReserved - fatCopies*table) / perCluster
	if clusters < leastClusters || clusters >= 1<<28-16 || total > 1<<32-1 {
		return "", fmt.Errorf("making a FAT32: %d bytes are too few or too many", a.Size())
	}
	serial := make([]byte, 4)
	if _, err := rand.Read(serial); err != nil {
		return "", err
	}
	boot := make([]byte, s)
	copy(boot, "\xeb\x58\x90ironyard")
	le.PutUint16(boot[11:], uint16(s))
	boot[13] = byte(perCluster)
	le.PutUint16(boot[14:], fatReserved)
	boot[16] = fatCopies
	boot[21] = fatMedia
	le.PutUint16(boot[24:], 63) // geometry, which no system uses
	le.PutUint16(boot[26:], 255)
	le.PutUint32(boot[28:], uint32(hidden))
	le.PutUint32(boot[32:], uint32(total))
	le.PutUint32(boot[36:], uint32(table))
	le.PutUint32(boot[44:], 2) // the root folder's cluster
	le.PutUint16(boot[48:], fatInfo)
	le.PutUint16(boot[50:], fatBackup)
	boot[64], boot[66] = 0x80, 0x29
	copy(boot[fatSerial:], serial)
	copy(boot[fatLabel:], fmt.Sprintf("%-11.11s", label))
	copy(boot[fatKind:], "FAT32   ")
	boot[510], boot[511] = 0x55, 0xaa

	info := make([]byte, s)
	copy(info, "RRaA")
	copy(info[484:], "rrAa")
	le.PutUint32(info[488:], uint32(clusters-1)) // the root folder has one
	le.PutUint32(info[492:], 3)
	info[510], info[511] = 0x55, 0xaa

	start := make([]byte, s)
	le.PutUint32(start, 0x0fffff00|fatMedia)
	le.PutUint32(start[4:], 0x0fffffff)
	le.PutUint32(start[8:], 0x0fffffff) // the root folder ends with its first cluster

	root := make([]byte, s)
	copy(root, fmt.Sprintf("%-11.11s", label))
	root[11] = 0x08 // the volume's label

	data := (fatReserved + fatCopies*table) * s
	if err := a.Zero(0, data+perCluster*s); err != nil {
		return "", fmt.Errorf("making a FAT32: %w", err)
	}
	for _, w := range []struct {
		data []byte
		at   int64
	}{
		{boot, 0}, {info, fatInfo * s}, {boot, fatBackup * s}, {info, (fatBackup + fatInfo) * s},
		{start, fatReserved * s}, {start, (fatReserved + table) * s}, {root, data},
	} {
		if _, err := a.WriteAt(w.data, w.at); err != nil {
			return "", fmt.Errorf("making a FAT32: %w", err)
		}
	}
	return serialText(le.Uint32(serial)), nil
}

// randomUUID is a UUID of version 4.
func randomUUID() ([]byte, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id, nil
}
