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
	// Report publishes an event.
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
	// readTimeout bounds one read.
	readTimeout = time.Minute
)

// Sync is safe for concurrent use.
type Sync struct {
	cfg Config

	mu       sync.Mutex
	machines map[string]*machine
	troubles map[string]*trouble // by account or node
	asking   map[string]bool     // accounts that are being used
	listed   time.Time           // when machines was last compared with the group
}

// machine is what is known of a node.
type machine struct {
	due time.Time
	// busy: it is being looked at.
	busy bool
	// failing: its last read failed, or was left out because its BMC is in trouble.
	failing bool
	// told is when its fault was reported; zero when it has none.
	told time.Time
	// faulted: its document has shown the fault.
	faulted bool
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
	return &Sync{cfg: c, machines: map[string]*machine{}, troubles: map[string]*trouble{}, asking: map[string]bool{}}
}

// NodeChanged tells that a node's documents changed: one that was failing is looked
// at soon, because an operator may have corrected it. It does not block.
func (s *Sync) NodeChanged(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil && m.failing {
		m.due = time.Now()
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
		for _, id := range s.takeDue() {
			started := g.TryGo(func() error {
				due := s.look(ctx, id)
				s.done(id, due)
				return nil
			})
			if !started { // all workers wait for BMCs; it stays due
				s.done(id, time.Now())
			}
		}
	}
}

// takeDue marks those that are due as busy and returns them.
func (s *Sync) takeDue() (ids []string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.listed) >= s.cfg.Every/4 {
		s.listed = now
		s.list(now)
	}
	for id, m := range s.machines {
		if !m.busy && !m.due.After(now) {
			m.busy = true
			ids = append(ids, id)
		}
	}
	return ids
}

// list takes up the group's new nodes, each at its own moment of the interval, and
// forgets those that have gone. mu is held.
func (s *Sync) list(now time.Time) {
	gone := make(map[string]bool, len(s.machines))
	for id := range s.machines {
		gone[id] = true
	}
	for _, id := range s.cfg.Nodes.Nodes() {
		delete(gone, id)
		if s.machines[id] == nil {
			s.machines[id] = &machine{due: now.Add(rand.N(s.cfg.Every))}
		}
	}
	for id := range gone {
		delete(s.machines, id)
	}
	for key, t := range s.troubles {
		if now.Sub(t.until) > maxPause { // nobody has asked again: it was somebody's old password
			delete(s.troubles, key)
		}
	}
}

func (s *Sync) done(id string, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil {
		m.busy, m.due = false, due
	}
}

// spread is d, give or take a tenth, so that what failed together is not asked together.
func spread(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}
