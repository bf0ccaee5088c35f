// Package logship sends the agent's log to its rackd, in batches, and keeps its
// newest lines for log.collect_system_logs.
//
// It may import nothing of the project. Invariants: writing never blocks and never
// fails; memory is bounded, the oldest lines go first and their number is told; a
// rackd that is away costs log lines, nothing else.
package logship

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// pendingMax bounds what waits to be sent; keptMax what is kept to be collected.
	pendingMax = 256 << 10
	keptMax    = 1 << 20
	// every is how often a batch is sent.
	every = time.Second
	// lastWithin bounds the last batch.
	lastWithin = time.Second
	// lineMax bounds a single line.
	lineMax = 16 << 10
)

// Shipper is an io.Writer of whole log lines. Safe for concurrent use. The zero
// value is ready.
type Shipper struct {
	mu      sync.Mutex
	pending lines
	kept    lines
}

// lines is a bounded queue of lines.
type lines struct {
	list    [][]byte
	bytes   int
	dropped int
}

func (l *lines) add(line []byte, limit int) {
	l.list, l.bytes = append(l.list, line), l.bytes+len(line)
	for l.bytes > limit && len(l.list) > 1 {
		l.bytes -= len(l.list[0])
		l.list = l.list[1:]
		l.dropped++
	}
}

func (l *lines) join() []byte {
	var out []byte
	if l.dropped > 0 {
		out = fmt.Appendf(out, "(%d earlier lines are lost)\n", l.dropped)
	}
	for _, s := range l.list {
		out = append(out, s...)
	}
	return out
}

// Write takes one line, as slog's handlers write them.
func (s *Shipper) Write(p []byte) (int, error) {
	line := append([]byte(nil), p[:min(len(p), lineMax)]...)
	if len(p) > lineMax {
		line = append(line, "…\n"...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.add(line, pendingMax)
	s.kept.add(line, keptMax)
	return len(p), nil
}

// Collect returns the newest lines.
func (s *Shipper) Collect() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.join()
}

// Run sends what is written until ctx ends, and then once more: how a machine's run ended is what operators look for.
// Lines that could not be sent wait for the next try.
func (s *Shipper) Run(ctx context.Context, send func(context.Context, []byte) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	pause := 0
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWithin)
			defer cancel()
			_ = s.flush(last, send) // there is no later try
			return
		case <-tick.C:
		}
		if pause > 0 {
			pause--
			continue
		}
		if s.flush(ctx, send) != nil {
			// The log must not add to a rackd's troubles. Not logged: that would
			// make a line for each failure to send lines.
			pause = 10
		}
	}
}

func (s *Shipper) flush(ctx context.Context, send func(context.Context, []byte) error) error {
	s.mu.Lock()
	batch := s.pending
	s.pending = lines{}
	s.mu.Unlock()
	if len(batch.list) == 0 {
		return nil
	}
	err := send(ctx, batch.join())
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.pending
	s.pending = lines{dropped: batch.dropped + newer.dropped}
	for _, l := range append(batch.list, newer.list...) {
		s.pending.add(l, pendingMax)
	}
	return err
}
