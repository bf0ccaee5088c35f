package filesystem

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// file is an area in a file.
type file struct {
	*os.File
	size, sector int64
}

func (f file) Size() int64       { return f.size }
func (f file) SectorSize() int64 { return f.sector }
func (f file) Zero(off, n int64) error {
	_, err := f.WriteAt(make([]byte, n), off)
	return err
}

// dirty makes an area that is full of something else.
func dirty(t *testing.T, size, sector int64) file {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "area"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	junk := []byte(strings.Repeat("what was there before ", 100000))
	if _, err := f.WriteAt(junk, 0); err != nil {
		t.Fatal(err)
	}
	return file{f, size, sector}
}

// run lets a foreign program judge, and returns what it says.
func run(t *testing.T, want int, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		t.Errorf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// dosfstools find no fault with a FAT32, at the sizes that EFI system partitions have, and blkid reads its names.
func TestFAT32(t *testing.T) {
	for _, c := range []struct{ size, sector int64 }{{550 << 20, 512}, {40 << 20, 512}, {3 << 30, 512}, {550 << 20, 4096}} {
		a := dirty(t, c.size, c.sector)
		id, err := FormatFAT32(a, "efi-part", 2048)
		if err != nil {
			t.Fatal(err)
		}
		run(t, 0, "fsck.vfat", "-n", "-v", a.Name())
		if said := run(t, 0, "blkid", "-p", a.Name()); !strings.Contains(said, fmt.Sprintf("UUID=%q", id)) || !strings.Contains(said, `LABEL="efi-part"`) || !strings.Contains(said, "FAT32") {
			t.Errorf("%d bytes: blkid says %s, want %s", c.size, said, id)
		}
		if got, err := Identify(a); err != nil || got != (Found{VFAT, id}) {
			t.Errorf("identified as %+v, %v", got, err)
		}
	}
	for _, size := range []int64{16 << 20, 100 << 10} {
		if _, err := FormatFAT32(dirty(t, size, 512), "x", 0); err == nil {
			t.Errorf("%d bytes are a FAT32", size)
		}
	}
}

// blkid, which mount -a and systemd ask, reads swap space as mkswap's.
func TestSwap(t *testing.T) {
	a := dirty(t, 3<<20, 512)
	if err := FormatSwap(a, "swap1"); err != nil {
		t.Fatal(err)
	}
	got, err := Identify(a)
	if err != nil || got.Kind != Swap {
		t.Errorf("identified as %+v, %v", got, err)
	}
	if said := run(t, 0, "blkid", "-p", a.Name()); !strings.Contains(said, `TYPE="swap"`) || !strings.Contains(said, `LABEL="swap1"`) || !strings.Contains(said, got.UUID) {
		t.Errorf("blkid says %s", said)
	}
	if err := FormatSwap(dirty(t, 8<<10, 512), "swap1"); err == nil {
		t.Error("8 KiB are swap space")
	}
}

// What mkfs makes is known by the names that blkid gives.
func TestIdentify(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		mib  int64
		mkfs []string
	}{
		{Ext, 320, []string{"mkfs.ext4", "-q", "-F"}}, {XFS, 320, []string{"mkfs.xfs", "-q", "-f"}},
		{VFAT, 4, []string{"mkfs.vfat", "-F", "12"}}, {VFAT, 64, []string{"mkfs.vfat", "-F", "16"}}, {VFAT, 320, []string{"mkfs.vfat", "-F", "32"}},
	} {
		kind, mkfs := c.kind, c.mkfs
		a := dirty(t, c.mib<<20, 512)
		run(t, 0, mkfs[0], append(mkfs[1:], a.Name())...)
		got, err := Identify(a)
		if err != nil || got.Kind != kind {
			t.Errorf("%s: identified as %+v, %v", kind, got, err)
		}
		if said := run(t, 0, "blkid", "-p", a.Name()); !strings.Contains(said, fmt.Sprintf(" UUID=%q", got.UUID)) {
			t.Errorf("%s: blkid says %s, not %s", kind, said, got.UUID)
		}
	}
	if got, err := Identify(strings.NewReader("nothing")); !errors.Is(err, ErrUnknown) {
		t.Errorf("identified as %+v, %v", got, err)
	}
}
