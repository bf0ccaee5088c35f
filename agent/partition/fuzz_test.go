package partition

import (
	"hash/crc32"
	"slices"
	"testing"
)

// seeds are the starts and ends of small disks with tables.
func seeds(f *testing.F, add func(head, tail []byte)) {
	const size = 256 << 10
	for _, script := range []string{
		"label: gpt\nfirst-lba: 34\nstart=64, size=100\nstart=200, size=100\n",
		"label: dos\nstart=1, size=10\nstart=16, size=400, type=5\nstart=20, size=20\nstart=60, size=20\n",
	} {
		data := sfdisk(f, size, script)
		add(data[:34*512], data[size-33*512:])
		data[mbrTable+4+16] = 0x83 // as a hybrid has it
		add(data[:34*512], nil)
	}
	add(make([]byte, 2048), nil)
}

// right makes the checksums of the header of a GPT right, where it is one: else a fuzzer finds nothing behind them.
func right(data []byte) {
	h := data[512:1024]
	n, at := uint64(le.Uint32(h[hdrNumEntries:]))*uint64(le.Uint32(h[hdrEntrySize:])), le.Uint64(h[hdrEntriesLBA:])
	if size := le.Uint32(h[hdrSize:]); string(h[:8]) != gptSignature || size < headerMin || size > 512 {
		return
	}
	if total := uint64(len(data)); at < total/512 && n <= total-at*512 {
		le.PutUint32(h[hdrEntriesCRC:], crc32.ChecksumIEEE(data[at*512:at*512+n]))
	}
	le.PutUint32(h[hdrCRC:], headerSum(h))
}

// FuzzRead lets a table be anything. What is written of one that was taken is taken again, with the partitions that it had.
func FuzzRead(f *testing.F) {
	seeds(f, func(head, _ []byte) { f.Add(head) })
	f.Fuzz(func(t *testing.T, head []byte) {
		d := &memory{data: make([]byte, 2<<20), sector: 512}
		copy(d.data[:256<<10], head)
		right(d.data)
		tab, err := Read(d)
		if err != nil {
			return
		}
		want := tab.Partitions()
		if tab.GrowToDisk() != nil {
			return
		}
		if p, err := tab.AddLast("config-2", 1); err == nil {
			want = append(want, p)
		}
		if tab.Write() != nil {
			return
		}
		again, err := Read(d)
		if err != nil {
			t.Fatalf("a table that was taken, with %+v, is refused once it was written: %v", want, err)
		}
		got := again.Partitions()
		for _, p := range want {
			if !slices.Contains(got, p) {
				t.Errorf("partition %+v is not among %+v", p, got)
			}
		}
	})
}

func FuzzAreas(f *testing.F) {
	seeds(f, func(head, tail []byte) { f.Add(head, tail) })
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		d := &memory{data: make([]byte, 256<<10), sector: 512}
		copy(d.data, head)
		copy(d.data[max(0, len(d.data)-len(tail)):], tail)
		areas := Areas(d)
		if len(areas) > maxAreas {
			t.Errorf("%d areas", len(areas))
		}
		for _, a := range areas {
			if a.Start < 0 || a.End > d.Size() || a.End <= a.Start {
				t.Errorf("area %v of a disk of %d bytes", a, d.Size())
			}
		}
	})
}
