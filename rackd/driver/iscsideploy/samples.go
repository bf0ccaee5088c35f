package iscsideploy

import (
	"hash/maphash"
	"math/rand/v2"
)

const (
	// sampleSize is how much of a window is read back, in bytes; window and most samples are those of docs/disks.md.
	sampleSize  = 64 << 10
	leastWindow = 16 << 20
	maxSamples  = 16 << 10
)

// samples remembers, for each window of a disk, what one piece of it must read as. Which piece is left to chance. Pieces come in
// their order.
type samples struct {
	seed   maphash.Seed
	window int64
	kept   []sample
}

type sample struct {
	off, n int64
	sum    uint64
	seen   int // pieces of the window
}

func newSamples(disk int64) samples {
	return samples{seed: maphash.MakeSeed(), window: max(leastWindow, (disk/maxSamples+sampleSize)/sampleSize*sampleSize)}
}

// note takes in n bytes at off: p, or zeros where p is nil.
func (s *samples) note(p []byte, off, n int64) {
	for at := off; at < off+n; at += sampleSize {
		size := min(sampleSize, off+n-at)
		w := int(at / s.window)
		if len(s.kept) <= w {
			s.kept = append(s.kept, make([]sample, w+1-len(s.kept))...)
		}
		k := &s.kept[w]
		if k.seen++; rand.IntN(k.seen) != 0 {
			continue
		}
		piece := zeros[:size]
		if p != nil {
			piece = p[at-off:][:size]
		}
		k.off, k.n, k.sum = at, size, maphash.Bytes(s.seed, piece)
	}
}

// fits reports whether a piece that was read back is the one that was written.
func (s *samples) fits(k sample, got []byte) bool { return maphash.Bytes(s.seed, got[:k.n]) == k.sum }
