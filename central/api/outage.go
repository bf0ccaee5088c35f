package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// outage is a time in which the database cannot be used. The log tells of its begin and of its end, with how many
// requests failed between them. It is safe for concurrent use.
type outage struct {
	now atomic.Bool // there is one

	mu     sync.Mutex
	since  time.Time
	failed int
	looked time.Time
}

// lookAgain is how often requests that went well have the database asked whether it is back, and lookFor how long.
const (
	lookAgain = time.Second
	lookFor   = time.Second
)

// isOutage reports whether an error of a request says that the database cannot be used, and not only that others use it.
func (s *Server) isOutage(err error) bool {
	return s.Store.Unavailable(err) && !errors.Is(err, store.ErrBusy)
}

// begun notes that a request failed for the database, and tells of the first.
func (o *outage) begun(log *slog.Logger, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed++; o.failed > 1 {
		return
	}
	o.since = time.Now()
	o.now.Store(true)
	log.Warn("the database cannot be used: requests that need it get 503; their number is logged when the database is back", "error", err)
}

// usable is called when a request went well: during an outage it looks whether the database is back, and tells so.
func (s *Server) usable(ctx context.Context) {
	o := &s.outage
	if !o.now.Load() {
		return
	}
	o.mu.Lock()
	early := time.Since(o.looked) < lookAgain
	if !early {
		o.looked = time.Now()
	}
	o.mu.Unlock()
	if early || s.Store.Refusal() != nil { // it can be read, and takes no writes
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookFor)
	defer cancel()
	if s.Store.Ping(ctx) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == 0 {
		return // another request has told
	}
	s.Log.Warn("the database can be used again", "away", time.Since(o.since).Round(time.Millisecond), "failed_requests", o.failed)
	o.failed = 0
	o.now.Store(false)
}
