package api

import (
	"net/http"
	"sync"

	"github.com/ironyard/ironyard/central/api/wire"
)

// DefaultBodyBytes is the memory that the bodies of callers who are known may take at once, in bytes: all bodies above
// wire.Small, with what is made of them. A caller may have half of what others leave: the longest config drive needs that.
const DefaultBodyBytes = 2 * driveCopies * wire.MaxProvisionBody

// driveCopies is how often a config drive is in memory at once: the body, its text, that sealed for the database and for the
// rack, and on their ways there.
const driveCopies = 6

// bodyRoom counts what the bodies of callers who are known take. It is safe for concurrent use.
type bodyRoom struct {
	max int64

	mu    sync.Mutex
	taken int64
	by    map[string]int64 // caller
}

func newBodyRoom(max int64) *bodyRoom { return &bodyRoom{max: max, by: map[string]int64{}} }

// take takes n for a caller, unless that leaves less to others than the caller has.
func (b *bodyRoom) take(caller string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[caller]+n > b.max-b.taken {
		return false
	}
	b.taken += n
	b.by[caller] += n
	return true
}

func (b *bodyRoom) give(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	if b.by[caller] -= n; b.by[caller] <= 0 {
		delete(b.by, caller)
	}
}

// holds takes room for the request's body, until release.
func (r *Request) holds(bytes int64) error {
	if bytes > r.bodies.max/2 || r.held+bytes > r.bodies.max/2 { // there will never be room for it
		return &wire.Error{Status: http.StatusRequestEntityTooLarge, Shape: wire.Bare, Text: "The request's body takes too much memory: it is too long, or has too many values."}
	}
	if !r.bodies.take(r.payer(), bytes) {
		r.writer.Header().Set("Retry-After", retryAfter)
		return wire.Errorf(http.StatusServiceUnavailable, "This server holds as many large requests at this moment as it may, in all or of this caller. Nothing was changed; please retry.")
	}
	r.held += bytes
	return nil
}

// release gives back what the request's body took.
func (r *Request) release() {
	if r.held > 0 {
		r.bodies.give(r.payer(), r.held)
		r.held = 0
	}
}

// payer is whose part of the room the request uses: its caller's project, or the caller where there is none.
func (r *Request) payer() string {
	if r.Caller.Project != "" {
		return "project " + r.Caller.Project
	}
	return r.Caller.Name()
}
