// Package conductor runs the work of a rackd's nodes: it takes the work documents
// that the ring gives it, runs their steps with a checkpoint before each, enforces
// the deadlines of waiting states, and reports each change as an event.
//
// It may import protocol, rackd/driver and rackd/view; it declares what else it
// needs. Invariants:
//   - A side effect needs the lease and the work's epoch: fence checks both, right
//     before each BMC write and each agent command.
//   - There is no takeover path. Start, join and inheritance all end in reconcile,
//     which re-reads the view and acts; it takes no event payload.
//   - One runner, one goroutine, for each piece of open work this rackd owns.
package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Documents is the rack's memory and its way to the bus (rackd/view).
type Documents interface {
	Node(id string) *node.Document
	NodeByMAC(mac string) *node.Document
	Work(id string) *view.Work
	Nodes() []string
	UpdateWork(ctx context.Context, doc work.Document, revision uint64) (uint64, error)
	Publish(ctx context.Context, e work.Event) error
	ConfigDrive(ctx context.Context, name string) (string, error)
}

// Membership says what this rackd owns (rackd/lease).
type Membership interface {
	Check() error
	// Owner returns the name of the rackd that owns a node.
	Owner(node, driver, group string) string
}

// Metrics counts what the conductor does. All methods are safe for concurrent use.
type Metrics interface {
	WorkTaken(verb work.Verb)
	WorkEnded(verb work.Verb, ok bool, took time.Duration)
	StepRan(name string, took time.Duration, err error)
	Fenced()
	OwnedWork(n int)
}

// Config of a conductor.
type Config struct {
	Name      string // this rackd's
	Group     string
	Documents Documents
	Members   Membership
	Hardware  *driver.Registry
	Images    driver.Images
	// Key opens what central sealed for the group and derives agent tokens.
	Key *seal.Key
	// NewAgent returns the client of a node's agent; state gives its newest address.
	NewAgent func(node, token string, state func() *work.Agent) driver.Agent
	// BuildDrive makes what agents take of a config drive as the API took it; uuid
	// and name complete its metadata.
	BuildDrive func(ctx context.Context, input, uuid, name string) (string, error)
	Metrics    Metrics
	Log        *slog.Logger
	// Deadlines override those of the state machine; 0 or missing: its own.
	Deadlines map[provision.State]time.Duration
	// HeartbeatTimeout is told to agents; they call well within it.
	HeartbeatTimeout time.Duration
	// PowerSync is how often idle nodes' power is read; 0: never.
	PowerSync time.Duration
	// AutomatedClean is for nodes that do not say; Ironic's default is true.
	AutomatedClean bool
}

// Conductor is safe for concurrent use.
type Conductor struct {
	cfg  Config
	log  *slog.Logger
	work chan struct{} // nudges the loop

	mu       sync.Mutex
	dirty    map[string]bool
	allDirty bool
	runners  map[string]*runner
	reported map[string]string // node → id of the ended work reported by this process
	powers   map[string]driver.PowerState
}

// New returns a conductor that is idle until Run.
func New(cfg Config) *Conductor {
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 60 * time.Second
	}
	return &Conductor{cfg: cfg, log: cfg.Log, work: make(chan struct{}, 1), dirty: map[string]bool{},
		runners: map[string]*runner{}, reported: map[string]string{}, powers: map[string]driver.PowerState{}}
}

// NodeChanged tells that a node's documents changed.
func (c *Conductor) NodeChanged(id string) {
	c.mu.Lock()
	c.dirty[id] = true
	c.mu.Unlock()
	c.wake()
}

// RingChanged tells that the members changed.
func (c *Conductor) RingChanged() {
	c.mu.Lock()
	c.allDirty = true
	c.mu.Unlock()
	c.wake()
}

func (c *Conductor) wake() {
	select {
	case c.work <- struct{}{}:
	default:
	}
}

// resync is how often everything is looked at again, whatever the nudges said.
const resync = 15 * time.Second

// Run works until ctx ends. Runners stop at once; what runs in an agent runs on,
// and the next owner re-attaches to it.
func (c *Conductor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.loop(ctx, g) })
	if c.cfg.PowerSync > 0 {
		g.Go(func() error { return c.syncPower(ctx) })
	}
	return g.Wait()
}

func (c *Conductor) loop(ctx context.Context, g *errgroup.Group) error {
	tick := time.NewTicker(resync)
	defer tick.Stop()
	c.RingChanged()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.RingChanged()
		case <-c.work:
		}
		for _, id := range c.takeDirty() {
			c.reconcile(ctx, g, id)
		}
		c.mu.Lock()
		n := len(c.runners)
		c.mu.Unlock()
		c.cfg.Metrics.OwnedWork(n)
	}
}

func (c *Conductor) takeDirty() []string {
	c.mu.Lock()
	all := c.allDirty
	ids := make([]string, 0, len(c.dirty))
	for id := range c.dirty {
		ids = append(ids, id)
	}
	clear(c.dirty)
	c.allDirty = false
	c.mu.Unlock()
	if all {
		return c.cfg.Documents.Nodes()
	}
	return ids
}

// reconcile makes what runs for a node fit what the bus says.
func (c *Conductor) reconcile(ctx context.Context, g *errgroup.Group, id string) {
	n, w := c.cfg.Documents.Node(id), c.cfg.Documents.Work(id)
	mine := n != nil && c.owns(n)
	c.mu.Lock()
	r := c.runners[id]
	c.mu.Unlock()

	switch {
	case r != nil && w != nil && r.id == w.Doc.ID && !w.Doc.Open():
		// Its runner has ended it and is about to say so; a runner that had lost it
		// cannot write any more.
	case w == nil, !w.Doc.Open(), !mine:
		if r != nil {
			r.stop()
		}
		if w != nil && mine && !w.Doc.Open() {
			c.reportEnded(ctx, g, w.Doc)
		}
	case r != nil && r.id == w.Doc.ID:
		r.nudge()
	case r != nil: // superseded: the new runner starts when the old one is out
		r.stop()
	case n.Generation < w.Doc.Generation:
		// The node document that belongs to this work is still on its way.
	default:
		c.start(ctx, g, n, *w)
	}
}

func (c *Conductor) owns(n *node.Document) bool {
	return c.cfg.Members.Owner(n.UUID, n.Driver, n.Group) == c.cfg.Name && c.cfg.Members.Check() == nil
}

func (c *Conductor) start(ctx context.Context, g *errgroup.Group, n *node.Document, w view.Work) {
	ctx, cancel := context.WithCancel(ctx)
	r := newRunner(c, n, w, cancel)
	c.mu.Lock()
	c.runners[n.UUID] = r
	c.mu.Unlock()
	g.Go(func() error {
		defer func() {
			cancel()
			c.mu.Lock()
			delete(c.runners, n.UUID)
			c.mu.Unlock()
			c.NodeChanged(n.UUID) // look again: there may be newer work
		}()
		r.run(ctx)
		return nil
	})
}

// runner returns the runner of a node's work, nil when none runs here.
func (c *Conductor) runner(id string) *runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runners[id]
}

// reportEnded publishes how a piece of work ended, once in this process's life: the
// rackd that ended it may have died before it could.
func (c *Conductor) reportEnded(ctx context.Context, g *errgroup.Group, d work.Document) {
	c.mu.Lock()
	done := c.reported[d.Node] == d.ID
	c.reported[d.Node] = d.ID
	c.mu.Unlock()
	if done {
		return
	}
	g.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := c.cfg.Documents.Publish(ctx, endedEvent(c.cfg.Name, d)); err != nil {
			c.log.Warn("end of work not reported, trying again", "node", d.Node, "work", d.ID, "error", err)
			c.mu.Lock()
			delete(c.reported, d.Node)
			c.mu.Unlock()
		}
		return nil
	})
}

// deadline returns how long a node may stay in s.
func (c *Conductor) deadline(s provision.State) time.Duration {
	if d := c.cfg.Deadlines[s]; d > 0 {
		return d
	}
	info, _ := provision.Describe(s)
	return info.Deadline
}

// open returns a copy of n with its secrets opened.
func (c *Conductor) open(n *node.Document) (*node.Document, error) {
	copied := *n
	var err error
	if copied.DriverInfo, err = c.cfg.Key.OpenFields(n.UUID, n.DriverInfo); err != nil {
		return &copied, fmt.Errorf("driver_info: %w", err)
	}
	if copied.InstanceInfo, err = c.cfg.Key.OpenFields(n.UUID, n.InstanceInfo); err != nil {
		return &copied, fmt.Errorf("instance_info: %w", err)
	}
	return &copied, nil
}
