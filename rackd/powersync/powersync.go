// Package powersync reads the power state of idle machines, reports what changed,
// puts nodes whose BMC fails into maintenance and takes them out when it answers
// again.
//
// It may import protocol and rackd/driver; it declares what else it needs.
// Invariants:
//   - It only reads: no BMC is told to do anything.
//   - A BMC that fails is asked again after a pause that grows, one request at a time
//     for all nodes that share its account; one that refuses the credentials is asked
//     so rarely that the account is not locked out, until they change.
//   - Only the fault "power failure" is ended here: maintenance that an operator set,
//     or that has another reason, is theirs to end.
//   - Requests to the machines of a rack are spread over the interval.
package powersync

import (
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Nodes lists all nodes of the group, those of other rackds too.
	Nodes() []string
	// Idle returns a node with its secrets open, and its hardware; a nil node when
	// another rackd owns it or it has work in flight.
	Idle(id string) (*node.Document, *driver.Hardware, error)
	// SawPower reports the power state read at a time, if it is news.
	SawPower(ctx context.Context, n *node.Document, s driver.PowerState, at time.Time) error
	// SawHardware reads what else is to be known of an idle machine, and reports it if it
	// is news. That it cannot be read is no error.
	SawHardware(ctx context.Context, n *node.Document, hw *driver.Hardware) error
	// Report publishes an event. It, SawPower and SawHardware tell the log of what they could not report.
	Report(ctx context.Context, e work.Event) error
}

// Metrics counts reads by result: ok, unreachable, denied or failed. Safe for
// concurrent use.
type Metrics interface{ PowerRead(result string) }

// Config of a power sync; zero numbers and times mean Ironic's defaults.
type Config struct {
	Name  string // this rackd's
	Nodes Nodes
	// Every is how often a healthy machine's power is read; default 120 s.
	Every time.Duration
	// Recovery is the first pause between the reads of a machine that is in
	// maintenance because of its BMC; it grows fourfold. Default 300 s.
	Recovery time.Duration
	// Failures is how many in a row put a node into maintenance; default 3.
	Failures int
	// Workers bounds the reads at a time; default 8.
	Workers int
	Metrics Metrics
	Log     *slog.Logger
}

const (
	// look is how often what is due is looked for.
	look = time.Second
	// perLook bounds the reads that are begun in that time. It is enough for the share of a
	// rackd, 10,000 nodes, at the default interval. With more of them on one rackd the
	// rounds take longer, instead of filling bus and database with news of all at once.
	perLook = 100
	// readTimeout bounds one read.
	readTimeout = time.Minute
)

// Sync is safe for concurrent use.
type Sync struct {
	cfg   Config
	began time.Time // machine.due and told count from it

	mu       sync.Mutex
	machines map[string]*machine
	queue    queue               // of those that are not being looked at
	troubles map[string]*trouble // by account or node
	asking   map[string]bool     // accounts that are being used
	listed   time.Time           // when machines was last compared with the group
	list     bool                // changes with each comparison
}

// New returns a sync that is idle until Run.
func New(c Config) *Sync {
	if c.Every <= 0 {
		c.Every = 120 * time.Second
	}
	if c.Recovery <= 0 {
		c.Recovery = 300 * time.Second
	}
	if c.Failures <= 0 {
		c.Failures = 3
	}
	if c.Workers <= 0 {
		c.Workers = 8
	}
	// A moment ago: 0 says that there is no time.
	return &Sync{cfg: c, began: time.Now().Add(-time.Second), machines: map[string]*machine{}, troubles: map[string]*trouble{}, asking: map[string]bool{}}
}

// NodeChanged tells that a node's documents changed: one that was failing is looked
// at soon, because an operator may have corrected it. It does not block.
func (s *Sync) NodeChanged(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := s.machines[id]; {
	case m == nil:
	case m.place < 0:
		m.due = 0 // what is being read may be out of date: see done
	case m.failing:
		m.due = 0 // before all others
		heap.Fix(&s.queue, int(m.place))
	}
}

// Run reads until ctx ends.
func (s *Sync) Run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var g errgroup.Group
	g.SetLimit(s.cfg.Workers)
	defer g.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.take()
		for range perLook {
			id, ok := s.next()
			if !ok {
				break
			}
			g.Go(func() error { // waits while all workers wait for BMCs
				due := s.look(ctx, id)
				s.done(id, due)
				return nil
			})
		}
	}
}

// take takes up the group's new nodes, each at its own moment of the interval, and
// forgets those that have gone, from time to time.
func (s *Sync) take() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.listed) < s.cfg.Every/4 {
		return
	}
	s.listed, s.list = now, !s.list
	for _, id := range s.cfg.Nodes.Nodes() {
		m := s.machines[id]
		if m == nil {
			m = &machine{id: id, due: s.micros(now.Add(rand.N(s.cfg.Every)))}
			s.machines[id] = m
			heap.Push(&s.queue, m)
		}
		m.listed = s.list
	}
	for id, m := range s.machines {
		if m.listed == s.list {
			continue
		}
		delete(s.machines, id)
		if m.place >= 0 {
			heap.Remove(&s.queue, int(m.place))
		}
	}
	for key, t := range s.troubles {
		if now.Sub(t.until) > maxPause { // nobody has asked again: it was somebody's old password
			delete(s.troubles, key)
		}
	}
}

// next takes the node that is most due out of the queue, if one is due.
func (s *Sync) next() (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.queue[0].due > s.micros(time.Now()) {
		return "", false
	}
	return heap.Pop(&s.queue).(*machine).id, true
}

// done puts a node back into the queue: at once if its read failed and it has changed since that began.
func (s *Sync) done(id string, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil && m.place < 0 {
		if m.due != 0 || !m.failing {
			m.due = s.micros(due)
		}
		heap.Push(&s.queue, m)
	}
}

// spread is d, give or take a tenth, so that what failed together is not asked together.
func spread(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
