package diskimage

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// A VMDK file may end within its last grain as well. Whole ones are taken, also where the disk ends within a grain.
func TestAVMDKFileThatEndsWithinAGrain(t *testing.T) {
	r := newRack(t)
	for _, size := range []int{2 << 20, 1<<20 + 512} {
		raw := make([]byte, size)
		rand.NewChaCha8([32]byte{5}).Read(raw)
		for _, options := range [][]string{{}, {"-o", "zeroed_grain=on"}, {"-o", "subformat=streamOptimized"}} {
			whole := foreign(t, "vmdk", raw, options...)
			if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", whole), "", ""); err != nil {
				t.Errorf("%d bytes, %v: a whole file: %v", size, options, err)
			}
		}
	}
	raw := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{6}).Read(raw)
	whole := foreign(t, "vmdk", raw)
	for _, lack := range []int{512, 32 << 10} {
		if _, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", whole[:len(whole)-lack]), "", ""); !errors.Is(err, ErrRefused) {
			t.Errorf("a file that lacks %d bytes: %v", lack, err)
		}
	}
}
