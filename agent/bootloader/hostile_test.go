package bootloader

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/disk"
)

// An agent dies while the image's GRUB runs. The agent that is started after it can open the disk again.
func TestWhatACrashedAgentHasMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a loop device and a mount want root")
	}
	t.Setenv("TMPDIR", t.TempDir())
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Fatalf("no loop device: %v", err)
	}
	device := strings.TrimSpace(string(out))
	dir, err := os.MkdirTemp("", folder)
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "boot")
	t.Cleanup(func() {
		_ = unix.Unmount(inside, unix.MNT_DETACH) // both are gone where the test passes
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		if err := exec.Command("losetup", "--detach", device).Run(); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount(device, dir, "ext4", 0, ""); err != nil {
		t.Fatalf("this machine mounts no ext4: %v", err)
	}
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", inside, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if d, err := disk.Open(device); err == nil {
		d.Close()
		t.Fatal("a disk that is mounted can be opened")
	}
	if err := Release(); err != nil {
		t.Error(err)
	}
	d, err := disk.Open(device)
	if err != nil {
		t.Fatalf("after an agent has died: %v", err)
	}
	d.Close()
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), folder+"*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := Release(); err != nil {
		t.Errorf("without any: %v", err)
	}
}
