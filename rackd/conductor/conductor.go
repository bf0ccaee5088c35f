// Package conductor decides over the work of a rackd's nodes: it takes the work documents that the ring gives it, starts a
// runner for each (rackd/conductor/runner), and stops runners whose work has moved on. It also answers agents and machines.
//
// It may import protocol, rackd/driver, rackd/refusal, rackd/view and the packages below it; it declares what else it needs.
// Invariants:
//   - There is no takeover path. Start, join and inheritance all end in reconcile,
//     which re-reads the view and acts; it takes no event payload.
//   - A rackd never takes work from a living owner. An owner is dead only when the lease under which it took the work has
//     ended. An owner that the ring no longer names gives its work away at the next boundary between steps.
//   - What the bus has lost is written once more by an owner whose lease has not ended since,
//     else by central. A step marked as neither does not begin in such work.
//   - One runner, one goroutine, for each piece of open work this rackd owns.
package conductor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/conductor/runner"
	"github.com/ironyard/ironyard/rackd/conductor/secrets"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Documents is the rack's memory and its way to the bus (rackd/view).
type Documents interface {
	runner.Documents
	// Node returns a document that has to be unpacked unless the node has work; Kind does
	// not.
	Node(id string) *node.Document
	Kind(id string) (driver, group string, known bool)
	// Deleted reports whether the bus has shown that a node was deleted. One that is not known may also be of a group that this rackd
	// no longer follows.
	Deleted(id string) bool
	NodeByMAC(mac string) *node.Document
	Nodes() []string
	Publish(ctx context.Context, e work.Event) error
}

// Membership says what this rackd owns (rackd/lease).
type Membership interface {
	runner.Members
	// Age is how long ago the lease was confirmed, negative for never.
	Age() time.Duration
	// Owner returns the name of the rackd that owns a node.
	Owner(node, driver, group string) string
	// Ended reports whether the lease under which a rackd took work of a group, as this
	// rackd learnt at that moment, is certainly over.
	Ended(name, lease, group string, known time.Time) bool
	// Elsewhere reports whether a living rackd of this one's name, in another conductor
	// group, holds that lease.
	Elsewhere(lease string) bool
	// Incomplete reports whether a rackd that may serve a group, and has not withdrawn, has been away for less than
	// away, or back for less than back.
	Incomplete(group string, away, back time.Duration) bool
}

// Keys are those of the conductor groups that this rackd may serve (seal.Keyring).
type Keys interface {
	// Of returns nil for a group whose key this rackd does not have.
	Of(group string) *seal.Key
}

// Metrics counts what the conductor does. All methods are safe for concurrent use.
type Metrics interface {
	runner.Metrics
	// Forged: a document of that bucket was not made by central.
	Forged(bucket string)
	OwnedWork(n int)
	// AgentRefused: a call as an agent's, or of an agent, was refused.
	AgentRefused(call, why string)
}

// Config of a conductor.
type Config struct {
	Name      string // this rackd's
	Group     string
	Documents Documents
	Members   Membership
	Hardware  *driver.Registry
	Images    driver.Images
	// Media is where media of ramdisks are served; nil: nowhere.
	Media runner.Media
	// Reach returns an error for a URL that a BMC is not told to read for a caller of the API; nil: any may be.
	Reach func(ctx context.Context, url string) error
	// Keys open what central sealed for a group and derive agent tokens.
	Keys Keys
	// NewAgent returns the client of a node's agent; state gives its newest address, tokens
	// those of its boot, one for each generation of the group's key, the newest first.
	NewAgent func(node string, tokens func() []string, state func() *work.Agent) driver.Agent
	// AgentLives asks an agent, once, whether it is there: whether it answers at its URL with its certificate.
	AgentLives func(ctx context.Context, a work.Agent) bool
	// Leases is what this rackd's DHCP knows; nil: it serves no machines.
	Leases Leases
	// TellOwner tells another rackd what a machine was seen to do, without waiting for it; nil: there is no way.
	TellOwner func(owner, group string, s ask.Sign)
	// TrustFirstLookup: an agent whose boot carries no id, and whose address is not known, is taken for the node's.
	TrustFirstLookup bool
	// BuildDrive makes what agents take of a config drive as the API took it; uuid
	// and name complete its metadata.
	BuildDrive func(ctx context.Context, input, uuid, name string) (string, error)
	Metrics    Metrics
	// Started is told of a machine that was seen to be on and was not before; nil: nothing is told. It does not block.
	Started func(node string)
	Log     *slog.Logger
	// Deadlines override those of the state machine; 0 or missing: its own.
	Deadlines map[provision.State]time.Duration
	// HeartbeatTimeout is told to agents; they call well within it.
	HeartbeatTimeout time.Duration
	// AutomatedClean is for nodes that do not say; Ironic's default is true.
	AutomatedClean bool
	// CleanPriorities and VerifyPriorities take the place of the steps' own, in automated
	// cleaning and when a node is verified, by "interface.step"; 0 disables.
	CleanPriorities, VerifyPriorities map[string]int
}

// Conductor is safe for concurrent use.
type Conductor struct {
	cfg Config
	log *slog.Logger
	// secrets opens what central sealed, flows makes the steps of works.
	secrets *secrets.Opener
	flows   *flow.Catalog
	// deps is what the runners have in common.
	deps *runner.Deps
	// work has one place: a message in it nudges the loop.
	work chan struct{}
	// loud bounds the log lines of calls that are refused.
	loud *rate.Sometimes
	// asks are the looks at the bus for machines that ask what to boot.
	asks *looks
	// volumes are the machines that have not booted their volumes.
	volumes chan unbooted
	// away tells of what the bus does not take, of all works together: it is away for all of them.
	away trouble.Spells
	// made is when the conductor was made, with its monotonic reading.
	made time.Time

	// mu guards what follows.
	mu sync.Mutex
	// dirty are the nodes to look at; allDirty: all of them.
	dirty    map[string]bool
	allDirty bool
	// newRing says that the members have changed since the loop last looked.
	newRing bool
	// runners are those that run, by node.
	runners map[string]*runner.Runner
	// reported are the ends of works that this rackd has reported, by node.
	reported map[string]report
	// told is what this rackd told last of the machines of its own nodes, by node.
	told map[string]told
	// takes are how often this rackd has taken a node's work, by node.
	takes map[string]takes
	// boots are boot devices that requests have set, by node, until documents show them.
	boots map[string]*bootAsked
	// parted are the media of the instances that works here have ended with, by node, until documents show these ends.
	parted map[string]parted
}

// New returns a conductor that is idle until Run.
func New(cfg Config) *Conductor {
	if cfg.HeartbeatTimeout == 0 {
		cfg.HeartbeatTimeout = 60 * time.Second
	}
	c := &Conductor{cfg: cfg, log: cfg.Log, made: time.Now(), work: make(chan struct{}, 1), loud: quietly(), asks: newLooks(), volumes: make(chan unbooted, mostUnbooted), dirty: map[string]bool{}, runners: map[string]*runner.Runner{}, reported: map[string]report{}, told: map[string]told{}, takes: map[string]takes{}, boots: map[string]*bootAsked{}, parted: map[string]parted{}}
	c.secrets = &secrets.Opener{Documents: cfg.Documents, Keys: cfg.Keys, Metrics: cfg.Metrics, Log: cfg.Log}
	c.flows = flow.NewCatalog(flow.Config{Name: cfg.Name, Documents: cfg.Documents, Hardware: cfg.Hardware, Secrets: c.secrets, Events: service{c}, Reach: cfg.Reach,
		AutomatedClean: cfg.AutomatedClean, CleanPriorities: cfg.CleanPriorities, VerifyPriorities: cfg.VerifyPriorities, Log: cfg.Log})
	c.deps = &runner.Deps{Name: cfg.Name, Documents: cfg.Documents, Members: cfg.Members, Conductor: service{c}, Hardware: cfg.Hardware, Images: cfg.Images, Media: cfg.Media, Reach: cfg.Reach, Keys: cfg.Keys,
		Secrets: c.secrets, Flows: c.flows, NewAgent: cfg.NewAgent, AgentLives: cfg.AgentLives, BuildDrive: cfg.BuildDrive, Metrics: cfg.Metrics, Log: cfg.Log, Away: &c.away,
		Deadlines: cfg.Deadlines}
	return c
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
	c.allDirty, c.newRing = true, true
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
	g.Go(func() error { return c.tellUnbooted(ctx) })
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
			c.mu.Lock()
			c.allDirty = true
			c.mu.Unlock()
		case <-c.work:
		}
		c.forgetOthers()
		for id := range c.takeDirty() {
			c.reconcile(ctx, g, id)
		}
		c.mu.Lock()
		n := len(c.runners)
		c.mu.Unlock()
		c.cfg.Metrics.OwnedWork(n)
	}
}

// takeDirty returns the nodes to look at. With all of them go those of which nothing is left but a runner.
func (c *Conductor) takeDirty() map[string]bool {
	c.mu.Lock()
	ids, all := c.dirty, c.allDirty
	c.dirty, c.allDirty = map[string]bool{}, false
	c.mu.Unlock()
	if all {
		for _, id := range c.cfg.Documents.Nodes() {
			ids[id] = true
		}
	}
	return ids
}

// reconcile makes what runs for a node fit what the bus says.
func (c *Conductor) reconcile(ctx context.Context, g *errgroup.Group, id string) {
	r, s := c.runner(id), c.look(id)
	if s.work != nil && r == nil && s.work.Doc.Open() {
		c.tellLeases(s.node, &s.work.Doc)
	}
	d := decide(s)
	if d.do != doNothing && d.do != doGoOn {
		c.log.Debug("rackd has decided over the work of a node", "node", id, "does", d.do, "because", d.reason)
	}
	if d.again > 0 {
		time.AfterFunc(d.again, func() { c.NodeChanged(id) })
	}
	switch d.do {
	case doForget:
		if r != nil {
			r.Forget()
		}
		c.mu.Lock()
		delete(c.reported, id)
		delete(c.takes, id)
		c.mu.Unlock()
		c.forgetParted(id)
	case doStop:
		r.Stop()
	case doRemind:
		c.remind(ctx, g, *s.work)
	case doReport:
		c.reportEnded(ctx, g, s.work.Doc)
	case doGoOn, doHandOn:
		r.HandOn(d.do == doHandOn)
		r.Nudge()
	case doTake:
		if pause := c.pauseBefore(id, s.work.Doc.ID); pause > 0 {
			time.AfterFunc(pause, func() { c.NodeChanged(id) })
			return
		}
		c.start(ctx, g, s.node, *s.work)
	}
}

// remind writes where a piece of work stood into the document that central made once more:
// this rackd remembers it, and the one that the ring names may not.
func (c *Conductor) remind(ctx context.Context, g *errgroup.Group, w view.Work) {
	g.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		switch _, err := c.cfg.Documents.UpdateWork(ctx, w.Doc, w.Revision); {
		case err == nil:
			c.log.Info("the bus had lost the checkpoint of a work; rackd has written it again from memory", "node", w.Doc.Node, "work", w.Doc.ID, "step", w.Doc.Checkpoint.Step)
		case !errors.Is(err, view.ErrConflict): // else another rackd was faster
			c.log.Warn("the checkpoint of a lost work could not be written again", "node", w.Doc.Node, "work", w.Doc.ID, "error", err)
		}
		return nil
	})
}

// owns reports whether the ring gives a node to this rackd, which has a lease.
func (c *Conductor) owns(id string) bool {
	driver, group, known := c.cfg.Documents.Kind(id)
	return known && c.cfg.Members.Check() == nil && c.cfg.Members.Owner(id, driver, group) == c.cfg.Name
}

func (c *Conductor) start(ctx context.Context, g *errgroup.Group, n *node.Document, w view.Work) {
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	r := runner.New(c.deps, n, w, cancel)
	c.mu.Lock()
	c.runners[n.UUID] = r
	c.mu.Unlock()
	g.Go(func() error {
		defer func() {
			cancel()
			facts, told := r.InstanceFacts()
			c.mu.Lock()
			delete(c.runners, n.UUID)
			if delete(c.parted, n.UUID); told {
				c.parted[n.UUID] = parted{w.Doc.Generation, facts}
			}
			c.mu.Unlock()
			c.NodeChanged(n.UUID) // look again: there may be newer work
		}()
		r.Run(ctx)
		c.takeBack(whole, r, n)
		return nil
	})
}

// runner returns the runner of a node's work, nil when none runs here.
func (c *Conductor) runner(id string) *runner.Runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runners[id]
}

// report is when the end of a piece of work was reported.
type report struct {
	event string // its id
	at    time.Time
}

// reportAgain is how long central may take to clear ended work away before it is told
// again: it may be away, or the bus may have lost the event.
const reportAgain = time.Minute

// reportEnded publishes how a piece of work ended: the rackd that ended it may have
// died before it could.
func (c *Conductor) reportEnded(ctx context.Context, g *errgroup.Group, d work.Document) {
	e := runner.EndedEvent(c.cfg.Name, d)
	e.Before = slices.Clone(e.Before) // the view's
	e.Cut()
	c.mu.Lock()
	last := c.reported[d.Node]
	c.mu.Unlock()
	if last.event == e.ID && time.Since(last.at) < reportAgain {
		return
	}
	c.noteReported(e)
	g.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := c.cfg.Documents.Publish(ctx, e)
		c.away.Tried(c.log, "reporting the ends of works", err, "node", d.Node, "work", d.ID)
		if err != nil {
			c.mu.Lock()
			delete(c.reported, d.Node)
			c.mu.Unlock()
		}
		c.forgetPower(e) // the bus may have had the event long ago, before others
		return nil
	})
}

// noteReported remembers that the end of a node's work has been reported: only for an
// end that stays uncleared it is told again.
func (c *Conductor) noteReported(e work.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported[e.Node] = report{e.ID, time.Now()}
}

// Share is what this rackd has of its conductor groups.
type Share struct {
	Nodes int // in memory
	Owned int // of them, those that the ring gives to this rackd
	// Work is the open work that this rackd holds, by the node's state.
	Work map[string]int
}

// Share counts; it asks the ring about each node.
func (c *Conductor) Share() Share {
	s := Share{Work: map[string]int{}}
	for _, id := range c.cfg.Documents.Nodes() {
		if driver, group, known := c.cfg.Documents.Kind(id); known {
			s.Nodes++
			if c.cfg.Members.Owner(id, driver, group) == c.cfg.Name {
				s.Owned++
			}
		}
		if w := c.cfg.Documents.Work(id); w != nil && w.Doc.Open() && w.Doc.Owner == c.cfg.Name {
			s.Work[string(w.Doc.State)]++
		}
	}
	return s
}

// Open returns a copy of n with its secrets opened.
func (c *Conductor) Open(n *node.Document) (*node.Document, error) { return c.secrets.Open(n) }
