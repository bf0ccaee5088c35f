package image

import (
	"context"
	"errors"
	"testing"

	"github.com/lima-vm/go-qcow2reader/image"
)

// hole is an image that has data in its first MiB alone.
type hole struct{ image.Image }

func (hole) Extent(start, length int64) (image.Extent, error) {
	if start < 1<<20 {
		return image.Extent{Start: start, Length: 1<<20 - start, Allocated: true}, nil
	}
	return image.Extent{Start: start, Length: length, Zero: true}, nil
}

func (hole) ReadAt(p []byte, _ int64) (int, error) {
	p[0] = 1
	return len(p), nil
}

// largeDisk notes what it is told, and keeps nothing.
type largeDisk struct {
	size   int64
	zeroed []int64 // by each call
	zeros  int64
	booted bool // its first MiB was written
	zero   func()
}

func (d *largeDisk) Name() string    { return "large" }
func (d *largeDisk) Size() int64     { return d.size }
func (d *largeDisk) WipeEnds() error { return nil }
func (d *largeDisk) Flush() error    { return nil }

func (d *largeDisk) WriteAt(p []byte, off int64) (int, error) {
	d.booted = d.booted || off == 0
	return len(p), nil
}

func (d *largeDisk) Zero(_, n int64) error {
	d.zeroed, d.zeros = append(d.zeroed, n), d.zeros+n
	d.zero()
	return nil
}

// Zeros are made piece by piece. The progress counts those that are made.
func TestAHoleIsMadeInPieces(t *testing.T) {
	const size = 40<<30 + 512
	d := &largeDisk{size: size, zero: func() {}}
	var last int64
	a := &attempt{disk: d, report: func(done, _ int64) {
		if made := d.zeros + heldBack; done > made {
			t.Fatalf("%d bytes are told as done when %d are made", done, made)
		}
		last = done
	}}
	if err := a.convert(t.Context(), kept{}, hole{}, size, 64<<10); err != nil {
		t.Fatal(err)
	}
	for i, n := range d.zeroed {
		if n > 1<<30 || n%grain != 0 && i < len(d.zeroed)-1 {
			t.Errorf("call %d makes %d zeros", i, n)
		}
	}
	if d.zeros != size-heldBack || last != size || !d.booted {
		t.Errorf("%d of %d bytes are zeroed, %d told of; the first MiB was written: %v", d.zeros, size-heldBack, last, d.booted)
	}
}

// An abort ends a write that makes zeros, whichever of them: those before data, or the image's last.
func TestAnAbortWhileZerosAreMade(t *testing.T) {
	const size = 8 << 30
	stop := errors.New("operator said stop")
	for name, from := range map[string]int64{"the first": 0, "the last": size - 2<<20} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		d := &largeDisk{size: size}
		after := int64(0)
		d.zero = func() {
			if d.zeros >= from {
				after++
				cancel(stop)
			}
		}
		a := &attempt{disk: d, report: func(int64, int64) {}}
		if err := a.convert(ctx, kept{}, hole{}, size, 64<<10); !errors.Is(err, stop) {
			t.Errorf("%s: error %v", name, err)
		}
		if after != 1 || d.booted {
			t.Errorf("%s: %d more calls after the abort; the first MiB was written: %v", name, after-1, d.booted)
		}
	}
}
