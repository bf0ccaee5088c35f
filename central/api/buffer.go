package api

// Answers about nodes are written into buffers that are used again: as many as are asked
// for at once. Long ones are each as long as the longest answer that they have held.
const (
	// oneNode is room for most single nodes. What is longer than smallBody is a long
	// answer; more than largeBody is not kept, since few answers are as long.
	oneNode   = 4 << 10
	smallBody = 32 << 10
	largeBody = 8 << 20
)

// buffer returns an empty one for a long answer's body, which ends in lent.
func (s *Server) buffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, max(smallBody+1, s.longest.Load()))
}

// smallBuffer is buffer for a short answer.
func (s *Server) smallBuffer() []byte {
	if b, ok := s.smallBuffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, oneNode)
}

// pieceSize is how much of a page is written at once.
const pieceSize = 64 << 10

// piece returns an empty buffer for the pieces of a page.
func (s *Server) piece() []byte {
	if b, ok := s.pieces.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, pieceSize)
}

// lent is ok for a body in a buffer that is used again once it has been written.
func lent(body []byte) (Reply, error) {
	r, err := ok(body)
	r.lent = true
	return r, err
}

// reuse keeps the buffer of an answer that has been written.
func (s *Server) reuse(b []byte) {
	switch {
	case cap(b) > largeBody:
	case cap(b) > smallBody:
		if size := int64(len(b)); size > s.longest.Load() {
			s.longest.Store(size + size/8) // a hint: it does not matter who wins
		}
		s.buffers.Put(&b)
	default:
		s.smallBuffers.Put(&b)
	}
}
