package partition

import (
	"fmt"
	"slices"
	"testing"
)

const mb = 1 << 20

func area(start, end int64) Area { return Area{Start: start, End: end} }

// places are areas without their types, each once.
func places(areas []Area) (out []Area) {
	for _, a := range areas {
		if a := area(a.Start, a.End); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// What util-linux has made is found, whichever of its tables is left.
func TestAreas(t *testing.T) {
	t.Parallel()
	const size = 32 * mb
	gptTwo := "label: gpt\nstart=2048, size=8MiB\nstart=20480, size=4MiB\n"
	two := []Area{area(mb, 9*mb), area(10*mb, 14*mb)}
	for _, c := range []struct {
		name   string
		script string
		spoil  func([]byte)
		want   []Area
	}{
		{"gpt", gptTwo, nil, two},
		{"gpt whose first header is damaged", gptTwo, func(b []byte) { clear(b[512:1024]) }, two},
		{"gpt whose first entries are damaged", gptTwo, func(b []byte) { clear(b[1024 : 1024+16<<10]) }, two},
		{"gpt whose copy is damaged", gptTwo, func(b []byte) { clear(b[size-20<<10:]) }, two},
		{"gpt with a wrong checksum", gptTwo, func(b []byte) { b[512+hdrCRC] ^= 1 }, two},
		{"gpt of 4 KiB sectors seen by another controller", "label: gpt\nsector-size: 4096\nstart=256, size=8MiB\n", nil, []Area{area(mb, 9*mb)}},
		{"mbr with logical partitions", "label: dos\nstart=2048, size=4MiB\nstart=10240, size=20MiB, type=5\nstart=12288, size=2MiB\nstart=18432, size=3MiB\n", nil,
			[]Area{area(mb, 5*mb), area(5*mb, 25*mb), area(6*mb, 8*mb), area(9*mb, 12*mb)}},
		{"nothing", "label: dos\n", func(b []byte) { clear(b) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := sfdisk(t, size, c.script)
			if c.spoil != nil {
				c.spoil(data)
			}
			got := places(Areas(&memory{data: data, sector: 512}))
			got = slices.DeleteFunc(got, func(a Area) bool { return a.Start <= 512 }) // the protective entry, which covers the disk
			slices.SortFunc(got, func(a, b Area) int { return int(a.Start - b.Start) })
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}

// An MBR counts in the disk's own sectors, and the kernel cuts a partition that reaches beyond the end of the disk. Both kinds
// have a superblock at their end.
func TestAreasOfAnMBRAsTheKernelSeesThem(t *testing.T) {
	const size = 64 * mb
	set := func(data []byte, at, i int, kind byte, start, n uint32) {
		data[at+510], data[at+511] = 0x55, 0xaa
		e := data[at+mbrTable+16*i:]
		e[4] = kind
		le.PutUint32(e[8:], start)
		le.PutUint32(e[12:], n)
	}
	fourK, cut := &memory{data: make([]byte, size), sector: 4096}, &memory{data: make([]byte, size), sector: 512}
	set(fourK.data, 0, 0, 0x83, 256, 1024)
	set(fourK.data, 0, 1, 0x05, 2048, 4096)
	set(fourK.data, 8*mb, 0, 0x83, 256, 512)
	set(fourK.data, 8*mb, 1, 0x05, 1024, 1024)
	set(fourK.data, 12*mb, 0, 0x83, 256, 512)
	set(cut.data, 0, 0, 0x83, 4096, 2*size/512)
	for _, c := range []struct {
		name string
		disk *memory
		want []Area
	}{
		{"sectors of 4 KiB", fourK, []Area{area(mb, 5*mb), area(8*mb, 24*mb), area(9*mb, 11*mb), area(13*mb, 15*mb)}},
		{"beyond the end", cut, []Area{area(2*mb, size)}},
	} {
		got := places(Areas(c.disk)) // also those that the table means if it was made for 512 bytes
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: found %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// An MBR that was made for sectors of 512 bytes, behind another controller or by an image: its areas are found on a disk of larger
// sectors too, as those of a GPT are.
func TestAreasOfAnMBRMadeForOtherSectors(t *testing.T) {
	d := &memory{data: make([]byte, 64*mb), sector: 4096}
	d.data[510], d.data[511] = 0x55, 0xaa
	e := d.data[mbrTable:]
	e[4] = 0x83
	le.PutUint32(e[8:], 2*mb/512)
	le.PutUint32(e[12:], 5*mb/512)
	if got := places(Areas(d)); !slices.Contains(got, area(2*mb, 7*mb)) {
		t.Errorf("found %v", got)
	}
}

// An area has the type and the number that its table gives it, also where the first of the tables is damaged or tells of another type.
func TestTypesOfAreas(t *testing.T) {
	t.Parallel()
	const size, vmfs = 32 * mb, "AA31E02A-400F-11DB-9590-000C2911D1B8"
	gptTwo := "label: gpt\nstart=2048, size=8MiB\nstart=20480, size=4MiB, type=" + vmfs + "\n"
	second := Area{Start: 10 * mb, End: 14 * mb, Type: vmfs, Number: 2}
	other := second
	other.Type = TypeLinux
	for _, c := range []struct {
		name, script string
		spoil        func([]byte)
		want         []Area
	}{
		{"gpt", gptTwo, nil, []Area{second}},
		{"gpt with a wrong checksum", gptTwo, func(b []byte) { b[512+hdrCRC] ^= 1 }, []Area{second}},
		{"gpt whose first entries are damaged", gptTwo, func(b []byte) { clear(b[1024 : 1024+16<<10]) }, []Area{second}},
		{"gpt whose first entries tell of another type", gptTwo, func(b []byte) { copy(b[1024+128:], parseGUID(TypeLinux)) }, []Area{other, second}},
		{"mbr", "label: dos\nstart=2048, size=4MiB, type=fb\nstart=10240, size=20MiB, type=5\nstart=12288, size=2MiB\nstart=18432, size=3MiB, type=fb\n", nil,
			[]Area{{mb, 5 * mb, "fb", 1}, {9 * mb, 12 * mb, "fb", 6}}},
	} {
		data := sfdisk(t, size, c.script)
		if c.spoil != nil {
			c.spoil(data)
		}
		got := Areas(&memory{data: data, sector: 512})
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: found %v, want %v", c.name, got, want)
			}
		}
	}
}

// The kernel takes a logical partition from any entry of a record, and the next record from another.
func TestLogicalPartitionsInAnyOrder(t *testing.T) {
	d := &memory{data: make([]byte, 64*mb), sector: 512}
	record := func(at int64, i int, kind byte, start, end int64) {
		b := d.data[at:]
		b[510], b[511] = 0x55, 0xaa
		e := b[mbrTable+16*i:]
		e[4] = kind
		le.PutUint32(e[8:], uint32(start/512))
		le.PutUint32(e[12:], uint32((end-start)/512))
	}
	record(0, 0, 0x05, 4*mb, 60*mb)
	record(4*mb, 0, 0x05, 20*mb, 30*mb) // the next record, at 24 MiB
	record(4*mb, 1, 0xfd, mb, 16*mb)
	record(24*mb, 2, 0xfd, mb, 8*mb)
	got := Areas(d)
	for _, want := range []Area{{5 * mb, 20 * mb, "fd", 5}, {25 * mb, 32 * mb, "fd", 6}} {
		if !slices.Contains(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
	}
}

// A record without a partition, as partitioners leave it, takes no number.
func TestTheNumberOfALogicalPartition(t *testing.T) {
	t.Parallel()
	data := sfdisk(t, 32*mb, "label: dos\nstart=2048, size=30MiB, type=5\nstart=4096, size=2MiB\nstart=12288, size=3MiB, type=fb\n")
	clear(data[mb+mbrTable : mb+mbrTable+16])
	if got := Areas(&memory{data: data, sector: 512}); !slices.Contains(got, Area{6 * mb, 9 * mb, "fb", 5}) {
		t.Errorf("found %v", got)
	}
}

// A GPT may have more entries than are read. Kernels show the first of them.
func TestAGPTOfManyEntries(t *testing.T) {
	t.Parallel()
	data := sfdisk(t, 32*mb, "label: gpt\ntable-length: 128\nstart=20480, size=8MiB\n")
	for _, header := range [][]byte{data[512:1024], data[32*mb-512:]} {
		le.PutUint32(header[hdrNumEntries:], 16384)
	}
	if got := places(Areas(&memory{data: data, sector: 512})); !slices.Contains(got, area(10*mb, 18*mb)) {
		t.Errorf("found %v", got)
	}
}
