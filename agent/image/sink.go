package image

import (
	"bytes"
	"context"
)

const (
	// heldBack is how much of the image's start is written only at the end.
	heldBack = 1 << 20
	// grain is the unit in which zeros are looked for; a multiple of every sector size.
	grain = 64 << 10
	// gathered is how many zeros wait at most. So they are made while the rest of the image is read, and progress goes on.
	gathered = 64 << 20
	// zeroedAtOnce is how much one call zeroes at most, in bytes. Nothing ends such a call, and a slow disk takes seconds for it.
	zeroedAtOnce = 1 << 30
)

var zeroGrain [grain]byte

// sink writes a virtual disk from its start to its end: data as data, zeros as
// zeros, the first MiB at last. Not safe for concurrent use.
type sink struct {
	ctx    context.Context // its end is seen before the next zeros, and before the first MiB
	disk   Disk
	report Report
	total  int64 // 0: not known
	off    int64
	zeros  int64 // how many bytes before off are zeros not yet made
	head   []byte
	told   int64
}

// write takes the next bytes. All calls but the last are multiples of grain.
func (s *sink) write(p []byte) error {
	if s.off+int64(len(p)) > s.disk.Size() {
		return &TooSmallError{Disk: s.disk.Name(), DiskBytes: s.disk.Size(), ImgBytes: max(s.total, s.disk.Size()), AtLeast: s.total <= s.disk.Size()}
	}
	if room := heldBack - len(s.head); room > 0 && s.off < heldBack {
		n := min(room, len(p))
		s.head = append(s.head, p[:n]...)
		s.off += int64(n)
		p = p[n:]
	}
	for len(p) > 0 {
		// As long a run of one kind as there is, so that writes stay large.
		n := min(grain, len(p))
		zero := bytes.Equal(p[:n], zeroGrain[:n])
		for n < len(p) {
			k := min(grain, len(p)-n)
			if bytes.Equal(p[n:n+k], zeroGrain[:k]) != zero {
				break
			}
			n += k
		}
		if zero {
			s.zeros += int64(n)
		} else {
			if err := s.makeZeros(); err != nil {
				return err
			}
			if _, err := s.disk.WriteAt(p[:n], s.off); err != nil {
				return err
			}
		}
		s.off += int64(n)
		p = p[n:]
	}
	return s.wrote()
}

// skip takes n zero bytes, n a multiple of grain or the rest of the image.
func (s *sink) skip(n int64) error {
	if s.off+n > s.disk.Size() {
		return s.write(zeroGrain[:]) // for its error; cannot happen after the size check
	}
	if room := int64(heldBack) - s.off; room > 0 {
		k := min(room, n)
		s.head = append(s.head, make([]byte, k)...)
		s.off, n = s.off+k, n-k
	}
	s.zeros += n
	s.off += n
	return s.wrote()
}

// wrote tells of the progress, and makes the zeros that have gathered.
func (s *sink) wrote() error {
	if s.zeros >= gathered {
		return s.makeZeros()
	}
	s.tell(mostUntold)
	return nil
}

// makeZeros makes those before off, up to the next multiple of zeroedAtOnce in each call.
func (s *sink) makeZeros() error {
	for s.zeros > 0 {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		from := s.off - s.zeros
		n := min(s.zeros, zeroedAtOnce-from%zeroedAtOnce)
		if err := s.disk.Zero(from, n); err != nil {
			return err
		}
		s.zeros -= n
		s.tell(mostUntold)
	}
	return nil
}

// finish flushes everything, writes the held back start and flushes that.
func (s *sink) finish() error {
	if err := s.makeZeros(); err != nil {
		return err
	}
	if err := s.disk.Flush(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx) // what was given up must not boot
	}
	if len(s.head) > 0 {
		if _, err := s.disk.WriteAt(s.head, 0); err != nil {
			return err
		}
	}
	if err := s.disk.Flush(); err != nil {
		return err
	}
	s.total = s.off
	s.tell(0)
	return nil
}

// mostUntold is the progress between two reports, in bytes.
const mostUntold = 8 << 20

// tell reports what is done once it is so many bytes more than was told. Zeros count when they are made.
func (s *sink) tell(every int64) {
	if done := s.off - s.zeros; done-s.told >= every {
		s.told = done
		s.report(done, s.total)
	}
}
