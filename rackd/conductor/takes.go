package conductor

import (
	"time"
)

// takes are how often this rackd has taken one piece of work, and when it did last.
type takes struct {
	work string
	n    int
	last time.Time
}

// The pause before a rackd takes the same work once more, counted from the last time: none
// before the second time, since a lease may end and come back; then takePause, twice as
// long each time, up to takePauseMax. Two rackds that each take the other for dead would
// otherwise begin a step thousands of times a second.
const (
	freeTakes    = 2
	takePause    = time.Second
	takePauseMax = time.Minute
)

// pauseBefore returns how long to wait before a node's work is taken; 0: it is taken now,
// and that counts.
func (c *Conductor) pauseBefore(node, id string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.takes[node]
	if t.work != id {
		t = takes{work: id}
	}
	if t.n >= freeTakes {
		pause := min(takePause<<min(t.n-freeTakes, 10), takePauseMax)
		if left := pause - time.Since(t.last); left > 0 {
			return left
		}
	}
	t.n++
	t.last = time.Now()
	c.takes[node] = t
	return 0
}
