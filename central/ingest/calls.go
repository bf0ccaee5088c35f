package ingest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/ironyard/ironyard/central/inspection"
)

// maxCallers bounds the calls that are made at the same time.
const maxCallers = 8

// calls makes the requests that inspection rules ask for, beside the events: a server
// that does not answer must not hold these up. A call is made at most once: who dies
// between the commit and the call does not make it.
type calls struct {
	mu    sync.Mutex
	queue chan inspection.Call // nil while nobody follows
	users int
	end   func()
}

// open starts the callers, for the first who needs them, until the last has called the
// function that it returns.
func (c *calls) open(ctx context.Context, log *slog.Logger) (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users == 1 {
		queue := make(chan inspection.Call, 256)
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		var callers sync.WaitGroup
		for range maxCallers {
			callers.Go(func() {
				for call := range queue {
					if err := call.Make(ctx, http.DefaultClient); err != nil {
						log.Warn("a call of an inspection rule failed", "error", err)
					}
				}
			})
		}
		c.queue = queue
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

// make hands requests to the callers; what does not fit is dropped.
func (c *calls) make(list []inspection.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range list {
		select {
		case c.queue <- call:
		default:
		}
	}
}
