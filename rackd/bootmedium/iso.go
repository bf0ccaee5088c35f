package bootmedium

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The part of ISO 9660 (ECMA-119), Rock Ridge (RRIP 1.09) and El Torito 1.0 that a bootable CD needs. Names of files are as
// they are by Rock Ridge, which GRUB and Linux read; ECMA-119's own are in capitals.

const (
	sector = 2048
	block  = 512 // in which boot catalogues and partition tables count

	primaryAt, bootRecordAt, endAt = 16, 17, 18
	tablesAt                       = 19 // L, then M
	catalogAt                      = 21
	foldersAt                      = 22
)

// isoDate is the time of everything in an image, ECMA-119 9.1.5: the start of 2000.
var isoDate = []byte{100, 1, 1, 0, 0, 0, 0}

// volume is an image that is being laid out.
type volume struct {
	label string
	root  *folder
	files []*file
	bios  []byte // GRUB's image for El Torito; nil: none
	mbr   []byte // GRUB's boot sector, which loads it from a stick; nil: none
	esp   []part // the FAT volume; nil: none
}

type folder struct {
	name    string
	parent  *folder
	folders []*folder
	files   []*file
	at      int // its sector
	number  int // in the path table
}

type file struct {
	name  string
	parts []part
	at    int
}

func newVolume(label string) *volume { return &volume{label: label, root: &folder{}} }

// add adds a file; its folders are made.
func (v *volume) add(name string, parts []part) *file {
	dir := v.root
	for step := range strings.SplitSeq(path.Dir(name), "/") {
		i := slices.IndexFunc(dir.folders, func(f *folder) bool { return f.name == step })
		if i < 0 {
			i = len(dir.folders)
			dir.folders = append(dir.folders, &folder{name: step, parent: dir})
		}
		dir = dir.folders[i]
	}
	f := &file{name: path.Base(name), parts: parts}
	dir.files = append(dir.files, f)
	v.files = append(v.files, f)
	return f
}

// breadth lists the folders in the order of the path table: by depth, then by parent, then by name.
func (v *volume) breadth() (all []*folder) {
	v.root.parent = v.root
	for level := []*folder{v.root}; len(level) > 0; {
		var next []*folder
		for _, f := range level {
			all = append(all, f)
			slices.SortFunc(f.folders, func(a, b *folder) int { return strings.Compare(plainFolder(a.name), plainFolder(b.name)) })
			slices.SortFunc(f.files, func(a, b *file) int { return strings.Compare(plainFile(a.name), plainFile(b.name)) })
			next = append(next, f.folders...)
		}
		level = next
	}
	for i, f := range all {
		f.number, f.at = i+1, foldersAt+i
	}
	return all
}

func (v *volume) layOut() (*Image, error) {
	folders := v.breadth()
	m := &Image{}
	next := foldersAt + len(folders)
	place := func(at int, parts []part) {
		start := int64(at) * sector
		for _, p := range parts {
			if p.size > 0 {
				m.parts = append(m.parts, placed{p, start})
			}
			start += p.size
		}
	}
	take := func(parts []part) (at int) {
		at = next
		place(at, parts)
		next += int((sizeOf(parts) + sector - 1) / sector)
		return at
	}
	var espAt, biosAt int
	if v.esp != nil {
		espAt = take(v.esp)
	}
	if v.bios != nil {
		biosAt = next
		take(bytesOf(bootImage(v.bios, biosAt)))
	}
	for _, f := range v.files {
		f.at = take(f.parts)
	}
	total := next + readAhead
	head := make([]byte, (foldersAt+len(folders))*sector)
	for _, f := range folders {
		if err := f.write(head[f.at*sector:(f.at+1)*sector], f == v.root); err != nil {
			return nil, err
		}
	}
	table := len(pathTable(folders, binary.LittleEndian))
	if table > sector {
		return nil, fmt.Errorf("%w: it has too many folders", ErrContents)
	}
	copy(head[tablesAt*sector:], pathTable(folders, binary.LittleEndian))
	copy(head[(tablesAt+1)*sector:], pathTable(folders, binary.BigEndian))
	v.describe(head[primaryAt*sector:(primaryAt+1)*sector], total, table)
	copy(head[bootRecordAt*sector:], "\x00CD001\x01EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(head[bootRecordAt*sector+0x47:], catalogAt)
	copy(head[endAt*sector:], "\xffCD001\x01")
	espBlocks := int(sizeOf(v.esp) / block)
	writeCatalog(head[catalogAt*sector:(catalogAt+1)*sector], biosAt, espAt, espBlocks)
	if v.mbr != nil && biosAt > 0 {
		bootSectorOf(head, v.mbr, biosAt*(sector/block))
	}
	if espAt > 0 {
		partition(head, espAt*(sector/block), espBlocks, v.mbr != nil)
	}
	m.parts = append(m.parts, placed{bytesOf(head)[0], 0})
	slices.SortFunc(m.parts, func(a, b placed) int { return int(min(max(a.start-b.start, -1), 1)) })
	m.size = int64(total) * sector
	return m, nil
}

// readAhead is how many empty sectors end an image, as many as mkisofs and xorriso write. GRUB 2.06 on BIOS reads the last 32 KiB of a
// CD in two parts, and the second one is wrong where they are not whole: the end of the ramdisk was.
const readAhead = 150

// Places in the first block of a medium that is shown as a disk.
const (
	codeEnd   = 0x1b0 // where GRUB's boot sector has what it loads: the number of a block
	tableAt   = 446
	tableSign = 510
)

// elToritoBlocks is the part of GRUB's image that only the BIOS of a CD starts, cdboot.img. Behind it is what starts from a disk.
const elToritoBlocks = 4

// bootSectorOf writes what the BIOS starts of a stick: GRUB's boot sector, with the place of GRUB's image.
func bootSectorOf(head, code []byte, imageAt int) {
	copy(head, code[:codeEnd])
	binary.LittleEndian.PutUint64(head[codeEnd:], uint64(imageAt)+elToritoBlocks)
	head[tableSign], head[tableSign+1] = 0x55, 0xaa
}

// partition writes the table of a medium that is shown as a disk: one partition of type EFh, the FAT volume. Some BIOSes start no disk
// without an active partition. UEFI firmware looks at no such mark.
func partition(head []byte, at, blocks int, active bool) {
	p := head[tableAt : tableAt+16]
	copy(p, []byte{0, 0xfe, 0xff, 0xff, 0xef, 0xfe, 0xff, 0xff})
	if active {
		p[0] = 0x80
	}
	binary.LittleEndian.PutUint32(p[8:], uint32(at))
	binary.LittleEndian.PutUint32(p[12:], uint32(blocks))
	head[tableSign], head[tableSign+1] = 0x55, 0xaa
}

// The platforms of El Torito's catalogue.
const (
	platformBIOS = 0
	platformEFI  = 0xef
)

// writeCatalog writes the boot catalogue: the entry for the BIOS first, where there is one, and the one for UEFI in a
// section of its own, as firmwares know it from distributions.
func writeCatalog(c []byte, biosAt, espAt, espBlocks int) {
	first := byte(platformBIOS)
	if biosAt == 0 {
		first = platformEFI
	}
	c[0], c[1], c[30], c[31] = 1, first, 0x55, 0xaa
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(c[i:])
	}
	binary.LittleEndian.PutUint16(c[28:], -sum)
	entry := func(at []byte, lba, blocks int) {
		at[0] = 0x88 // bootable, no emulation
		binary.LittleEndian.PutUint16(at[6:], uint16(min(blocks, 0xffff)))
		binary.LittleEndian.PutUint32(at[8:], uint32(lba))
	}
	switch {
	case biosAt == 0 && espAt == 0:
	case biosAt == 0:
		entry(c[32:], espAt, espBlocks)
	default:
		entry(c[32:], biosAt, 4) // the BIOS loads one sector of the CD, GRUB's own loader the rest
		if espAt > 0 {
			c[64], c[65], c[66] = 0x91, platformEFI, 1
			entry(c[96:], espAt, espBlocks)
		}
	}
}

// bootImage is GRUB's image with what it has to know of its place: the boot information table of mkisofs, at byte 8,
// and at byte 2548 the block behind its first sector, in blocks of 512 bytes.
func bootImage(core []byte, at int) []byte {
	out := slices.Clone(core)
	binary.LittleEndian.PutUint32(out[8:], primaryAt)
	binary.LittleEndian.PutUint32(out[12:], uint32(at))
	binary.LittleEndian.PutUint32(out[16:], uint32(len(out)))
	binary.LittleEndian.PutUint64(out[2548:], uint64(at)*(sector/block)+5)
	var sum uint32
	for i := 64; i < len(out); i += 4 {
		var word [4]byte
		copy(word[:], out[i:])
		sum += binary.LittleEndian.Uint32(word[:])
	}
	binary.LittleEndian.PutUint32(out[20:], sum)
	return out
}

// write writes the folder's records, ECMA-119 6.8 and 9.1.
func (f *folder) write(into []byte, root bool) error {
	out := record(nil, "\x00", f.at, sector, true, dotEntries(root))
	out = record(out, "\x01", f.parent.at, sector, true, posix(true))
	type named struct {
		plain string
		bytes []byte
	}
	var list []named
	for _, d := range f.folders {
		list = append(list, named{plainFolder(d.name), record(nil, plainFolder(d.name), d.at, sector, true, append(posix(true), name(d.name)...))})
	}
	for _, d := range f.files {
		list = append(list, named{plainFile(d.name), record(nil, plainFile(d.name), d.at, int(sizeOf(d.parts)), false, append(posix(false), name(d.name)...))})
	}
	slices.SortFunc(list, func(a, b named) int { return strings.Compare(a.plain, b.plain) })
	for _, e := range list {
		out = append(out, e.bytes...)
	}
	if len(out) > len(into) {
		return fmt.Errorf("%w: the folder %q has too many files", ErrContents, f.name)
	}
	copy(into, out)
	return nil
}

// record appends the record of a file or folder, with its system use area behind it.
func record(out []byte, id string, at, size int, isFolder bool, use []byte) []byte {
	r := make([]byte, 33, 255)
	both32(r[2:], at)
	both32(r[10:], size)
	copy(r[18:], isoDate)
	if isFolder {
		r[25] = 2
	}
	both16(r[28:], 1) // volume
	r[32] = byte(len(id))
	r = append(r, id...)
	if len(r)%2 == 1 {
		r = append(r, 0)
	}
	r = append(r, use...)
	if len(r)%2 == 1 {
		r = append(r, 0)
	}
	r[0] = byte(len(r))
	return append(out, r...)
}

// dotEntries is the system use area of a folder's own record; that of the root says that there is Rock Ridge (SUSP 5.3, 5.5).
func dotEntries(root bool) (out []byte) {
	if root {
		out = append(out, 'S', 'P', 7, 1, 0xbe, 0xef, 0)
	}
	out = append(out, posix(true)...)
	if root {
		const id, text, source = "RRIP_1991A", "ROCK RIDGE", "RRIP 1.09"
		out = append(out, 'E', 'R', byte(8+len(id)+len(text)+len(source)), 1, byte(len(id)), byte(len(text)), byte(len(source)), 1)
		out = append(out, id+text+source...)
	}
	return out
}

// posix is Rock Ridge's PX: mode, links, owner and group.
func posix(isFolder bool) []byte {
	mode, links := 0o100444, 1
	if isFolder {
		mode, links = 0o040555, 2
	}
	out := make([]byte, 36)
	copy(out, []byte{'P', 'X', 36, 1})
	both32(out[4:], mode)
	both32(out[12:], links)
	return out
}

// name is Rock Ridge's NM.
func name(n string) []byte { return append([]byte{'N', 'M', byte(5 + len(n)), 1, 0}, n...) }

// pathTable is ECMA-119 9.4.
func pathTable(folders []*folder, order binary.AppendByteOrder) (out []byte) {
	for i, f := range folders {
		id := plainFolder(f.name)
		if i == 0 {
			id = "\x00"
		}
		out = append(out, byte(len(id)), 0)
		out = order.AppendUint32(out, uint32(f.at))
		out = order.AppendUint16(out, uint16(f.parent.number))
		out = append(out, id...)
		if len(id)%2 == 1 {
			out = append(out, 0)
		}
	}
	return out
}

// describe writes the primary volume descriptor, ECMA-119 8.4.
func (v *volume) describe(d []byte, total, table int) {
	copy(d, "\x01CD001\x01")
	for _, text := range [][2]int{{8, 72}, {190, 813}} { // identifiers: spaces
		for i := text[0]; i < text[1]; i++ {
			d[i] = ' '
		}
	}
	copy(d[40:72], v.label)
	both32(d[80:], total)
	both16(d[120:], 1)
	both16(d[124:], 1)
	both16(d[128:], sector)
	both32(d[132:], table)
	binary.LittleEndian.PutUint32(d[140:], tablesAt)
	binary.BigEndian.PutUint32(d[148:], tablesAt+1)
	copy(d[156:190], record(nil, "\x00", v.root.at, sector, true, nil))
	copy(d[813:], "2000010100000000\x002000010100000000\x000000000000000000\x000000000000000000\x00")
	d[881] = 1
}

// plainFolder and plainFile are names in ECMA-119's letters; a file's has a dot and a version.
func plainFolder(n string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(n))
}

func plainFile(n string) string {
	stem, ext, _ := strings.Cut(n, ".")
	return plainFolder(stem) + "." + plainFolder(ext) + ";1"
}

func both16(b []byte, v int) {
	binary.LittleEndian.PutUint16(b, uint16(v))
	binary.BigEndian.PutUint16(b[2:], uint16(v))
}

func both32(b []byte, v int) {
	binary.LittleEndian.PutUint32(b, uint32(v))
	binary.BigEndian.PutUint32(b[4:], uint32(v))
}
