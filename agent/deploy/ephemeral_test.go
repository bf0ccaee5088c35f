package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// withMkfs is a file system with this machine's mkfs.ext4 and all that it loads.
func withMkfs(t *testing.T) []byte {
	t.Helper()
	program, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Fatal(err)
	}
	needs, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{program: "/usr/sbin/mkfs.ext4", "/etc/mke2fs.conf": "/etc/mke2fs.conf"}
	for _, word := range strings.Fields(string(needs)) {
		if filepath.IsAbs(word) {
			files[word] = word
		}
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "image")
	for from, to := range files {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", dir, path, "24M").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The image's mkfs makes the ephemeral partition. After that the table says so, and the next deploy keeps it. The disk is a file: loop
// devices show its partitions, since not every kernel shows those of a loop device.
func TestTheImagesMkfsMakesTheEphemeralPartition(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a loop device and a mount want root")
	}
	img := withMkfs(t)
	parts := agentapi.Partitions{RootMB: 32, EphemeralMB: 16, EphemeralFormat: "ext4"}
	d, params, path := forPartition(t, img, 96, false, parts)
	l, err := plan(diskOf(t, path), &parts, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/dev", "ironyard-test-") // the image's programs see no devices but those of /dev
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "disk")
	if err := os.Symlink(path, name); err != nil {
		t.Fatal(err)
	}
	d.Machine = both{{Name: name, Size: 96 << 20}}
	for _, p := range l.places {
		out, err := exec.Command("losetup", "--find", "--show", "--offset", fmt.Sprint(p.Start), "--sizelimit", fmt.Sprint(p.Size), path).Output()
		if err != nil {
			t.Skipf("not run: no loop device: %v", err)
		}
		device := strings.TrimSpace(string(out))
		t.Cleanup(func() {
			if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		var is unix.Stat_t
		if err := unix.Stat(device, &is); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(deviceOf(name, p.Number), unix.S_IFBLK|0o600, int(is.Rdev)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
		t.Fatal(err)
	}
	at := l.places[forEphemeral]
	if kind := blkid(path, at.Start, at.Size); kind != "ext4" {
		t.Errorf("blkid says that the ephemeral partition is %q", kind)
	}
	dump, err := exec.Command("sfdisk", "--dump", path).Output()
	if err != nil || strings.Count(string(dump), "type=83") != 2 {
		t.Errorf("sfdisk says %v:\n%s", err, dump)
	}
	kept := digest(t, path, at.Start, at.Size)
	parts.PreserveEphemeral = true
	params.ImageInfo.Partitions = &parts
	if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
		t.Fatal(err)
	}
	if digest(t, path, at.Start, at.Size) != kept {
		t.Error("the ephemeral partition was written to")
	}
}
