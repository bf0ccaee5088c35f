package bootmedium

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// fatFile is a file of the folder EFI/BOOT; its name has at most eight letters, a dot and three more.
type fatFile struct {
	name string
	File
}

// The layout of the FAT16 volume (Microsoft's fatgen103): a reserved sector, two tables, the root folder, the clusters.
// The number of clusters alone tells FAT16 from its sisters.
const (
	fatReserved  = 1
	fatTables    = 2
	rootEntries  = 512
	rootSectors  = rootEntries * 32 / block
	leastCluster = 4085 + 16 // clear of FAT12, with the margin that fatgen103 asks for
	mostClusters = 65525 - 16
	fatEnd       = 0xffff
	fatDirectory = 0x10
	fatArchive   = 0x20
	firstCluster = 2
	bootCluster  = 3 // of the folder EFI/BOOT; EFI has the one before
	filesCluster = 4
)

// fatVolume lays out a volume with the files in EFI/BOOT. Of them nothing is read.
func fatVolume(files []fatFile) ([]part, error) {
	perCluster := 1
	var used int
	for ; ; perCluster *= 2 {
		used = filesCluster - firstCluster
		for _, f := range files {
			used += clustersOf(f.Size, perCluster)
		}
		if used <= mostClusters {
			break
		}
		if perCluster == 64 {
			return nil, fmt.Errorf("%w: the boot loaders are too large for a FAT16 volume", ErrContents)
		}
	}
	clusters := max(used, leastCluster)
	tableSectors := ((clusters+firstCluster)*2 + block - 1) / block
	total := fatReserved + fatTables*tableSectors + rootSectors + clusters*perCluster
	dataAt := (fatReserved + fatTables*tableSectors + rootSectors) * block
	head := make([]byte, dataAt+2*perCluster*block)

	bootSector(head, perCluster, tableSectors, total)
	table := head[fatReserved*block:]
	set := func(cluster, to int) { binary.LittleEndian.PutUint16(table[cluster*2:], uint16(to)) }
	set(0, 0xfff8)
	set(1, fatEnd)
	set(firstCluster, fatEnd)
	set(bootCluster, fatEnd)
	root := head[(fatReserved+fatTables*tableSectors)*block:]
	fatEntry(root, "IRONYARD", 0x08, 0, 0)
	fatEntry(root[32:], "EFI", fatDirectory, firstCluster, 0)
	efi, boot := head[dataAt:], head[dataAt+perCluster*block:]
	fatEntry(efi, ".", fatDirectory, firstCluster, 0)
	fatEntry(efi[32:], "..", fatDirectory, 0, 0)
	fatEntry(efi[64:], "BOOT", fatDirectory, bootCluster, 0)
	fatEntry(boot, ".", fatDirectory, bootCluster, 0)
	fatEntry(boot[32:], "..", fatDirectory, firstCluster, 0)

	parts := []part{{}}
	next := filesCluster
	for i, f := range files {
		n := clustersOf(f.Size, perCluster)
		fatEntry(boot[64+32*i:], f.name, fatArchive, next, f.Size)
		for c := range n {
			to := next + c + 1
			if c == n-1 {
				to = fatEnd
			}
			set(next+c, to)
		}
		next += n
		parts = append(parts, part{f.ReaderAt, 0, f.Size}, zeros(int64(n*perCluster*block)-f.Size))
	}
	copy(head[(fatReserved+tableSectors)*block:], table[:tableSectors*block])
	parts[0] = bytesOf(head)[0]
	return append(parts, zeros(int64(clusters-(next-firstCluster))*int64(perCluster)*block)), nil
}

func clustersOf(size int64, perCluster int) int {
	cluster := int64(perCluster) * block
	return int((size + cluster - 1) / cluster)
}

func bootSector(b []byte, perCluster, tableSectors, total int) {
	copy(b, "\xeb\x3c\x90IRONYARD")
	binary.LittleEndian.PutUint16(b[11:], block)
	b[13] = byte(perCluster)
	binary.LittleEndian.PutUint16(b[14:], fatReserved)
	b[16] = fatTables
	binary.LittleEndian.PutUint16(b[17:], rootEntries)
	if total < 1<<16 {
		binary.LittleEndian.PutUint16(b[19:], uint16(total))
	} else {
		binary.LittleEndian.PutUint32(b[32:], uint32(total))
	}
	b[21] = 0xf8 // fixed medium
	binary.LittleEndian.PutUint16(b[22:], uint16(tableSectors))
	binary.LittleEndian.PutUint16(b[24:], 32) // sectors a track and heads, which no firmware counts in now
	binary.LittleEndian.PutUint16(b[26:], 64)
	b[36], b[38] = 0x80, 0x29
	copy(b[39:], "\x59\x49\x01\x00IRONYARD   FAT16   ")
	b[510], b[511] = 0x55, 0xaa
}

// fatEntry writes the entry of a file or folder.
func fatEntry(e []byte, name string, kind byte, cluster int, size int64) {
	stem, ext, dotted := strings.Cut(name, ".")
	if name == "." || name == ".." || !dotted {
		stem, ext = name, ""
	}
	copy(e, fmt.Sprintf("%-8s%-3s", stem, ext))
	e[11] = kind
	binary.LittleEndian.PutUint16(e[16:], 0x2821) // 1 January 2000: made, read and written
	binary.LittleEndian.PutUint16(e[18:], 0x2821)
	binary.LittleEndian.PutUint16(e[24:], 0x2821)
	binary.LittleEndian.PutUint16(e[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(e[28:], uint32(size))
}

// zeros is a part of zeros, of a source that has no end.
func zeros(size int64) part { return part{nothing{}, 0, size} }

type nothing struct{}

func (nothing) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }
