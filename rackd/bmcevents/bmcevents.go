// Package bmcevents listens to BMCs that tell events by themselves. An event is a reason for power sync to look at the machines behind the
// BMC, and nothing else: what it says is not believed. So a change of power shows in seconds, and a lost event costs no more than
// the interval of power sync.
//
// It may import protocol, rackd/driver and rackd/periodic; it declares what else it needs.
// Invariants:
//   - A BMC has one stream at most, whatever the number of its nodes, and all BMCs together mostStreams.
//   - A stream ends when none of its nodes had its turn for a while: it is deleted, has work, or is another rackd's.
//   - Events of a BMC cause two looks in lookPause at most.
//
// Everything exported is safe for concurrent use.
package bmcevents

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "bmc-events"

const (
	// Every is how often it is looked whether a node's BMC has its stream.
	Every = time.Minute
	// idle is after how long without a turn of one of its nodes a stream ends.
	idle = 3 * Every
	// lookPause is the time for which further events cause one look together.
	lookPause = 5 * time.Second
	// mostStreams bounds the connections that are held open.
	mostStreams = 2000
)

// Listener holds the streams.
type Listener struct {
	// look has power sync look at a node within a time; 0 is at once.
	look func(node string, within time.Duration)
	log  *slog.Logger
	most int

	mu      sync.Mutex
	streams map[string]*stream // by account
	ends    context.Context    // of Run; nil: it does not run
	running sync.WaitGroup
}

// stream is a BMC's.
type stream struct {
	// seen is when each of its nodes had its turn last.
	seen map[string]time.Time
	stop context.CancelFunc
}

// New returns a listener that has no stream until Run.
func New(look func(node string, within time.Duration), log *slog.Logger) *Listener {
	return &Listener{look: look, log: log, most: mostStreams, streams: map[string]*stream{}}
}

// Run holds the streams until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	l.mu.Lock()
	l.ends = ctx
	l.mu.Unlock()
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.ends = nil
			l.mu.Unlock()
			l.running.Wait()
			return nil
		case <-tick.C:
			l.sweep(time.Now())
		}
	}
}

// sweep ends the streams whose nodes are no longer ours.
func (l *Listener) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.streams {
		for id, at := range s.seen {
			if now.Sub(at) > idle {
				delete(s.seen, id)
			}
		}
		if len(s.seen) == 0 {
			s.stop()
		}
	}
}

// Task opens streams.
func (l *Listener) Task() periodic.Task {
	return periodic.Task{Name: Name, Every: Every, Workers: 4, Do: l.open, Wants: func(n *node.Document, hw *driver.Hardware) bool {
		_, can := hw.Management().(driver.EventSource)
		return can && !n.Maintenance
	}}
}

// open opens the stream of a node's BMC, unless it is there.
func (l *Listener) open(_ context.Context, n *node.Document, hw *driver.Hardware) error {
	account := n.UUID
	if shared, ok := hw.Power().(driver.Accounted); ok && shared.Account(n) != "" {
		account = shared.Account(n)
	}
	l.mu.Lock()
	ends, s := l.ends, l.streams[account]
	if s != nil {
		s.seen[n.UUID] = time.Now()
	}
	full := len(l.streams) >= l.most
	l.mu.Unlock()
	if s != nil || full || ends == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ends)
	from, err := hw.Management().(driver.EventSource).Events(ctx, n)
	if err != nil {
		stop()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil || l.streams[account] != nil {
		stop()
		return from.Close()
	}
	s = &stream{seen: map[string]time.Time{n.UUID: time.Now()}, stop: stop}
	l.streams[account] = s
	l.running.Add(1)
	go l.listen(ctx, account, s, from)
	return nil
}

// listen reads a stream until it ends. The next turn of one of its nodes opens another.
func (l *Listener) listen(ctx context.Context, account string, s *stream, from driver.EventStream) {
	defer l.running.Done()
	ended := context.AfterFunc(ctx, func() { _ = from.Close() }) // which ends Next
	defer ended()
	var err error
	for last := (time.Time{}); ; {
		if err = from.Next(); err != nil {
			break
		}
		within := lookPause // the last of several events may be the one that counts
		if time.Since(last) >= lookPause {
			last, within = time.Now(), 0
		}
		for _, id := range l.nodes(s) {
			l.look(id, within)
		}
	}
	s.stop()
	_ = from.Close()
	l.mu.Lock()
	delete(l.streams, account)
	l.mu.Unlock()
	l.log.Debug("a BMC's stream of events has ended", "error", err)
}

func (l *Listener) nodes(s *stream) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range s.seen {
		ids = append(ids, id)
	}
	return ids
}
