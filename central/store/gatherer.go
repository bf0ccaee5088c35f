package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// gatherer reads something of single nodes for concurrent callers together: those who
// ask while a statement runs are answered by the next. So each sees what was committed
// before it asked.
type gatherer[T any] struct {
	conn conn
	// fetch reads those of ids that there are, all in one statement, and calls give for
	// each. read makes a value for one caller, and may be called only until give returns.
	fetch func(ctx context.Context, c conn, ids []string, give func(id string, read func() (T, error)) error) error

	mu      sync.Mutex
	waiting []*wanted[T]
	running int
}

// wanted is a node that somebody asks for.
type wanted[T any] struct {
	id     string
	answer chan error // buffered
	found  bool
	value  T
}

const (
	// gatherers is how many statements run at once, maxGathered how many nodes one reads.
	// Another one is begun only while so many wait as crowded says: few long statements
	// cost less than many short ones, but while only one runs either the database or
	// whoever decodes what it has read is idle.
	gatherers   = 2
	maxGathered = 32
	crowded     = maxGathered / 4
)

// read returns what fetch reads of the node, or ErrNotFound.
func (g *gatherer[T]) read(ctx context.Context, id string) (T, error) {
	var none T
	w := &wanted[T]{id: id, answer: make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if g.running == 0 || g.running < gatherers && len(g.waiting) >= crowded {
		g.running++
		go g.run(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case err := <-w.answer:
		if err != nil {
			return none, fmt.Errorf("read node %s: %w", id, err)
		}
	case <-ctx.Done():
		return none, fmt.Errorf("read node %s: %w", id, ctx.Err())
	}
	if !w.found {
		return none, fmt.Errorf("node %s: %w", id, ErrNotFound)
	}
	return w.value, nil
}

// run reads until nobody waits. What one caller's context says is not for the others:
// only time bounds a statement.
func (g *gatherer[T]) run(ctx context.Context) {
	for {
		runtime.Gosched() // whoever is about to ask does so first
		g.mu.Lock()
		n := min(len(g.waiting), maxGathered)
		if n == 0 {
			g.running--
			g.mu.Unlock()
			return
		}
		part := append([]*wanted[T](nil), g.waiting[:n]...)
		g.waiting = append(g.waiting[:0], g.waiting[n:]...)
		g.mu.Unlock()
		limited, cancel := context.WithTimeoutCause(ctx, groupPatience, errSlow)
		err := g.together(limited, part)
		cancel()
		for _, w := range part {
			w.answer <- err
		}
	}
}

var errSlow = errors.New("the database did not answer in time")

func (g *gatherer[T]) together(ctx context.Context, part []*wanted[T]) error {
	ids := make([]string, 0, len(part))
	byID := make(map[string][]*wanted[T], len(part))
	for _, w := range part {
		if byID[w.id] == nil {
			ids = append(ids, w.id)
		}
		byID[w.id] = append(byID[w.id], w)
	}
	return g.fetch(ctx, g.conn, ids, func(id string, read func() (T, error)) (err error) {
		for _, w := range byID[id] {
			if w.value, err = read(); err != nil {
				return err
			}
			w.found = true
		}
		return nil
	})
}
