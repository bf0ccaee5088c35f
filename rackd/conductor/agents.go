package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Errors of the agents' calls.
var (
	// ErrNoNode: nobody here may know the agent. One answer for an unknown machine
	// and for one in another state, so that probing learns nothing.
	ErrNoNode = errors.New("no node with work for an agent has this address")
	// ErrBadToken: the heartbeat's token is not the one the lookup gave.
	ErrBadToken = errors.New("wrong agent token")
	// ErrBadCallback: the heartbeat's callback URL is not acceptable.
	ErrBadCallback = errors.New("unacceptable callback URL")
	// ErrNotOwner: another rackd runs the node's work.
	ErrNotOwner = errors.New("another rackd serves this node")
)

// LookupAgent tells an agent which node it is on. The token is given until an agent
// has shown it, once for each boot of the ramdisk.
func (c *Conductor) LookupAgent(macs []string, id string) (agentapi.LookupReply, error) {
	n := c.cfg.Documents.Node(id)
	for _, mac := range macs {
		m := c.cfg.Documents.NodeByMAC(strings.ToLower(mac))
		switch {
		case m == nil || n != nil && m.UUID == n.UUID:
		case n == nil && id == "":
			n = m
		default:
			return agentapi.LookupReply{}, fmt.Errorf("%w: its addresses belong to several nodes", ErrNoNode)
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
	key := c.cfg.Keys.Of(n.Group)
	if key == nil {
		return agentapi.LookupReply{}, ErrNoNode
	}
	token := key.Token(n.UUID, r.root)
	r.mu.Lock()
	if r.agent == nil {
		r.agent = &work.Agent{}
	}
	if r.agent.TokenGiven && r.agent.URL != "" {
		// An agent has shown it. Before that the answer may have been lost on its way,
		// with the rackd that gave it.
		token = agentapi.Masked
	}
	r.agent.TokenGiven = true
	r.mu.Unlock()
	r.nudge()
	return agentapi.LookupReply{
		Node: agentapi.LookupNode{UUID: n.UUID, Properties: n.Properties, DriverInternalInfo: map[string]any{},
			InstanceInfo: seal.MaskFields(n.InstanceInfo, agentapi.Masked)},
		Config: agentapi.LookupConfig{HeartbeatTimeout: int(c.cfg.HeartbeatTimeout / time.Second), AgentToken: token, AgentTokenRequired: true},
	}, nil
}

// Heartbeat takes in an agent's call. It costs central nothing: the runner of the
// node's work looks at it and goes on where the work waits for the agent.
func (c *Conductor) Heartbeat(id string, hb agentapi.Heartbeat) error {
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
		return err
	}
	if hb.Status != "" {
		r.Phase("installer", strings.TrimSuffix(hb.Status+": "+hb.StatusMessage, ": "))
		return nil
	}
	if !strings.HasPrefix(hb.CallbackURL, "https://") {
		return fmt.Errorf("%w: %q must be https", ErrBadCallback, hb.CallbackURL)
	}
	r.mu.Lock()
	if r.agent == nil {
		r.agent = &work.Agent{TokenGiven: true}
	}
	a := r.agent
	if a.URL != "" && a.BootID == hb.BootID && a.URL != hb.CallbackURL {
		r.mu.Unlock()
		return fmt.Errorf("%w: it changed from %s to %s without a reboot", ErrBadCallback, a.URL, hb.CallbackURL)
	}
	fresh := a.URL == ""
	next := *a
	next.URL, next.VerifyCA, next.Version, next.BootID, next.LastSeen = hb.CallbackURL, hb.AgentVerifyCA, hb.AgentVersion, hb.BootID, r.tick()
	r.agent, r.beat = &next, true
	if hb.Command != nil && hb.Command.Progress != nil {
		r.progress = hb.Command.Progress
	}
	r.mu.Unlock()
	if fresh {
		r.log.Info("agent calls", "agent", hb.CallbackURL, "version", hb.AgentVersion)
	}
	r.nudge()
	return nil
}

// Inspected takes in an inventory that a ramdisk sends of its own accord.
func (c *Conductor) Inspected(id string, inv agentapi.Inventory) error {
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
	r.mu.Lock()
	r.inspected, r.beat = &inv, true
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

// CheckToken returns nil when token is that of the node's work in flight, whoever
// runs it.
func (c *Conductor) CheckToken(id, token string) error {
	n, w := c.cfg.Documents.Node(id), c.cfg.Documents.Work(id)
	if n == nil || w == nil || !w.Doc.Open() {
		return ErrBadToken
	}
	if key := c.cfg.Keys.Of(n.Group); key == nil || !key.TokenFits(id, w.Doc.Root(), token) {
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

// state is the newest state known of n; open says whether it has work in flight.
func (c *Conductor) state(n *node.Document) (s provision.State, open bool) {
	w := c.cfg.Documents.Work(n.UUID)
	if w == nil || w.Doc.Generation < n.Generation {
		return n.State, false
	}
	s = w.Doc.State
	if s == "" {
		s = w.Doc.Entry
	}
	return s, w.Doc.Open()
}

// bootsAgain forgets the agent: the machine has asked for the ramdisk, so no agent of
// before runs any more, and the next one may ask for the token.
func (r *runner) bootsAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent != nil {
		r.agent = nil
		clear(r.seen)
		r.log.Info("machine boots the ramdisk again; its agent of before is forgotten")
	}
}

// listened is an agent whose answers count as signs of life, like its heartbeats: it
// may know only rackds that are dead by now.
type listened struct {
	driver.Agent
	r *runner
}

// Start implements driver.Agent.
func (a listened) Start(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Start(ctx, f, id, name, params)
	a.heard(err)
	return c, err
}

// Call implements driver.Agent.
func (a listened) Call(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	c, err := a.Agent.Call(ctx, f, id, name, params)
	a.heard(err)
	return c, err
}

// Command implements driver.Agent.
func (a listened) Command(ctx context.Context, id string) (agentapi.Command, bool, error) {
	c, ok, err := a.Agent.Command(ctx, id)
	a.heard(err)
	return c, ok, err
}

// Commands implements driver.Agent.
func (a listened) Commands(ctx context.Context) ([]agentapi.Command, error) {
	list, err := a.Agent.Commands(ctx)
	a.heard(err)
	return list, err
}

func (a listened) heard(err error) {
	if err == nil {
		a.r.mu.Lock()
		a.r.heard = true
		a.r.mu.Unlock()
	}
}
