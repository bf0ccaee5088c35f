package relay

import "sync"

// sent are the ids of works that this process has put on the bus, or may have, and whose entries
// are still in the outbox: when one of those is met again, and the key is empty, the site may
// have lost what was there. Safe for concurrent use.
type sent struct {
	mu    sync.Mutex
	works map[string]struct{}
}

func (s *sent) add(work string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.works == nil {
		s.works = map[string]struct{}{}
	}
	s.works[work] = struct{}{}
}

func (s *sent) has(work string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.works[work]
	return known
}

func (s *sent) remove(work string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.works, work)
}
