package image

import "hash"

const (
	// summedAtOnce is how much is summed at once, in bytes.
	summedAtOnce = 256 << 10
	// summingBuffers of that size wait to be summed at most.
	summingBuffers = 4
)

// summing computes a checksum beside the goroutine that reads, which goes on to read. A processor sums about as fast as it reads from the
// network. Its methods are for one goroutine at a time.
type summing struct {
	hash       hash.Hash
	next       []byte // what has been written and not been given to the other goroutine
	free, full chan []byte
	ended      chan struct{}
	over       bool
}

// sumAside begins to sum. Its goroutine ends with close.
func sumAside(h hash.Hash) *summing {
	s := &summing{hash: h, free: make(chan []byte, summingBuffers), full: make(chan []byte, summingBuffers), ended: make(chan struct{})}
	for range summingBuffers {
		s.free <- make([]byte, 0, summedAtOnce)
	}
	go func() {
		defer close(s.ended)
		for b := range s.full {
			s.hash.Write(b)
			s.free <- b[:0]
		}
	}()
	return s
}

// Write takes the next bytes. It never fails.
func (s *summing) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if s.next == nil {
			s.next = <-s.free
		}
		n := min(len(rest), cap(s.next)-len(s.next))
		s.next, rest = append(s.next, rest[:n]...), rest[n:]
		if len(s.next) == cap(s.next) {
			s.full <- s.next
			s.next = nil
		}
	}
	return len(p), nil
}

// close waits until all that was written is summed. Nothing may be written afterwards; it may be called again.
func (s *summing) close() hash.Hash {
	if !s.over {
		s.over = true
		if s.next != nil {
			s.full <- s.next
		}
		close(s.full)
	}
	<-s.ended
	return s.hash
}
