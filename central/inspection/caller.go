package inspection

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxCallers bounds the calls that are made at the same time.
const maxCallers = 8

// Caller makes the requests that rules ask for, beside whatever has processed them: a server
// that does not answer must not hold that up. A call is made at most once: who dies
// between the commit and the call does not make it. It is safe for concurrent use; its zero
// value makes no calls until Open.
type Caller struct {
	mu    sync.Mutex
	queue chan Call // nil while nobody has it open
	users int
	end   func()

	log     *slog.Logger
	dropped int       // calls, that were not told of
	told    time.Time // when some were
}

// Open starts the callers, for the first who needs them, until the last has called the
// function that it returns.
func (c *Caller) Open(ctx context.Context, log *slog.Logger) (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users == 1 {
		queue, client := make(chan Call, 256), Client()
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		var callers sync.WaitGroup
		for range maxCallers {
			callers.Go(func() {
				for call := range queue {
					if err := call.Make(ctx, client); err != nil {
						log.Warn("a call of an inspection rule failed", "error", err)
					}
				}
			})
		}
		c.queue, c.log = queue, log
		c.end = func() { cancel(); close(queue); callers.Wait() }
	}
	return func() {
		c.mu.Lock()
		c.users--
		end := c.end
		if c.users > 0 {
			end = func() {}
		} else {
			c.queue, c.end = nil, nil
		}
		c.mu.Unlock()
		end()
	}
}

// dropsTold is how often the log tells of calls that were dropped.
const dropsTold = time.Minute

// Make hands requests to the callers. What does not fit is dropped and told of: no event waits for servers that
// rules name.
func (c *Caller) Make(list []Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range list {
		select {
		case c.queue <- call:
		default:
			c.dropped++
		}
	}
	if c.dropped > 0 && c.log != nil && time.Since(c.told) >= dropsTold {
		c.log.Warn("calls of inspection rules were dropped: the servers that they go to are slower than inspections come. Correct the rules, or inspect those nodes again",
			"dropped", c.dropped, "waiting", len(c.queue))
		c.dropped, c.told = 0, time.Now()
	}
}
