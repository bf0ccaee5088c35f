package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Errors of the agents' calls.
var (
	// ErrNoNode: nobody here may know the agent. One answer for an unknown machine,
	// for one in another state and for a caller that shows nothing, so that probing learns nothing.
	ErrNoNode = errors.New("no node with work for an agent has this address")
	// ErrBadToken: the heartbeat's token is not the one the lookup gave.
	ErrBadToken = errors.New("wrong agent token")
	// ErrBadCallback: the heartbeat's callback URL is not acceptable.
	ErrBadCallback = errors.New("unacceptable callback URL")
	// ErrNotOwner: another rackd runs the node's work.
	ErrNotOwner = errors.New("another rackd serves this node")
	// ErrInDoubt: another agent of the node has called before, and is being asked whether it is still there.
	ErrInDoubt = errors.New("another agent of this node has called before; this rackd asks it whether it is still there: try again")
)

// LookupAgent tells an agent which node it is on, and its token. It does so for the machine that
// was booted last (admit), until the first heartbeat; then the agent that sent it is asked first.
func (c *Conductor) LookupAgent(q ask.Lookup) (agentapi.LookupReply, error) {
	n := c.cfg.Documents.Node(q.Node)
	for _, mac := range q.Addresses {
		m := c.cfg.Documents.NodeByMAC(strings.ToLower(mac))
		switch {
		case m == nil || n != nil && m.UUID == n.UUID:
		case n == nil && q.Node == "":
			n = m
		default:
			c.refused(lookupCall, "several nodes", "addresses", q.Addresses, "from", q.From)
			return agentapi.LookupReply{}, ErrNoNode
		}
	}
	if n == nil {
		return agentapi.LookupReply{}, ErrNoNode
	}
	state, open := c.state(n)
	if !open || !state.In(provision.LookupAllowed) {
		return agentapi.LookupReply{}, ErrNoNode
	}
	r := c.runner(n.UUID)
	if r == nil {
		return agentapi.LookupReply{}, c.notOwner(n)
	}
	boot, err := c.admit(lookupCall, n, r, q.Caller)
	if err != nil {
		return agentapi.LookupReply{}, err
	}
	given := !q.Central && slices.Contains(c.addresses(n, boot), q.From)
	if err := r.greet(boot, q, given); err != nil {
		return agentapi.LookupReply{}, err
	}
	r.nudge()
	located := false
	if hw, err := c.cfg.Hardware.Resolve(n); err == nil {
		_, located = hw.Management().(driver.Located)
	}
	return agentapi.LookupReply{
		Node: agentapi.Shown(n.UUID, n.Properties, n.InstanceInfo),
		Config: agentapi.LookupConfig{HeartbeatTimeout: int(c.cfg.HeartbeatTimeout / time.Second), AgentTokenRequired: true, SkipBMCDetect: located,
			AgentToken: c.cfg.Keys.Of(n.Group).Token(n.UUID, r.root, boot.Number)},
	}, nil
}

// greet takes note of an agent that looks up its node, and refuses it where it runs on another
// machine than the node's (prove), or while another agent is known. given: it calls from an address that
// the machine is known to have been given, perhaps by this rackd alone, so that the next owner has to be told.
func (r *runner) greet(boot work.Boot, q ask.Lookup, given bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count.Number != boot.Number {
		return ErrNoNode // the machine has been booted again meanwhile
	}
	if err := r.prove(q.System, q.From.String()); err != nil {
		return err
	}
	if r.agent != nil && r.agent.URL != "" {
		return r.challenge(nil, q.From.String())
	}
	if r.count.System.UUID == "" {
		r.count.System.UUID = q.System.UUID
	}
	if r.count.System.Serial == "" {
		r.count.System.Serial = q.System.Serial
	}
	if r.agent == nil {
		r.agent = &work.Agent{}
	}
	r.agent.TokenGiven = true
	if given {
		r.count, _ = r.count.WithAddress(q.From)
	}
	return nil
}

// Heartbeat takes in an agent's call. It costs central nothing: the runner of the
// node's work looks at it and goes on where the work waits for the agent.
func (c *Conductor) Heartbeat(id string, hb ask.Heartbeat) error {
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return ErrNoNode
	}
	r := c.runner(id)
	if r == nil {
		if _, open := c.state(n); open {
			return c.notOwner(n)
		}
		return ErrNoNode
	}
	if err := c.CheckToken(id, hb.AgentToken); err != nil {
		c.refused(beatCall, "token", "node", id, "from", hb.From)
		return err
	}
	if hb.Status != "" || hb.StatusMessage != "" {
		err := fmt.Errorf("node %s: an installer reports %.20q (%s), but no deploy interface here waits for installers. agent_status belongs to Ironic's deploy interface anaconda, which is not supported. An agent in a ramdisk must not send it: %w",
			n.Label(), hb.Status, work.Text(hb.StatusMessage), driver.ErrInvalid)
		c.refused(beatCall, "installer", "node", id, "from", hb.From, "error", err)
		return err
	}
	if err := c.callable(n, r, hb); err != nil {
		c.refused(beatCall, "callback", "node", id, "from", hb.From, "callback", hb.CallbackURL, "error", err)
		return err
	}
	r.mu.Lock()
	if r.agent == nil {
		r.agent = &work.Agent{TokenGiven: true}
	}
	a := *r.agent
	fresh := a.URL == ""
	if !fresh && (a.URL != hb.CallbackURL || a.VerifyCA != hb.AgentVerifyCA || a.BootID != hb.Heartbeat.BootID) {
		err := r.challenge(&hb.Heartbeat, hb.From.String())
		r.mu.Unlock()
		return err
	}
	r.pin(&hb.Heartbeat)
	r.mu.Unlock()
	if fresh {
		r.log.Info("agent calls", "agent", hb.CallbackURL, "version", hb.AgentVersion)
	}
	r.nudge()
	return nil
}

// pin takes hb for that of the boot's agent. r.mu is held.
func (r *runner) pin(hb *agentapi.Heartbeat) {
	next := work.Agent{TokenGiven: true}
	if r.agent != nil {
		next = *r.agent
	}
	next.URL, next.VerifyCA, next.Version, next.BootID, next.LastSeen = hb.CallbackURL, hb.AgentVerifyCA, hb.AgentVersion, hb.BootID, r.tick()
	r.agent, r.beat = &next, true
	if hb.Command != nil && hb.Command.Progress != nil {
		r.progress = hb.Command.Progress
		if hb.Command.Status == agentapi.CommandRunning && r.moved(hb.Command.ID, hb.Command.Progress) {
			r.answers()
		}
	}
}

// Inspected takes in an inventory that a ramdisk sends of its own accord.
func (c *Conductor) Inspected(id string, i ask.Inspected) error {
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return ErrNoNode
	}
	r := c.runner(id)
	switch state, open := c.state(n); {
	case !open || state != provision.Inspecting && state != provision.InspectWait:
		return ErrNoNode
	case r == nil:
		return c.notOwner(n)
	}
	if _, err := c.admit(inspectedCall, n, r, i.Caller); err != nil {
		return err
	}
	r.mu.Lock()
	r.inspected, r.beat = &i.Inventory, true
	r.mu.Unlock()
	r.nudge()
	return nil
}

// sent is the inventory that the ramdisk has sent of its own accord.
func (r *runner) sent() *agentapi.Inventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspected
}

// CheckToken returns nil when token is that of the newest boot that the node's work in flight
// has caused, whoever runs it.
func (c *Conductor) CheckToken(id, token string) error {
	n, w := c.cfg.Documents.Node(id), c.cfg.Documents.Work(id)
	if n == nil || w == nil || !w.Doc.Open() {
		return ErrBadToken
	}
	if key := c.cfg.Keys.Of(n.Group); key == nil || !key.TokenFits(id, w.Doc.Root(), c.bootOf(n.UUID).Number, token) {
		return ErrBadToken
	}
	return nil
}

// NotOwnerError says which rackd runs a node's work, empty while nobody does. Group is
// the node's.
type NotOwnerError struct{ Node, Group, Owner string }

func (e *NotOwnerError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("node %s: no rackd has taken its work yet; try again", e.Node)
	}
	return fmt.Sprintf("node %s: %v: %s", e.Node, ErrNotOwner, e.Owner)
}

func (e *NotOwnerError) Unwrap() error { return ErrNotOwner }

func (c *Conductor) notOwner(n *node.Document) error {
	e := &NotOwnerError{Node: n.UUID, Group: n.Group}
	if w := c.cfg.Documents.Work(n.UUID); w != nil {
		e.Owner = w.Doc.Owner
	}
	return e
}

// state is the newest state known of n; open says whether it has work in flight. A work is older than its node's
// document while the one that a request beside the flow makes is on its way: then the flow goes on as before, and so
// does what its machine boots. Another state that central has accepted ends it.
func (c *Conductor) state(n *node.Document) (s provision.State, open bool) {
	w := c.cfg.Documents.Work(n.UUID)
	if w == nil || w.Doc.Generation < n.Generation && !(w.Doc.Open() && mayBeBeside(n.State)) {
		return n.State, false
	}
	s = w.Doc.State
	if s == "" {
		s = w.Doc.Entry
	}
	return s, w.Doc.Open()
}

// mayBeBeside reports whether a request that was accepted in a state may be one beside a flow.
func mayBeBeside(s provision.State) bool {
	return s != provision.Deleting && (provision.Transient(s) || held(s))
}

// listened is an agent whose answers count as signs of life: it may know only rackds that are
// dead by now, and send no heartbeats.
type listened struct {
	driver.Agent
	r *runner
}

// Start implements driver.Agent.
func (a listened) Start(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Start(ctx, f, id, name, params)
	a.fares(c, err)
	return c, err
}

// Call implements driver.Agent.
func (a listened) Call(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Call(ctx, f, id, name, params)
	a.fares(c, err)
	return c, err
}

// Command implements driver.Agent.
func (a listened) Command(ctx context.Context, id string) (agentapi.Command, bool, error) {
	c, ok, err := a.Agent.Command(ctx, id)
	a.fares(c, err)
	return c, ok, err
}

// Commands implements driver.Agent.
func (a listened) Commands(ctx context.Context) ([]agentapi.Command, error) {
	list, err := a.Agent.Commands(ctx)
	if err == nil {
		a.r.mu.Lock()
		a.r.answers()
		a.r.mu.Unlock()
	}
	return list, err
}

// fares takes in an answer of the agent about a command.
func (a listened) fares(c agentapi.Command, err error) {
	if err != nil {
		return
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if c.Status != agentapi.CommandRunning || c.Progress == nil || a.r.moved(c.ID, c.Progress) {
		a.r.answers()
	}
}

// answers notes that the agent has answered, or that its command has gone on: that is what moves a
// deadline. A heartbeat alone does not, for an agent that calls and cannot be called, or whose
// command hangs, would hold its node for ever. r.mu is held.
func (r *runner) answers() { r.heard, r.answered = true, time.Now() }

// moved reports whether a command that tells its progress has gone on since it was last
// looked at. r.mu is held.
func (r *runner) moved(id string, p *agentapi.Progress) bool {
	if r.far.id == id && r.far.done == p.DoneBytes {
		return false
	}
	r.far.id, r.far.done = id, p.DoneBytes
	return true
}
