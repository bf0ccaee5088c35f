package diskformat

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
)

const (
	sector = 512
	// most is the largest virtual disk that is believed, in bytes.
	most = 1 << 50
)

// Of VMware's "Virtual Disk Format 5.0". QEMU looks for the descriptor in the second sector whatever the header says, so a
// file that has it elsewhere is refused: each program shall see the same one.
const (
	vmdkDescriptor = sector
	vmdkLongest    = 20 * sector // what QEMU reads of a descriptor
)

var (
	vmdkType   = regexp.MustCompile(`(?m)^\s*createType\s*=\s*"([^"]*)"`)
	vmdkExtent = regexp.MustCompile(`(?m)^\s*(?:RW|RDONLY|NOACCESS)\s+\d+\s+(\S+)`)
	vmdkParent = regexp.MustCompile(`(?mi)^\s*parentCID\s*=\s*(\S+)`)
)

// vmdk reads a VMDK file that is whole in itself: sparse or stream-optimised.
func vmdk(r io.ReaderAt, head []byte) (int64, error) {
	if !bytes.HasPrefix(head, []byte("KDMV")) || len(head) < 80 {
		return 0, refuse(VMDK, "its data is in other files; convert it with qemu-img convert -O qcow2")
	}
	le := binary.LittleEndian
	version, capacity, at, sectors := le.Uint32(head[4:]), le.Uint64(head[12:]), le.Uint64(head[28:]), le.Uint64(head[36:])
	switch {
	case version < 1 || version > 3:
		return 0, refuse(VMDK, "version %d is unknown", version)
	case capacity == 0 || capacity > most/sector:
		return 0, refuse(VMDK, "a virtual disk of %d sectors", capacity)
	case at != vmdkDescriptor/sector || sectors == 0 || sectors > 1<<11:
		return 0, refuse(VMDK, "its descriptor is not in the second sector")
	}
	text, err := read(r, vmdkDescriptor, max(vmdkLongest, int(sectors)*sector))
	if err != nil {
		return 0, err
	}
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	kind, extents, parent := vmdkType.FindAllSubmatch(text, -1), vmdkExtent.FindAllSubmatch(text, -1), vmdkParent.FindSubmatch(text)
	switch {
	case len(kind) != 1 || string(kind[0][1]) != "monolithicSparse" && string(kind[0][1]) != "streamOptimized":
		return 0, refuse(VMDK, "it is not of a type whose data is in the file itself (monolithicSparse, streamOptimized); convert it with qemu-img convert -O qcow2")
	case len(extents) != 1 || string(extents[0][1]) != "SPARSE":
		return 0, refuse(VMDK, "its descriptor names %d extents; only one of type SPARSE is in the file itself", len(extents))
	case bytes.Contains(text, []byte("parentFileNameHint")) || parent != nil && !bytes.EqualFold(parent[1], []byte("ffffffff")):
		return 0, refuse(VMDK, "it has a parent file; flatten it with qemu-img convert")
	}
	return int64(capacity) * sector, nil
}

// vhdFooter is the length of a VHD file's footer, of which a dynamic one has a copy at its beginning. Of Microsoft's "Virtual Hard
// Disk Image Format Specification" 1.0.
const vhdFooter = 512

func vhd(footer []byte) (int64, error) {
	if len(footer) < vhdFooter {
		return 0, refuse(VHD, "the file ends after %d bytes", len(footer))
	}
	size, kind := binary.BigEndian.Uint64(footer[48:]), binary.BigEndian.Uint32(footer[60:])
	switch {
	case kind == 4:
		return 0, refuse(VHD, "it has a parent file; flatten it with qemu-img convert")
	case kind != 2 && kind != 3:
		return 0, refuse(VHD, "type %d is unknown", kind)
	case size == 0 || size > most:
		return 0, refuse(VHD, "a virtual disk of %d bytes", size)
	}
	return int64(size), nil
}

// vdi reads the header of a VirtualBox image, of QEMU's block/vdi.c. fileSize is that of the whole file, in bytes.
func vdi(head []byte, fileSize int64) (int64, error) {
	if len(head) < HeadLen {
		return 0, refuse(VDI, "the file ends after %d bytes", len(head))
	}
	le := binary.LittleEndian
	kind, size := le.Uint32(head[76:]), le.Uint64(head[368:])
	var none [16]byte
	switch {
	case kind != 1 && kind != 2 || !bytes.Equal(head[424:440], none[:]) || !bytes.Equal(head[440:456], none[:]):
		return 0, refuse(VDI, "it has a parent file, or is of type %d; flatten it with qemu-img convert", kind)
	case size == 0 || size > most:
		return 0, refuse(VDI, "a virtual disk of %d bytes", size)
	}
	// Blocks lie one behind the other. Programs read zeros behind a file's end.
	begin, block, extra, blocks := uint64(le.Uint32(head[344:])), uint64(le.Uint32(head[376:])), uint64(le.Uint32(head[380:])), uint64(le.Uint32(head[388:]))
	if block <= 1<<30 && extra <= 1<<30 && begin+blocks*(block+extra) > uint64(fileSize) {
		return 0, refuse(VDI, "it was cut off: it has %d blocks of %d bytes from %d on, and the file %d bytes", blocks, block, begin, fileSize)
	}
	return int64(size), nil
}

// Of Microsoft's [MS-VHDX]: the two region tables, and GUIDs as they lie in the file.
const (
	vhdxTableLen   = 64 << 10
	vhdxEntries    = 2047
	vhdxMetaLen    = 64 << 10
	vhdxHasParent  = 1 << 1
	vhdxMetaRegion = "\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e"
	vhdxFileParams = "\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b"
	vhdxDiskSize   = "\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8"
)

var vhdxTables = []int64{192 << 10, 256 << 10}

// vhdx reads both region tables of a VHDX file: a program takes the one that is whole, and neither may hide a parent.
func vhdx(r io.ReaderAt) (size int64, err error) {
	found := 0
	for _, at := range vhdxTables {
		table, err := read(r, at, vhdxTableLen)
		if err != nil {
			return 0, err
		}
		for _, meta := range vhdxItems(table, "regi", 16, 8, vhdxEntries, vhdxMetaRegion) {
			n, err := vhdxMeta(r, int64(binary.LittleEndian.Uint64(meta[16:])))
			if err != nil {
				return 0, err
			}
			if found > 0 && n != size {
				return 0, refuse(VHDX, "its two region tables differ")
			}
			size, found = n, found+1
		}
	}
	if found == 0 || size <= 0 || size > most {
		return 0, refuse(VHDX, "its headers tell of no disk")
	}
	return size, nil
}

// vhdxMeta reads the metadata at an offset: the disk's size, and that there is no parent.
func vhdxMeta(r io.ReaderAt, at int64) (size int64, err error) {
	if at < 0 || at > most {
		return 0, refuse(VHDX, "metadata beyond the end")
	}
	table, err := read(r, at, vhdxMetaLen)
	if err != nil {
		return 0, err
	}
	value := func(guid string) (v [8]byte, there bool, err error) {
		items := vhdxItems(table, "metadata", 32, 10, vhdxEntries, guid)
		if len(items) != 1 {
			return v, false, nil
		}
		text, err := read(r, at+int64(binary.LittleEndian.Uint32(items[0][16:])), len(v))
		return v, copy(v[:], text) == len(v), err
	}
	params, there, err := value(vhdxFileParams)
	if err != nil {
		return 0, err
	}
	disk, known, err := value(vhdxDiskSize)
	if err != nil {
		return 0, err
	}
	if !there || !known {
		return 0, refuse(VHDX, "its metadata are not whole")
	}
	if binary.LittleEndian.Uint32(params[4:])&vhdxHasParent != 0 {
		return 0, refuse(VHDX, "it has a parent file; flatten it with qemu-img convert")
	}
	return int64(binary.LittleEndian.Uint64(disk[:])), nil
}

// vhdxItems returns the entries of a table for a GUID. Entries have 32 bytes and begin at first; their number lies at count.
func vhdxItems(table []byte, signature string, first, count, limit int, guid string) (items [][]byte) {
	if len(table) < first || !bytes.HasPrefix(table, []byte(signature)) {
		return nil
	}
	n := min(int(binary.LittleEndian.Uint16(table[count:])), limit)
	for i := range n {
		if at := first + i*32; at+32 <= len(table) && string(table[at:at+16]) == guid {
			items = append(items, table[at:at+32])
		}
	}
	return items
}
