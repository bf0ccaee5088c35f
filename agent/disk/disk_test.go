package disk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func file(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xee}, int(size)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loop attaches a loop device where the machine lets us, so that the same test
// sees a real block device.
func loop(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", path).Output()
	if err != nil {
		t.Logf("no loop device (%v): testing on the file only", err)
		return ""
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "--detach", dev).Run(); err != nil {
			t.Errorf("detaching %s: %v", dev, err)
		}
	})
	return dev
}

func TestWriteZeroWipe(t *testing.T) {
	const size = 40 << 20
	path := file(t, size)
	t.Run("file", func(t *testing.T) { exercise(t, path, size) })
	path = file(t, size)
	if dev := loop(t, path); dev != "" {
		t.Run("block device", func(t *testing.T) { exercise(t, dev, size) })
	}
}

func exercise(t *testing.T, path string, size int64) {
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Size() != size || d.SectorSize() != 512 {
		t.Fatalf("size %d, sector %d", d.Size(), d.SectorSize())
	}
	data := bytes.Repeat([]byte("ironyard"), 1<<17)
	for off := int64(0); off < size; off += int64(len(data)) {
		if _, err := d.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Zero(5<<20, 3<<20); err != nil {
		t.Fatal(err)
	}
	// Not aligned to sectors: falls back to writing.
	if err := d.Zero(10<<20+1, 7); err != nil {
		t.Fatal(err)
	}
	if err := d.WipeEnds(); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := d.RereadPartitions(); err != nil {
		t.Error(err)
	}
	got := make([]byte, size)
	if _, err := d.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("ironyard"), int(size/8))
	for _, hole := range [][2]int64{{0, 1 << 20}, {5 << 20, 3 << 20}, {10<<20 + 1, 7}, {size - 1<<20, 1 << 20}} {
		clear(want[hole[0] : hole[0]+hole[1]])
	}
	if !bytes.Equal(got, want) {
		t.Error("the disk does not hold what was written and zeroed")
	}
}

func TestBoundsAndRefusals(t *testing.T) {
	d, err := Open(file(t, 4096))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.WriteAt(make([]byte, 10), 4090); err == nil || !strings.Contains(err.Error(), d.Name()) {
		t.Errorf("write beyond the end: %v", err)
	}
	if err := d.Zero(4090, 10); err == nil {
		t.Error("zeroing beyond the end accepted")
	}
	if err := d.WipeEnds(); err != nil {
		t.Errorf("wiping a tiny disk: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, empty + "-missing"} {
		if _, err := Open(path); err == nil {
			t.Errorf("Open(%s) succeeded", path)
		}
	}
}

// A drive that claims to zero by itself may answer the command with an error, and be well otherwise: zeros are written.
func TestZerosAreWrittenWhereADrivesCommandFails(t *testing.T) {
	const size = 4 << 20
	for _, refusal := range []error{unix.EIO, unix.EREMOTEIO, unix.EOPNOTSUPP, unix.ENODEV} {
		path := file(t, size)
		if err := os.WriteFile(path, bytes.Repeat([]byte{0xaa}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		d.fallocate = func(int, uint32, int64, int64) error { asked++; return refusal }
		if err := errors.Join(d.Zero(1<<20, 2<<20), d.Flush(), d.Verify()); err != nil || asked != 2 {
			t.Errorf("%v: asked %d times, %v", refusal, asked, err)
		}
		got := make([]byte, size)
		if _, err := d.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[1<<20:3<<20], make([]byte, 2<<20)) || got[0] != 0xaa || got[size-1] != 0xaa {
			t.Errorf("%v: the range is not zero, or more is", refusal)
		}
		d.Close()
	}
}
