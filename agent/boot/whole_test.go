package boot

import (
	"errors"
	"strings"
	"testing"
)

// A ramdisk that came damaged does nothing: the kernel starts what it could unpack of it.
func TestADamagedRamdiskIsNotRun(t *testing.T) {
	const good = "<6>[    1.2] Trying to unpack rootfs image as initramfs...\n<6>[    1.7] Freeing initrd memory: 6552K\n"
	if err := wholeBy([]byte(good)); err != nil {
		t.Error(err)
	}
	err := wholeBy([]byte(strings.Replace(good, "<6>[    1.7]", "<5>[    1.7] Initramfs unpacking failed: ZSTD-compressed data is corrupt\n<6>[    1.7]", 1)))
	if !errors.Is(err, errNotWhole) || !strings.HasSuffix(err.Error(), "ZSTD-compressed data is corrupt)") {
		t.Error(err)
	}
}
