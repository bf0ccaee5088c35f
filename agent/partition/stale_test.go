package partition

import (
	"errors"
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
