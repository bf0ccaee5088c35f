package partition

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"
)

// A table by fdisk may leave the GPT of before behind it. Without a protective entry the kernel and blkid go by the MBR.
func TestAnMBRBeforeAStaleGPT(t *testing.T) {
	d := &memory{sfdisk(t, 8<<20, "label: gpt\nstart=2048, size=4MiB\n"), 512}
	first := make([]byte, 512)
	if _, err := d.ReadAt(first, 0); err != nil {
		t.Fatal(err)
	}
	first[446+4] = 0x83
	if _, err := d.WriteAt(first, 0); err != nil {
		t.Fatal(err)
	}
	table, err := Read(d)
	if err != nil || table.Kind() != MBR {
		t.Errorf("%v, %v", table, err)
	}
}

// Of a disk with a protective MBR and no GPT the kernel shows no partition.
func TestAProtectiveMBRWithoutAGPT(t *testing.T) {
	d := &memory{sfdisk(t, 8<<20, "label: gpt\nstart=2048, size=4MiB\n"), 512}
	if _, err := d.WriteAt(make([]byte, 512), 512); err != nil {
		t.Fatal(err)
	}
	table, err := Read(d)
	if err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a table with partitions %+v, %v", table.Partitions(), err)
	}
}

// Nor does the kernel show one of a disk whose first sector is empty, whatever follows it.
func TestAGPTWithoutAProtectiveMBR(t *testing.T) {
	d := &memory{sfdisk(t, 8<<20, "label: gpt\nstart=2048, size=4MiB\n"), 512}
	if _, err := d.WriteAt(make([]byte, 512), 0); err != nil {
		t.Fatal(err)
	}
	if table, err := Read(d); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a table with partitions %+v, %v", table.Partitions(), err)
	}
}

// resum makes the checksums of a GPT's header at a place right, with entries at the next sector.
func resum(data []byte, at int) {
	h := data[at : at+512]
	n := int(le.Uint32(h[hdrNumEntries:]) * le.Uint32(h[hdrEntrySize:]))
	le.PutUint32(h[hdrEntriesCRC:], crc32.ChecksumIEEE(data[at+512:at+512+n]))
	le.PutUint32(h[hdrCRC:], headerSum(h))
}

// A header that says to lie elsewhere is believed by no kernel. The table was written there: over what a partition holds.
func TestAHeaderThatSaysToLieElsewhere(t *testing.T) {
	data := sfdisk(t, 8<<20, "label: gpt\nstart=2048, size=4MiB\n")
	le.PutUint64(data[512+hdrMyLBA:], 3000)
	resum(data, 512)
	before := bytes.Clone(data[2048*512 : 6<<20])
	table, err := Read(&memory{data, 512})
	if err == nil {
		if err := errors.Join(table.GrowToDisk(), table.Write()); err != nil {
			t.Fatal(err)
		}
	}
	if err == nil || !bytes.Equal(data[2048*512:6<<20], before) {
		t.Errorf("%v; the partition holds what it did: %v", err, bytes.Equal(data[2048*512:6<<20], before))
	}
}

// Kernel and firmware believe a protective entry only where it begins at the header, in sector 1.
func TestAProtectiveEntryThatBeginsElsewhere(t *testing.T) {
	data := sfdisk(t, 8<<20, "label: gpt\nstart=2048, size=4MiB\n")
	le.PutUint32(data[mbrTable+8:], 0)
	if table, err := Read(&memory{data, 512}); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("%v, %v", table, err)
	}
}
