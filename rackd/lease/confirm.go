package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Renewals for callers of Confirm follow each other after confirmPause, once there were confirmsAtOnce: whatever
// writes at once shares one, and a single flow waits for its round trips only. After one that failed the pause is
// retryPause.
const (
	confirmPause   = 20 * time.Millisecond
	confirmsAtOnce = 20
	retryPause     = 200 * time.Millisecond
)

// errEnds is what waits for a renewal is told when Run ends.
var errEnds = fmt.Errorf("%w: this rackd gives it up", ErrNotHeld)

// round is a renewal that callers of Confirm wait for.
type round struct {
	over chan struct{}
	err  error // once over is closed
}

// Confirm returns nil when the bus has renewed the lease, by a renewal that began after the call:
// until the bus stored it no other rackd can have seen the lease end. Check believes this machine's
// clocks, which stand still while a hypervisor stops the machine; Confirm does not.
//
// Callers that come at the same time share a renewal. While the bus is silent Confirm waits until Check
// fails, for LeaseTTL at most after the last renewal. Its error wraps ErrNotHeld.
func (l *Lease) Confirm() error {
	id := l.ID()
	for {
		if err := l.Check(); err != nil {
			return err
		}
		r := l.join()
		limit := time.NewTimer(bus.LeaseTTL - bus.LeaseMargin - l.Age() + time.Millisecond)
		select {
		case <-r.over:
			limit.Stop()
		case <-limit.C:
			continue // Check fails, unless a renewal that had begun before came through
		}
		switch {
		case errors.Is(r.err, ErrNotHeld):
			return r.err
		case r.err != nil: // the next one may reach the bus
		case l.ID() != id:
			return fmt.Errorf("%w: it had ended, and another one has begun", ErrNotHeld)
		default:
			return l.Check()
		}
	}
}

// join returns the next renewal to begin, and asks for it.
func (l *Lease) join() *round {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &round{over: make(chan struct{})}
	}
	select {
	case l.wanted <- struct{}{}:
	default:
	}
	return l.next
}

// begin takes the round off whose renewal begins now; nil if no caller waits.
func (l *Lease) begin() *round {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.next
	l.next = nil
	return r
}

// end tells those who joined what came of it.
func (r *round) end(err error) {
	if r != nil {
		r.err = err
		close(r.over)
	}
}

// awaited reports whether callers wait for a renewal to begin.
func (l *Lease) awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}
