package api

const (
	// smallBody is not worth keeping, and largeBody, what a page of large nodes takes,
	// is not kept for answers that are smaller as a rule.
	smallBody = 32 << 10
	largeBody = 8 << 20
)

// buffer returns an empty one for a long answer's body.
func (s *Server) buffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, smallBody)
}

// reuse keeps the body of an answer that has been written.
func (s *Server) reuse(b []byte) {
	if cap(b) > smallBody && cap(b) <= largeBody {
		s.buffers.Put(&b)
	}
}
