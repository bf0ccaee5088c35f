package deploy

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/hints"
)

// An erasure of metadata fails on the way, or its agent ends, and the step is repeated: what the first try was to erase, and has not, is
// erased by the second. The chain of logical partitions tells where their superblocks are. So it goes last.
func TestARepeatedErasureFindsTheLogicalPartitions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a file system that gets full wants root")
	}
	const mb, size = 1 << 20, 64 << 20
	for name, c := range map[string]struct {
		extended, logical uint32 // their lengths in MiB
		at                int64  // of the superblock
	}{
		"in the middle":        {56, 20, 25*mb - 64<<10}, // md 1.0 lies at a partition's end
		"up to the disk's end": {60, 59, 5*mb + 4<<10},   // md 1.2 lies at its beginning
	} {
		t.Run(name, func(t *testing.T) { repeated(t, c.extended, c.logical, c.at) })
	}
}

func repeated(t *testing.T, extended, logical uint32, at int64) {
	const mb, size = 1 << 20, 64 << 20
	store := t.TempDir()
	if err := unix.Mount("tmpfs", store, "tmpfs", 0, "size=1536k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(store, "disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	record := func(at int64, entry int, kind byte, start, n uint32) {
		b := make([]byte, 512)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[510], b[511] = 0x55, 0xaa
		e := b[446+16*entry:]
		e[4] = kind
		binary.LittleEndian.PutUint32(e[8:], start)
		binary.LittleEndian.PutUint32(e[12:], n)
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	record(0, 0, 0x05, 4*mb/512, extended*mb/512)   // extended, from MiB 4
	record(4*mb, 0, 0xfd, 1*mb/512, logical*mb/512) // logical, from MiB 5
	super := bytes.Repeat([]byte("md superblock. "), 200)
	if _, err := f.WriteAt(super, at); err != nil {
		t.Fatal(err)
	}
	d, _, _ := fixture(t, nil)
	d.Machine = both{{Name: path, Size: size}}
	if err := d.EraseMetadata(t.Context(), hints.Rules{}); err == nil {
		t.Fatal("the disk has no room for its zeros, and was erased")
	}
	if err := unix.Mount("", store, "", unix.MS_REMOUNT, "size=80m"); err != nil {
		t.Fatal(err)
	}
	if err := d.EraseMetadata(t.Context(), hints.Rules{}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(super))
	if _, err := f.ReadAt(got, at); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, super) {
		t.Error("the repeated step says that the disk's metadata are erased, and the superblock of a RAID is where it was")
	}
}
