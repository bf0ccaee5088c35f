package conductor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/runner"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// LookupAgent tells an agent which node it is on, and its token. It does so for the machine that
// was booted last (admit), until the first heartbeat; then the agent that sent it is asked first.
func (c *Conductor) LookupAgent(q ask.Lookup) (agentapi.LookupReply, error) {
	n, others := c.called(q)
	if n == nil {
		return agentapi.LookupReply{}, refusal.ErrNoNode
	}
	state, open := c.state(n)
	if !open || !state.In(provision.LookupAllowed) {
		return agentapi.LookupReply{}, refusal.ErrNoNode
	}
	r := c.runner(n.UUID)
	if r == nil {
		return agentapi.LookupReply{}, c.notOwner(n)
	}
	boot, err := c.admit(refusal.LookupCall, n, r, q.Caller)
	if err != nil {
		return agentapi.LookupReply{}, err
	}
	if len(others) > 0 && q.BootID == "" {
		c.refused(refusal.LookupCall, "several nodes", "addresses", q.Addresses, "from", q.From)
		return agentapi.LookupReply{}, refusal.ErrNoNode
	}
	given := !q.Central && slices.Contains(c.addresses(n, boot), q.From)
	if err := r.Greet(boot, q, given); err != nil {
		return agentapi.LookupReply{}, err
	}
	if len(others) > 0 {
		r.Phase("address of another node", fmt.Sprintf("the machine has an address that a port of %s has: an operator should delete that port", strings.Join(others, " and ")))
	}
	r.Nudge()
	_, located := c.cfg.Hardware.ManagementOf(n).(driver.Located)
	return agentapi.LookupReply{
		Node: agentapi.Shown(n.UUID, n.Properties, n.InstanceInfo),
		Config: agentapi.LookupConfig{HeartbeatTimeout: int(c.cfg.HeartbeatTimeout / time.Second), AgentTokenRequired: true, SkipBMCDetect: located,
			AgentToken: c.cfg.Keys.Of(n.Group).Token(n.UUID, r.Root(), boot.Number)},
	}, nil
}

// called returns the node that a lookup is about, nil for none, and the other nodes that have ports with addresses of the
// machine. Anybody may enrol a port with an address that is not yet known here. It takes nothing from the machine: where a
// lookup names several nodes, it is about the one that it names by UUID, or else by the id of its boot.
func (c *Conductor) called(q ask.Lookup) (n *node.Document, others []string) {
	n = c.cfg.Documents.Node(q.Node)
	var all []*node.Document
	for _, mac := range q.Addresses {
		m := c.cfg.Documents.NodeByMAC(strings.ToLower(mac))
		if m != nil && !slices.ContainsFunc(all, func(a *node.Document) bool { return a.UUID == m.UUID }) {
			all = append(all, m)
		}
	}
	switch {
	case n != nil:
	case q.Node == "" && len(all) == 1:
		n = all[0]
	case q.Node == "":
		if i := slices.IndexFunc(all, func(a *node.Document) bool { return c.booted(a, q.BootID) }); i >= 0 {
			n = all[i]
		}
	}
	if n == nil {
		if len(all) > 0 {
			c.refused(refusal.LookupCall, "several nodes", "addresses", q.Addresses, "from", q.From)
		}
		return nil, nil
	}
	for _, m := range all {
		if m.UUID != n.UUID {
			others = append(others, "node "+m.UUID)
		}
	}
	return n, others
}

// booted reports whether id is that of the newest boot of a node's machine.
func (c *Conductor) booted(n *node.Document, id string) bool {
	w, key := c.cfg.Documents.Work(n.UUID), c.cfg.Keys.Of(n.Group)
	return id != "" && w != nil && key != nil && key.BootIDFits(n.UUID, w.Doc.Root(), c.bootOf(n.UUID).Number, id)
}

// Heartbeat takes in an agent's call. It costs central nothing: the runner of the
// node's work looks at it and goes on where the work waits for the agent.
func (c *Conductor) Heartbeat(id string, hb ask.Heartbeat) error {
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return refusal.ErrNoNode
	}
	r := c.runner(id)
	if r == nil {
		if _, open := c.state(n); open {
			return c.notOwner(n)
		}
		return refusal.ErrNoNode
	}
	boot, err := c.bootOfToken(n, hb.AgentToken)
	if err != nil {
		c.refused(refusal.HeartbeatCall, "token", "node", id, "from", hb.From)
		return err
	}
	if hb.Status != "" || hb.StatusMessage != "" {
		return c.installerSays(n, r, boot, hb)
	}
	if r.Installs() {
		err := fmt.Errorf("node %s: its machine boots an installer now, and no agent: %w", n.Label(), driver.ErrInvalid)
		c.refused(refusal.HeartbeatCall, "installer", "node", id, "from", hb.From, "error", err)
		return err
	}
	if err := c.callable(n, boot, hb); err != nil {
		c.refused(refusal.HeartbeatCall, "callback", "node", id, "from", hb.From, "callback", hb.CallbackURL, "error", err)
		return err
	}
	return r.Beat(boot, hb)
}

// installerSays takes in what an installer that is no agent says of itself.
func (c *Conductor) installerSays(n *node.Document, r *runner.Runner, boot work.Boot, hb ask.Heartbeat) error {
	var err error
	switch {
	case !r.Installs():
		err = fmt.Errorf("node %s: an installer reports %.20q (%s), but its deploy waits for none. agent_status belongs to the deploy interface anaconda. An agent in a ramdisk must not send it: %w",
			n.Label(), hb.Status, work.Text(hb.StatusMessage), driver.ErrInvalid)
	case !slices.Contains([]string{driver.InstallerStarted, driver.InstallerEnded, driver.InstallerFailed}, hb.Status):
		err = fmt.Errorf("node %s: an installer reports %.20q: agent_status is start, end or error: %w", n.Label(), hb.Status, driver.ErrInvalid)
	default:
		err = r.Report(boot, hb)
	}
	if err != nil {
		c.refused(refusal.HeartbeatCall, "installer", "node", n.UUID, "from", hb.From, "error", err)
	}
	return err
}

// Inspected takes in an inventory that a ramdisk sends of its own accord.
func (c *Conductor) Inspected(id string, i ask.Inspected) error {
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return refusal.ErrNoNode
	}
	r := c.runner(id)
	switch state, open := c.state(n); {
	case !open || state != provision.Inspecting && state != provision.InspectWait:
		return refusal.ErrNoNode
	case r == nil:
		return c.notOwner(n)
	}
	boot, err := c.admit(refusal.InspectionCall, n, r, i.Caller)
	if err != nil {
		return err
	}
	return r.TakeInventory(boot, &i.Inventory)
}

// CheckToken returns nil when token is that of the newest boot that the node's work in flight
// has caused, here or at another rackd.
func (c *Conductor) CheckToken(id, token string) error {
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return refusal.ErrBadToken
	}
	_, err := c.bootOfToken(n, token)
	return err
}

// bootOfToken returns that boot, or why token is not its. The next boot may be counted at any moment after: what a call with
// the token changes, it changes only where the boot is still the newest.
func (c *Conductor) bootOfToken(n *node.Document, token string) (work.Boot, error) {
	w := c.cfg.Documents.Work(n.UUID)
	if w == nil || !w.Doc.Open() {
		return work.Boot{}, refusal.ErrBadToken
	}
	boot := c.bootOf(n.UUID)
	if key := c.cfg.Keys.Of(n.Group); key == nil || !key.TokenFits(n.UUID, w.Doc.Root(), boot.Number, token) {
		return boot, refusal.ErrBadToken
	}
	return boot, nil
}

func (c *Conductor) notOwner(n *node.Document) error {
	e := &refusal.NotOwnerError{Node: n.UUID, Group: n.Group}
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
	info, _ := provision.Describe(s)
	return s != provision.Deleting && (provision.Transient(s) || info.Kind == provision.Held)
}
