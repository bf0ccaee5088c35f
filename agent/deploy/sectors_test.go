package deploy

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/image"
)

// loop4K is a block device with sectors of 4 KiB on a file; empty where there is none to be had.
func loop4K(t *testing.T, file string) string {
	t.Helper()
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return ""
	}
	defer ctl.Close()
	n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return ""
	}
	path := filepath.Join("/dev", "loop"+strconv.Itoa(n))
	dev, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return ""
	}
	back, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(back.Fd())); err != nil {
		dev.Close()
		return ""
	}
	t.Cleanup(func() {
		_ = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
		dev.Close()
	})
	if err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_BLOCK_SIZE, 4096); err != nil {
		t.Skipf("not run: a loop device with sectors of 4 KiB: %v", err)
	}
	return path
}

// An MBR counts in sectors, and says not of which size. An image that was made for sectors of 512 bytes has no partition where a disk of
// 4 KiB sectors looks for it: the deploy fails, as that of an image with a GPT does. In a large image the partition may begin within
// the image also as the disk counts. Its end lies behind the image then.
func TestAnImageWithAnMBROnADiskOfLargerSectors(t *testing.T) {
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
		dev := loop4K(t, path)
		if dev == "" {
			t.Skip("not run: a loop device wants root")
		}
		d.Machine = both{{Name: dev, Size: big}}
		got, err := d.Prepare(t.Context(), p, ignore)
		if _, is := errors.AsType[*image.FormatError](err); !is {
			t.Errorf("%s: the deploy ends well: %+v, %v", name, got, err)
		}
	}
}
