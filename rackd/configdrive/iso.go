package configdrive

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// An ISO 9660 image of one chain of folders with the files in the last one. The
// libraries at hand take file times, owners and the clock into the image, go over
// files on disk, and lose a file's neighbour when it fills its last sector; this is
// the small part of the format that a config drive needs. Two trees share the files:
// the plain one (ECMA-119 level 2, whose names Linux shows in lower case), and
// Joliet's with the names as they are, for all others.

// isoFile is a file; its name is ASCII letters, digits and underscores with at most
// one dot, lower case, at most 30 characters.
type isoFile struct {
	name string
	body []byte
}

const (
	sector = 2048
	// Sectors of the volume descriptors and path tables, then the first folder.
	primarySector, jolietSector, endSector = 16, 17, 18
	tablesSector                           = 19 // L and M of the plain tree, L and M of Joliet's
	foldersSector                          = 23
)

// leastSectors is how large an image is at least. Busybox's findfs and blkid, which many ramdisks have, read the first 68 KiB of a device,
// and find no label on a smaller one.
const leastSectors = 36

// isoDate is the time of everything in an image, ECMA-119 9.1.5: the start of 2000.
var isoDate = []byte{100, 1, 1, 0, 0, 0, 0}

// tree is one of the two views of the folders.
type tree struct {
	name   func(name string, isFile bool) []byte
	first  int // sector of the root folder; the others follow
	tables int // sector of its L path table; M follows
}

// writeISO returns the image. Files are in the order of their names.
func writeISO(label string, folders []string, files []isoFile) ([]byte, error) {
	depth := len(folders) + 1
	extents := make([]int, len(files))
	total := foldersSector + 2*depth
	for i, f := range files {
		extents[i] = total
		total += (len(f.body) + sector - 1) / sector
		if total > MaxBytes/sector {
			return nil, tooLarge()
		}
	}
	image := make([]byte, max(total, leastSectors)*sector)
	for i, f := range files {
		copy(image[extents[i]*sector:], f.body)
	}
	plain := tree{plainName, foldersSector, tablesSector}
	joliet := tree{jolietName, foldersSector + depth, tablesSector + 2}
	for _, t := range []tree{plain, joliet} {
		if err := t.writeFolders(image, folders, files, extents); err != nil {
			return nil, err
		}
	}
	p := plain.descriptor(image, primarySector, 1, plain.writeTables(image, folders))
	copy(p[40:72], label)
	j := joliet.descriptor(image, jolietSector, 2, joliet.writeTables(image, folders))
	copy(j[40:72], jolietName(label, false))
	copy(j[88:], "%/E") // UCS-2 level 3
	copy(image[endSector*sector:], "\xffCD001\x01")
	return image, nil
}

// writeFolders writes each folder's records into its sector, ECMA-119 6.8 and 9.1.
func (t tree) writeFolders(image []byte, folders []string, files []isoFile, extents []int) error {
	for i := range len(folders) + 1 {
		self := t.first + i
		parent := max(self-1, t.first)
		out := record(nil, []byte{0}, self, sector, true)
		out = record(out, []byte{1}, parent, sector, true)
		if i < len(folders) {
			out = record(out, t.name(folders[i], false), self+1, sector, true)
		} else {
			for n, f := range files {
				out = record(out, t.name(f.name, true), extents[n], len(f.body), false)
			}
		}
		if len(out) > sector {
			return fmt.Errorf("%w: its %d files do not fit one folder", ErrInvalid, len(files))
		}
		copy(image[self*sector:], out)
	}
	return nil
}

// record appends the record of a file or folder, ECMA-119 9.1.
func record(out, name []byte, extent, size int, folder bool) []byte {
	r := make([]byte, 33, 33+len(name)+1)
	both32(r[2:], extent)
	both32(r[10:], size)
	copy(r[18:], isoDate)
	if folder {
		r[25] = 2
	}
	both16(r[28:], 1) // volume
	r[32] = byte(len(name))
	r = append(r, name...)
	if len(r)%2 == 1 {
		r = append(r, 0)
	}
	r[0] = byte(len(r))
	return append(out, r...)
}

// writeTables writes the path tables and returns their size, ECMA-119 9.4.
func (t tree) writeTables(image []byte, folders []string) (size int) {
	for n, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var out []byte
		for i := range len(folders) + 1 {
			name := []byte{0}
			if i > 0 {
				name = t.name(folders[i-1], false)
			}
			out = append(out, byte(len(name)), 0)
			out = order.AppendUint32(out, uint32(t.first+i))
			out = order.AppendUint16(out, uint16(max(i, 1)))
			out = append(out, name...)
			if len(name)%2 == 1 {
				out = append(out, 0)
			}
		}
		size = copy(image[(t.tables+n)*sector:], out)
	}
	return size
}

// descriptor writes a volume descriptor, ECMA-119 8.4 and 8.5, and returns it.
func (t tree) descriptor(image []byte, at int, kind byte, tableSize int) []byte {
	d := image[at*sector : (at+1)*sector]
	copy(d, string(kind)+"CD001\x01")
	for _, text := range [][2]int{{8, 72}, {190, 813}} { // identifiers: spaces
		for i := text[0]; i < text[1]; i++ {
			if kind == 1 || i%2 == 1 {
				d[i] = ' '
			}
		}
	}
	both32(d[80:], len(image)/sector)
	both16(d[120:], 1)
	both16(d[124:], 1)
	both16(d[128:], sector)
	both32(d[132:], tableSize)
	binary.LittleEndian.PutUint32(d[140:], uint32(t.tables))
	binary.BigEndian.PutUint32(d[148:], uint32(t.tables+1))
	copy(d[156:190], record(nil, []byte{0}, t.first, sector, true))
	copy(d[813:], "2000010100000000\x002000010100000000\x000000000000000000\x000000000000000000\x00")
	d[881] = 1
	return d
}

func both16(b []byte, v int) {
	binary.LittleEndian.PutUint16(b, uint16(v))
	binary.BigEndian.PutUint16(b[2:], uint16(v))
}

func both32(b []byte, v int) {
	binary.LittleEndian.PutUint32(b, uint32(v))
	binary.BigEndian.PutUint32(b[4:], uint32(v))
}

// plainName is a name in ECMA-119's letters; a file's has a dot and a version.
func plainName(name string, isFile bool) []byte {
	name = strings.ToUpper(name)
	if isFile && !strings.Contains(name, ".") {
		name += "."
	}
	if isFile {
		name += ";1"
	}
	return []byte(name)
}

func jolietName(name string, _ bool) []byte {
	var out []byte
	for _, c := range utf16.Encode([]rune(name)) {
		out = binary.BigEndian.AppendUint16(out, c)
	}
	return out
}
