package api

import (
	"net/http"
	"sync/atomic"

	"github.com/ironyard/ironyard/central/api/wire"
)

// DefaultMaxRequests is how many requests are worked on at once unless the configuration
// says otherwise. A request that waits for the database holds its body in memory; beyond
// this many it is better for clients to come back than to wait.
const DefaultMaxRequests = 1000

// retryAfter is when, in seconds, a client that was turned away may come back.
const retryAfter = "1"

// inWork counts the requests that are worked on, up to a bound. It is safe for concurrent use.
type inWork struct {
	now atomic.Int64
	max int64 // 0: no bound
}

func newInWork(limit int) *inWork {
	switch {
	case limit == 0:
		return &inWork{max: DefaultMaxRequests}
	case limit < 0:
		return &inWork{}
	}
	return &inWork{max: int64(limit)}
}

// enter reports whether one more may be worked on; if so, leave follows.
func (w *inWork) enter() bool {
	if now := w.now.Add(1); w.max > 0 && now > w.max {
		w.now.Add(-1)
		return false
	}
	return true
}

func (w *inWork) leave() { w.now.Add(-1) }

// half bounds to half as many.
func (w *inWork) half() *inWork { return &inWork{max: (w.max + 1) / 2} }

// tooMany is the refusal of a request beyond a bound.
func tooMany(r *Request, w *inWork, what string) error {
	r.writer.Header().Set("Retry-After", retryAfter)
	return wire.Errorf(http.StatusServiceUnavailable, "This server is working on %d %s at this moment and may not take more "+
		"(--max-requests). Nothing was changed; please retry.", w.max, what)
}
