package partition

import (
	"fmt"
	"slices"
)

// Area is a part of a disk, in bytes from the disk's start, as one of its tables tells of it.
type Area struct {
	Start, End int64
	// Type is the partition's, as Partition has it, and Number how the table counts it. Tables may give one area several types.
	Type   string
	Number int
}

// maxAreas bounds what is taken from tables that nothing vouches for, and maxLogical the chain of
// logical partitions, which may run in a circle.
const (
	maxAreas   = 1024
	maxLogical = 128
)

// Areas lists the partitions that any table on the disk tells of, for someone who is to leave no
// trace of them: the GPT at the start and its copy at the end, for sectors of 512 and 4096
// bytes, the primary partitions of an MBR and the logical ones, for sectors of 512 bytes and
// the disk's own. It judges leniently: what one table has damaged another may still hold, and a
// kernel or a RAID would find it.
func Areas(d Disk) []Area {
	seen := map[Area]bool{}
	var out []Area
	add := func(start, end int64, kind string, number int) {
		a := Area{Start: start, End: min(end, d.Size()), Type: kind} // the kernel cuts what reaches beyond the end of the disk
		if start < 0 || a.End <= start || seen[a] || len(out) == maxAreas {
			return
		}
		seen[a] = true
		a.Number = number
		out = append(out, a)
	}
	for _, sector := range []int64{512, 4096} {
		headersAt := []int64{sector, d.Size()/sector*sector - sector}
		header := make([]byte, headerMin)
		if _, err := d.ReadAt(header, sector); err == nil && string(header[:8]) == gptSignature {
			// The copy of a table that was made for a smaller disk.
			if lba := le.Uint64(header[hdrAltLBA:]); lba < uint64(d.Size()/sector) {
				headersAt = append(headersAt, int64(lba)*sector)
			}
		}
		for _, at := range headersAt {
			gptAreas(d, sector, at, add)
		}
	}
	first := make([]byte, 512)
	if _, err := d.ReadAt(first, 0); err == nil && first[510] == 0x55 && first[511] == 0xaa {
		for _, sector := range slices.Compact([]int64{512, d.SectorSize()}) {
			for i := range 4 {
				start, end, kind := mbrArea(first, i, 0, sector)
				add(start, end, fmt.Sprintf("%02x", kind), i+1)
				if slices.Contains(extended, kind) {
					logicalAreas(d, start, sector, add)
				}
			}
		}
	}
	return out
}

func gptAreas(d Disk, sector, at int64, add func(start, end int64, kind string, number int)) {
	header := make([]byte, headerMin)
	if at < 0 || at+headerMin > d.Size() {
		return
	}
	if _, err := d.ReadAt(header, at); err != nil || string(header[:8]) != gptSignature {
		return
	}
	count, size := int64(le.Uint32(header[hdrNumEntries:])), int64(le.Uint32(header[hdrEntrySize:]))
	lba := le.Uint64(header[hdrEntriesLBA:])
	last := uint64(d.Size() / sector)
	if size < 128 || size > 4096 || count < 1 || lba >= last {
		return
	}
	entries := make([]byte, min(count*size, maxEntries, d.Size()-int64(lba)*sector)) // kernels show fewer
	if _, err := d.ReadAt(entries, int64(lba)*sector); err != nil {
		return
	}
	for number := 1; len(entries) >= int(size); number++ {
		if e := entry(entries[:size]); !e.free() && e.first() <= e.last() && e.last() < last {
			add(int64(e.first())*sector, int64(e.last()+1)*sector, guid(e[:16]), number)
		}
		entries = entries[size:]
	}
}

// mbrArea is entry i of a boot record, whose sectors count from base; kind is its type.
func mbrArea(record []byte, i int, base, sector int64) (start, end int64, kind byte) {
	e := record[mbrTable+16*i : mbrTable+16*i+16]
	start = base + int64(le.Uint32(e[8:]))*sector
	return start, start + int64(le.Uint32(e[12:]))*sector, e[4]
}

// extended are the types of a partition that holds logical ones.
var extended = []byte{0x05, 0x0f, 0x85}

// logicalAreas follows the chain of extended boot records as the kernel does: in each, one entry is the next record, which counts
// from the chain's beginning, and others are logical partitions.
func logicalAreas(d Disk, chain, sector int64, add func(start, end int64, kind string, number int)) {
	record := make([]byte, 512)
	number := 5 // of the next logical partition
	for at, n := chain, 0; n < maxLogical; n++ {
		if at < 0 || at+512 > d.Size() {
			return
		}
		if _, err := d.ReadAt(record, at); err != nil || record[510] != 0x55 || record[511] != 0xaa {
			return
		}
		next := int64(-1)
		for i := range 4 {
			start, end, kind := mbrArea(record, i, at, sector)
			switch {
			case end <= start:
			case !slices.Contains(extended, kind):
				add(start, end, fmt.Sprintf("%02x", kind), number)
				number++
			case next < 0:
				next, _, _ = mbrArea(record, i, chain, sector)
			}
		}
		if next <= chain {
			return
		}
		at = next
	}
}
