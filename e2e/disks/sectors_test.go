package disks

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// fourK is the size of FOURK's sectors.
const fourK = 4096

// fourKParts are the partitions of the image for such sectors.
func fourKParts() []*gpt.Partition {
	return []*gpt.Partition{
		{Index: 1, Start: mib / fourK, End: 49*mib/fourK - 1, Type: gpt.EFISystemPartition, Name: "esp", GUID: "6B1D0F5E-0003-4A5C-9D3E-1A0C7E57D15C"},
		{Index: 2, Start: 49 * mib / fourK, End: 57*mib/fourK - 1, Type: gpt.LinuxFilesystem, Name: "root", GUID: "6B1D0F5E-0004-4A5C-9D3E-1A0C7E57D15C"},
	}
}

// fourKTable makes a partition table that counts sectors of 4 KiB. Not every sfdisk can.
func fourKTable(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	w, err := file.New(f, false).Writable()
	if err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{LogicalSectorSize: fourK, PhysicalSectorSize: fourK, ProtectiveMBR: true, Partitions: fourKParts()}
	if err := table.Write(w, size); err != nil {
		t.Fatal(err)
	}
}

// checkFourK has a foreign reader find the image's partitions in the disk's GPT, and in the copy at the disk's very end.
func (r *rack) checkFourK() {
	r.Helper()
	d := named("FOURK")
	disk := d.part(r.T, r.dir, 0, d.size)
	// The protective entry is that of a disk without other partitions, from its second sector to its last.
	e := disk[446:462]
	if first, n := binary.LittleEndian.Uint32(e[8:]), binary.LittleEndian.Uint32(e[12:]); disk[510] != 0x55 || disk[511] != 0xaa || e[4] != 0xee ||
		first != 1 || int64(n) != d.size/fourK-1 {
		r.Errorf("disk FOURK: its protective MBR ends with %x and has the entry %x", disk[510:512], e)
	}
	for _, copied := range []bool{false, true} {
		if copied {
			clear(disk[fourK : 2*fourK]) // the header of the first
		}
		path := filepath.Join(r.TempDir(), "disk")
		if err := os.WriteFile(path, disk, 0o600); err != nil {
			r.Fatal(err)
		}
		f, err := file.OpenFromPath(path, true)
		if err != nil {
			r.Fatal(err)
		}
		defer f.Close()
		table, err := gpt.Read(f, fourK, fourK)
		if err == nil && !copied {
			err = table.Verify(f, uint64(d.size))
		}
		if err != nil {
			r.Errorf("disk FOURK, copy %t: %v", copied, err)
			continue
		}
		if table.RecoveredFromBackup != copied || table.TotalSize() != uint64(d.size) {
			r.Errorf("disk FOURK, copy %t: read from the copy %t, for a disk of %d bytes, want %d", copied, table.RecoveredFromBackup, table.TotalSize(), d.size)
		}
		// A table that was read has an entry for each place.
		parts := slices.DeleteFunc(table.Partitions, func(p *gpt.Partition) bool { return p.Type == gpt.Unused })
		if !slices.EqualFunc(parts, fourKParts(), func(a, b *gpt.Partition) bool {
			return a.Index == b.Index && a.Start == b.Start && a.End == b.End && a.Type == b.Type && a.GUID == b.GUID && a.Name == b.Name
		}) {
			r.Errorf("disk FOURK, copy %t: %d partitions, not those of the image", copied, len(parts))
		}
	}
}
