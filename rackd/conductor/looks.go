package conductor

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
)

// The pace at which boot scripts have the bus read. Strangers ask for scripts too. A rack whose power comes back is
// served within seconds.
const (
	looksAtOnce    = 100
	looksPerSecond = 500
)

// looks paces reads of the bus that boot scripts need. Requests for one node share a read that has not begun.
// Safe for concurrent use.
type looks struct {
	pace *rate.Limiter
	mu   sync.Mutex
	next map[string]*look // by node: reads that have not begun
}

type look struct {
	done chan struct{}
	err  error // before done is closed
}

func newLooks() *looks {
	return &looks{pace: rate.NewLimiter(looksPerSecond, looksAtOnce), next: map[string]*look{}}
}

// at returns what a read of the node has come to that began after the call, or an error when ctx ends before.
func (l *looks) at(ctx context.Context, node string, read func(context.Context) error) error {
	l.mu.Lock()
	next := l.next[node]
	if next != nil {
		l.mu.Unlock()
		select {
		case <-next.done:
			return next.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	next = &look{done: make(chan struct{})}
	l.next[node] = next
	l.mu.Unlock()
	defer close(next.done)
	err := l.pace.Wait(ctx)
	l.mu.Lock()
	delete(l.next, node)
	l.mu.Unlock()
	if err != nil {
		next.err = fmt.Errorf("too many machines ask this rackd what to boot: %w", err)
	} else {
		next.err = read(ctx)
	}
	return next.err
}
