package partition

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/ironyard/ironyard/protocol/sectors"
)

const (
	gptSignature = "EFI PART"
	headerMin    = 92
	// maxEntries bounds the entry array; the specification's usual size is 16 KiB.
	maxEntries = 1 << 20
)

// Offsets in the GPT header (UEFI 2.10, table 5-5).
const (
	hdrSize       = 12
	hdrCRC        = 16
	hdrMyLBA      = 24
	hdrAltLBA     = 32
	hdrFirst      = 40
	hdrLast       = 48
	hdrDiskGUID   = 56
	hdrEntriesLBA = 72
	hdrNumEntries = 80
	hdrEntrySize  = 84
	hdrEntriesCRC = 88
)

type gpt struct {
	disk    Disk
	sector  int64
	header  []byte // one sector: the primary header as it was, then as it will be
	entries []byte
	count   int
	size    int // of an entry
	pmbr    []byte
}

var le = binary.LittleEndian

func readGPT(d Disk) (*gpt, error) { return gptAt(d, d.SectorSize()) }

// Copy reads the partitions of the copy of a GPT at the end of a disk, for one whose table is damaged. The error wraps ErrNone if
// there is none.
func Copy(d Disk) ([]Partition, error) {
	at := d.Size()/d.SectorSize()*d.SectorSize() - d.SectorSize()
	if at < 0 || !sectors.Signed(d, at) {
		return nil, fmt.Errorf("the end of disk %s: %w", d.Name(), ErrNone)
	}
	g, err := gptAt(d, at)
	if err != nil {
		return nil, err
	}
	return g.Partitions(), nil
}

// gptAt reads the table whose header is at a place.
func gptAt(d Disk, at int64) (*gpt, error) {
	g := &gpt{disk: d, sector: d.SectorSize(), header: make([]byte, d.SectorSize()), pmbr: make([]byte, 512)}
	bad := func(format string, args ...any) (*gpt, error) {
		return nil, fmt.Errorf("GPT of disk %s is damaged: %s", d.Name(), fmt.Sprintf(format, args...))
	}
	if _, err := d.ReadAt(g.header, at); err != nil {
		return bad("header: %v", err)
	}
	if _, err := d.ReadAt(g.pmbr, 0); err != nil {
		return bad("protective MBR: %v", err)
	}
	n := int64(le.Uint32(g.header[hdrSize:]))
	if n < headerMin || n > g.sector {
		return bad("header of %d bytes", n)
	}
	if got, want := headerSum(g.header), le.Uint32(g.header[hdrCRC:]); got != want {
		return bad("header checksum is %08x, computed %08x", want, got)
	}
	if my := le.Uint64(g.header[hdrMyLBA:]); my != uint64(at/g.sector) {
		return bad("its header at sector %d says to be at sector %d", at/g.sector, my)
	}
	count, size := int64(le.Uint32(g.header[hdrNumEntries:])), int64(le.Uint32(g.header[hdrEntrySize:]))
	if size < 128 || size > 4096 || size%8 != 0 || count < 1 || count*size > maxEntries {
		return bad("%d entries of %d bytes", count, size)
	}
	first := le.Uint64(g.header[hdrEntriesLBA:])
	if first < 2 || first > uint64(d.Size()/g.sector) {
		return bad("entries at sector %d", first)
	}
	g.count, g.size, g.entries = int(count), int(size), make([]byte, count*size)
	if _, err := d.ReadAt(g.entries, int64(first)*g.sector); err != nil {
		return bad("entries: %v", err)
	}
	if got, want := crc32.ChecksumIEEE(g.entries), le.Uint32(g.header[hdrEntriesCRC:]); got != want {
		return bad("checksum of the entries is %08x, computed %08x", want, got)
	}
	last := uint64(d.Size()/g.sector) - 1
	for i := range g.count {
		if e := g.entry(i); !e.free() && (e.first() > e.last() || e.last() > last) {
			return bad("partition %d is at sectors %d to %d of a disk of %d", i+1, e.first(), e.last(), last+1)
		}
	}
	return g, nil
}

// headerSum computes the header's checksum, for which its own field counts as zero.
func headerSum(header []byte) uint32 {
	h := append([]byte(nil), header[:le.Uint32(header[hdrSize:])]...)
	le.PutUint32(h[hdrCRC:], 0)
	return crc32.ChecksumIEEE(h)
}

func (g *gpt) Kind() Kind { return GPT }

func (g *gpt) ID() string { return strings.ToLower(guid(g.header[hdrDiskGUID : hdrDiskGUID+16])) }

func (g *gpt) Partitions() []Partition {
	var out []Partition
	for i := range g.count {
		if e := g.entry(i); !e.free() {
			out = append(out, g.describe(i))
		}
	}
	return out
}

func (g *gpt) describe(i int) Partition {
	e := g.entry(i)
	return Partition{Number: i + 1, Label: e.name(), Type: guid(e[:16]), GUID: guid(e[16:32]),
		Start: int64(e.first()) * g.sector, Size: int64(e.last()-e.first()+1) * g.sector}
}

// entrySectors is the length of the entry array in sectors.
func (g *gpt) entrySectors() int64 { return roundUp(int64(len(g.entries)), g.sector) / g.sector }

func (g *gpt) GrowToDisk() error {
	last := g.disk.Size()/g.sector - 1
	usable := last - g.entrySectors() - 1
	for _, p := range g.Partitions() {
		if end := (p.Start+p.Size)/g.sector - 1; end > usable {
			return fmt.Errorf("partition %d ends at sector %d, where disk %s of %d bytes must keep its backup partition table",
				p.Number, end, g.disk.Name(), g.disk.Size())
		}
	}
	le.PutUint64(g.header[hdrAltLBA:], uint64(last))
	le.PutUint64(g.header[hdrLast:], uint64(usable))
	// The protective entry covers the disk; hybrid tables keep their other entries.
	for i := range 4 {
		if e := g.pmbr[446+16*i : 462+16*i]; e[4] == 0xee && i == 0 && le.Uint32(e[8:]) == 1 {
			le.PutUint32(e[12:], uint32(min(last, 1<<32-1)))
		}
	}
	return nil
}

func (g *gpt) AddLast(label string, size int64) (Partition, error) {
	slot, end := -1, int64(le.Uint64(g.header[hdrFirst:]))
	for i := range g.count {
		if e := g.entry(i); !e.free() {
			slot = -1
			end = max(end, int64(e.last())+1)
		} else if slot < 0 {
			slot = i
		}
	}
	for i := 0; slot < 0 && i < g.count; i++ {
		if g.entry(i).free() {
			slot = i
		}
	}
	if slot < 0 {
		return Partition{}, fmt.Errorf("all %d entries of the partition table of disk %s are used", g.count, g.disk.Name())
	}
	usable := int64(le.Uint64(g.header[hdrLast:])) + 1
	size = roundUp(size, mib)
	start := roundDown(usable*g.sector-size, mib)
	if start < end*g.sector {
		return Partition{}, fmt.Errorf("no room for a partition %q of %d bytes at the end of disk %s: its partitions leave %d bytes",
			label, size, g.disk.Name(), max(0, (usable-end)*g.sector))
	}
	id, err := newGUID()
	if err != nil {
		return Partition{}, err
	}
	g.set(slot, label, TypeLinux, id, Partition{Start: start, Size: size})
	return g.describe(slot), nil
}

func (g *gpt) SetType(number int, kind string) error {
	if number < 1 || number > g.count || g.entry(number-1).free() {
		return fmt.Errorf("disk %s has no partition %d", g.disk.Name(), number)
	}
	copy(g.entry(number - 1)[:16], parseGUID(kind))
	return nil
}

// flusher is a disk that keeps writes in a cache, which it may write out in any order.
type flusher interface{ Flush() error }

// Write puts the backup on the medium first: if power fails in between, one table is whole.
func (g *gpt) Write() error {
	le.PutUint32(g.header[hdrEntriesCRC:], crc32.ChecksumIEEE(g.entries))
	le.PutUint32(g.header[hdrCRC:], headerSum(g.header))
	alt := le.Uint64(g.header[hdrAltLBA:])
	backup := append([]byte(nil), g.header...)
	le.PutUint64(backup[hdrMyLBA:], alt)
	le.PutUint64(backup[hdrAltLBA:], le.Uint64(g.header[hdrMyLBA:]))
	le.PutUint64(backup[hdrEntriesLBA:], alt-uint64(g.entrySectors()))
	le.PutUint32(backup[hdrCRC:], headerSum(backup))
	for _, w := range []struct {
		data []byte
		at   uint64
	}{
		{g.entries, alt - uint64(g.entrySectors())}, {backup, alt},
		{g.entries, le.Uint64(g.header[hdrEntriesLBA:])}, {g.header, le.Uint64(g.header[hdrMyLBA:])}, {g.pmbr, 0},
	} {
		if _, err := g.disk.WriteAt(w.data, int64(w.at)*g.sector); err != nil {
			return fmt.Errorf("writing the partition table: %w", err)
		}
		if f, caches := g.disk.(flusher); caches && w.at == alt {
			if err := f.Flush(); err != nil {
				return fmt.Errorf("writing the copy of the partition table: %w", err)
			}
		}
	}
	return nil
}
