package strangers

import (
	"context"
	"net/netip"
	"sync"
)

// share is an amount that addresses take parts of.
type share struct {
	max, each int64

	mu    sync.Mutex
	taken int64
	by    map[netip.Prefix]int64
	given chan struct{} // closed when a part is given back; nil while no caller waits for that
}

func newShare(max, each int64) *share {
	return &share{max: max, each: each, by: map[netip.Prefix]int64{}}
}

// take takes n for an address, unless that leaves less to others than the address has.
func (s *share) take(by netip.Prefix, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taking(by, n)
}

// has reports whether take would take it now.
func (s *share) has(by netip.Prefix, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fits(by, n)
}

func (s *share) fits(by netip.Prefix, n int64) bool { return s.by[by]+n <= min(s.each, s.max-s.taken) }

func (s *share) taking(by netip.Prefix, n int64) bool {
	if !s.fits(by, n) {
		return false
	}
	s.taken += n
	s.by[by] += n
	return true
}

// await takes n as soon as it is there; false: it was not before ctx ended.
func (s *share) await(ctx context.Context, by netip.Prefix, n int64) bool {
	if n > s.each || n > s.max {
		return false
	}
	for {
		s.mu.Lock()
		if s.taking(by, n) {
			s.mu.Unlock()
			return true
		}
		if s.given == nil {
			s.given = make(chan struct{})
		}
		given := s.given
		s.mu.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *share) give(by netip.Prefix, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	if s.by[by] -= n; s.by[by] <= 0 {
		delete(s.by, by)
	}
	if s.given != nil {
		close(s.given)
		s.given = nil
	}
}

// now is how much is taken.
func (s *share) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
