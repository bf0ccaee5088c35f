package deploy

import (
	"errors"
	"os"
	"testing"

	"github.com/ironyard/ironyard/agent/image"
)

// The first partition of an MBR that was made for sectors of 512 bytes may begin within the image also as larger sectors
// count. Its end lies behind the image then.
func TestALargeImageWithAnMBROnADiskOfLargerSectors(t *testing.T) {
	img := append(partitioned(t, "label: dos\nstart=2048, size=6MiB, type=83, bootable\n"), make([]byte, 4<<20)...)
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
		t.Errorf("the deploy ends well: %+v, %v", got, err)
	}
}
