package image

import (
	"testing"

	"github.com/lima-vm/go-qcow2reader/image"
)

// full is an image without zeros. It counts how far its table was looked through.
type full struct {
	image.Image
	looked int64
}

func (f *full) Extent(start, length int64) (image.Extent, error) {
	f.looked += length
	return image.Extent{Start: start, Length: length, Allocated: true}, nil
}

func (f *full) ReadAt(p []byte, _ int64) (int, error) {
	p[0] = 1
	return len(p), nil
}

// The table is looked through once, and not once more for each piece of the image.
func TestTheTableIsLookedThroughOnce(t *testing.T) {
	d, _ := staleDisk(t, diskSize)
	f := &full{}
	a := &attempt{disk: d, report: func(int64, int64) {}}
	if err := a.convert(t.Context(), kept{}, f, diskSize, 64<<10); err != nil {
		t.Fatal(err)
	}
	if f.looked > 2*diskSize {
		t.Errorf("for an image of %d MiB the table was looked through for %d MiB", diskSize>>20, f.looked>>20)
	}
}
