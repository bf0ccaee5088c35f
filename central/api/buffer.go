package api

// Long answers are written into buffers that are used again: as many as are asked for
// at once, each as long as the longest answer that it has held.
const (
	// smallBody is not worth keeping; more than largeBody is not kept, since few
	// answers are as long.
	smallBody = 32 << 10
	largeBody = 8 << 20
)

// buffer returns an empty one for a long answer's body.
func (s *Server) buffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, max(smallBody, s.longest.Load()))
}

// reuse keeps the body of an answer that has been written.
func (s *Server) reuse(b []byte) {
	if cap(b) <= smallBody || cap(b) > largeBody {
		return
	}
	if size := int64(len(b)); size > s.longest.Load() {
		s.longest.Store(size + size/8) // a hint: it does not matter who wins
	}
	s.buffers.Put(&b)
}
