package deploy

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/image"
)

// loopDevice is a block device on a file, until the test ends. options are losetup's.
func loopDevice(t *testing.T, file string, options ...string) string {
	t.Helper()
	out, err := exec.Command("losetup", append(options, "--find", "--show", file)...).CombinedOutput()
	if err != nil {
		t.Fatalf("no loop device: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device
}

// An MBR counts in sectors, and says not of which size. An image that was made for sectors of 512 bytes has no partition where a disk of
// 4 KiB sectors looks for it: the deploy fails, as that of an image with a GPT does. In a large image the partition may begin within
// the image also as the disk counts. Its end lies behind the image then.
func TestAnImageWithAnMBROnADiskOfLargerSectors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a loop device wants root")
	}
	t.Parallel()
	for name, img := range map[string][]byte{
		"small": partitioned(t, "label: dos\nstart=2048, size=4MiB, type=83, bootable\n"),
		"large": append(partitioned(t, "label: dos\nstart=2048, size=6MiB, type=83, bootable\n"), make([]byte, 4<<20)...),
	} {
		d, p, path := fixture(t, img)
		const big = 512 << 20
		if err := os.Truncate(path, big); err != nil {
			t.Fatal(err)
		}
		d.Machine = both{{Name: loopDevice(t, path, "--sector-size", "4096"), Size: big}}
		got, err := d.Prepare(t.Context(), p, ignore)
		if _, is := errors.AsType[*image.FormatError](err); !is {
			t.Errorf("%s: the deploy ends well: %+v, %v", name, got, err)
		}
	}
}
