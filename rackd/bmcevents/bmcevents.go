// Package bmcevents listens to BMCs that tell events by themselves: by a stream that rackd reads, or, where a BMC has none, by posts to
// an address of this rackd that the BMC was told. An event is a reason for power sync to look at the machines behind the BMC. Its words
// are shown in the history of their nodes, and are not believed. So a change of power shows in seconds, and a lost event costs no more
// than the interval of power sync.
//
// It may import protocol, rackd/driver, rackd/driver/bmc, rackd/periodic and rackd/strangers; it declares what else it needs.
// Invariants:
//   - A BMC has one stream or one subscription at most, whatever the number of its nodes, and all BMCs together mostStreams streams.
//   - A stream ends when none of its nodes had its turn for a while: it is deleted, has work, or is another rackd's.
//   - The address that a BMC posts to holds a code of its node, made with the key of the conductor group: each rackd of the group knows
//     which subscriptions are the group's. Who posts without the code reaches nothing.
//   - A subscription of a node that was deleted, that has another BMC now, or whose rackd is another one, is removed.
//   - Events of a BMC cause two looks in lookPause at most.
//   - A node's history gets linesAtOnce lines of events at once, and one each lineEvery after that. What is left out is counted there.
//     An event that comes again in the same words has one line in sameFor, which counts it.
//
// Everything exported is safe for concurrent use.
package bmcevents

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
	"github.com/ironyard/ironyard/rackd/strangers"
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
	// renew is how often it is looked whether a BMC still has its subscription. BMCs forget them, and end those of a rackd that
	// was away.
	renew = 15 * time.Minute
	// asking bounds what a BMC is asked for a subscription.
	asking = 2 * time.Minute
	// farewells is how often a BMC is asked to forget a subscription that is no longer wanted.
	farewells = 5
)

// Nodes are those of the group (rackd/conductor).
type Nodes interface {
	// Owned returns a node with its secrets open, and its hardware; a nil node when this rackd does not own it.
	Owned(id string) (*node.Document, *driver.Hardware, error)
	// Knows reports whether there is such a node, of this rackd or another one.
	Knows(id string) bool
	// Fence returns the fence of a write to an idle node's machine, LeftFence that of a write to what was the BMC of a node that
	// was deleted.
	Fence(n *node.Document) driver.Fence
	LeftFence(n *node.Document) driver.Fence
}

// Codes make addresses that cannot be guessed.
type Codes interface {
	// Code is that of a node with an account at its BMC; it is empty where this rackd has no key of the node's group.
	Code(n *node.Document, account string) string
	// Fits reports whether a code is a node's, by any key that this rackd has.
	Fits(node, code string) bool
}

// History takes lines about a node (rackd/conductor).
type History interface {
	TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error
}

// Metrics counts events that were heard, for each node that they may be of. Safe for concurrent use.
type Metrics interface {
	// BMCEventHeard: way is stream or post; severity is ok, warning, critical or unknown; result is shown, left_out or failed.
	BMCEventHeard(way, severity, result string)
}

// Config of a Listener.
type Config struct {
	History History
	Metrics Metrics
	// Look has power sync look at a node within a time; 0 is at once.
	Look  func(node string, within time.Duration)
	Nodes Nodes
	Codes Codes
	// Base is where BMCs reach this rackd, https://HOST:PORT; empty: they do not, and only streams are read.
	Base string
	// Strangers bounds what is logged of them; nil: by the defaults.
	Strangers *strangers.Gate
	Log       *slog.Logger
}

// Listener holds the streams and subscriptions.
type Listener struct {
	Config
	most  int
	lines *strangers.LineCount

	mu      sync.Mutex
	streams map[string]*stream   // by account
	named   map[string]*stream   // subscriptions, by the node that their address names
	reading int                  // streams that are no subscriptions
	shown   map[string]*budget   // by node
	asked   map[string]bool      // accounts of BMCs that are being asked for a stream or a subscription
	without map[string]time.Time // accounts of BMCs without events, and when that was found
	ends    context.Context      // of Run; nil: it does not run
	running sync.WaitGroup
}

// stream is a BMC's stream, or its subscription.
type stream struct {
	account string
	// seen is when each of its nodes had its turn last.
	seen map[string]time.Time
	stop context.CancelFunc // nil: it is a subscription
	last time.Time          // when an event had its nodes looked at last at once

	// of a subscription
	node    *node.Document // that its address names, as of when the BMC had it last
	sender  driver.EventSender
	checked time.Time
	left    int // how often it was tried to end it
}

// New returns a listener that has no stream until Run.
func New(c Config) *Listener {
	if c.Strangers == nil {
		c.Strangers = strangers.New(strangers.Budget{}, nil, c.Log)
	}
	return &Listener{Config: c, most: mostStreams, lines: c.Strangers.Lines("the events of BMCs"), streams: map[string]*stream{}, named: map[string]*stream{}, shown: map[string]*budget{}, asked: map[string]bool{}, without: map[string]time.Time{}}
}

// Run holds the streams until ctx ends. Subscriptions stay: the next rackd of their nodes, or this one after a restart, finds them.
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
			for _, s := range l.sweep(time.Now()) {
				l.farewell(ctx, s)
			}
			l.leftOut(ctx)
		}
	}
}

// sweep ends the streams whose nodes are no longer ours, and returns the subscriptions of which that is so.
func (l *Listener) sweep(now time.Time) (left []*stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for account, at := range l.without {
		if now.Sub(at) > renew {
			delete(l.without, account)
		}
	}
	for _, s := range l.streams {
		for id, at := range s.seen {
			if now.Sub(at) > idle {
				delete(s.seen, id)
			}
		}
		switch {
		case len(s.seen) > 0:
		case s.stop != nil:
			s.stop()
		default:
			left = append(left, s)
		}
	}
	return left
}

// Task opens streams and makes subscriptions.
func (l *Listener) Task() periodic.Task {
	return periodic.Task{Name: Name, Every: Every, Workers: 4, Do: l.open, Wants: func(n *node.Document, hw *driver.Hardware) bool {
		_, streams := hw.Management().(driver.EventSource)
		_, sends := hw.Management().(driver.EventSender)
		return (streams || sends && l.Base != "") && !n.Maintenance
	}}
}

func accountOf(n *node.Document, hw *driver.Hardware) string {
	if shared, ok := hw.Power().(driver.Accounted); ok && shared.Account(n) != "" {
		return shared.Account(n)
	}
	return n.UUID
}

// open opens the stream of a node's BMC, or looks after its subscription, unless that was done.
func (l *Listener) open(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	account := accountOf(n, hw)
	l.mu.Lock()
	ends, s := l.ends, l.streams[account]
	if s != nil {
		s.seen[n.UUID] = time.Now()
	}
	done := time.Since(l.without[account]) < renew || s != nil && (s.stop != nil || time.Since(s.checked) < renew && !s.seen[s.node.UUID].IsZero())
	full := l.reading >= l.most
	done = done || ends == nil || l.asked[account] // another of its nodes has its turn now
	if !done {
		l.asked[account] = true
	}
	l.mu.Unlock()
	if done {
		return nil
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.asked, account)
	}()
	err := l.begin(ctx, ends, n, hw, account, s != nil || full)
	if errors.Is(err, driver.ErrUnsupported) {
		l.mu.Lock()
		l.without[account] = time.Now()
		l.mu.Unlock()
	}
	return err
}

// begin opens a stream, or makes a subscription where there is none, or where that is said. ends is the context of Run.
func (l *Listener) begin(ctx, ends context.Context, n *node.Document, hw *driver.Hardware, account string, subscribe bool) error {
	source, streams := hw.Management().(driver.EventSource)
	if subscribe || !streams {
		return l.subscribe(ctx, n, hw, account, nil)
	}
	reading, stop := context.WithCancel(ends)
	from, err := source.Events(reading, n)
	if err != nil {
		stop()
		if errors.Is(err, driver.ErrUnsupported) {
			return l.subscribe(ctx, n, hw, account, err)
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil || l.streams[account] != nil {
		stop()
		return from.Close()
	}
	s := &stream{account: account, seen: map[string]time.Time{n.UUID: time.Now()}, stop: stop}
	l.streams[account] = s
	l.reading++
	l.running.Add(1)
	go l.listen(reading, s, from)
	return nil
}

// listen reads a stream until it ends. The next turn of one of its nodes opens another.
func (l *Listener) listen(ctx context.Context, s *stream, from driver.EventStream) {
	defer l.running.Done()
	ended := context.AfterFunc(ctx, func() { _ = from.Close() }) // which ends Next
	defer ended()
	var err error
	for {
		var events []driver.BMCEvent
		if events, err = from.Next(); err != nil {
			break
		}
		l.show(ctx, "stream", l.heard(s), events)
	}
	s.stop()
	_ = from.Close()
	l.mu.Lock()
	delete(l.streams, s.account)
	l.reading--
	l.mu.Unlock()
	l.Log.Debug("a BMC's stream of events has ended", "error", err)
}

// heard has the nodes behind a BMC looked at, and returns them.
func (l *Listener) heard(s *stream) (ids []string) {
	within := lookPause // the last of several events may be the one that counts
	l.mu.Lock()
	if now := time.Now(); now.Sub(s.last) >= lookPause {
		s.last, within = now, 0
	}
	for id := range s.seen {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	for _, id := range ids {
		l.Look(id, within)
	}
	return ids
}
