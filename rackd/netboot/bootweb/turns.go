package bootweb

import (
	"context"
	"sync"
	"time"
)

const (
	// making is how many kickstarts are made at once. One with a config drive takes some hundred megabytes meanwhile.
	making = 3
	// makeWithin bounds the making of one: the config drive may be at a server of the instance's user, who keeps others waiting by it.
	makeWithin = 20 * time.Second
	// turnWithin is how long an installer waits for its turn.
	turnWithin = time.Minute
)

// turns give each node one kickstart at a time, and all together some that are being made: who runs an installer may ask as often as they
// like. Safe for concurrent use.
type turns struct {
	slots chan struct{}

	mu    sync.Mutex
	nodes map[string]*line
}

// line is of those who ask for a node's kickstart.
type line struct {
	turn chan struct{} // holds one while it is the turn of one of them
	in   int           // who wait, and whose turn it is; under turns.mu
}

func newTurns() *turns { return &turns{slots: make(chan struct{}, making), nodes: map[string]*line{}} }

// take waits for a node's turn and for a place to make its kickstart. made gives the place back, done both; each may be called again.
func (t *turns) take(ctx context.Context, node string) (made, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnWithin)
	defer cancel()
	t.mu.Lock()
	l := t.nodes[node]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.nodes[node] = l
	}
	l.in++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.in--; l.in == 0 {
			delete(t.nodes, node)
		}
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
	end := sync.OnceFunc(func() { <-l.turn; leave() })
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		end()
		return nil, nil, ctx.Err()
	}
	made = sync.OnceFunc(func() { <-t.slots })
	return made, func() { made(); end() }, nil
}
