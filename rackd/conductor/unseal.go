package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// errUnsigned means that a work document is not one that central made.
var errUnsigned = errors.New("the work's authentication code is wrong: a party without the group's key wrote the work or changed it. Check which parties may write to the site's bus")

// unseal opens what central sealed for a piece of work. The work's id in the label counts only in a
// document that central made and that is no older than what the node's own document says: else a
// server of the bus could have the secrets of an earlier work opened by naming that one.
func (c *Conductor) unseal(d *work.Document, label seal.Label, sealed string) (string, error) {
	key, err := c.keyFor(d)
	if err != nil {
		return "", err
	}
	return key.Open(label, sealed)
}

// openArgs returns the arguments of a step as they were given. It waits for the document that takes the place of this
// work's, if there is one: central writes the node's before, and the way to the site may break in between. The wait is the
// step's, so that its deadline ends it.
func (r *runner) openArgs(ctx context.Context, s flowStep) (map[string]any, error) {
	if !seal.SealedArgs(s.Args) {
		return s.Args, nil
	}
	for {
		key, err := r.c.keyFor(&r.doc)
		if err == nil {
			return key.OpenArgs(work.StepLabel(r.node.UUID, r.root, s.Interface, s.Name), s.Args)
		}
		if !errors.Is(err, driver.ErrAwaited) {
			return nil, err
		}
		if late := r.sleep(ctx, s, time.Second); late != nil {
			return nil, fmt.Errorf("%w; it waits: %w", late, err)
		}
		if err := r.Check(); err != nil {
			return nil, err
		}
	}
}

// keyFor returns the key that opens what central sealed for a piece of work.
func (c *Conductor) keyFor(d *work.Document) (*seal.Key, error) {
	n := c.cfg.Documents.Node(d.Node)
	if n == nil {
		return nil, fmt.Errorf("this rackd no longer knows node %s", d.Node)
	}
	key := c.cfg.Keys.Of(n.Group)
	if key == nil {
		return nil, fmt.Errorf("this rackd has no key of conductor group %q", n.Group)
	}
	if !d.Signed(key) {
		c.log.Error("a work document does not come from central: rackd does not open its secrets", "node", d.Node, "work", d.ID, "continues", d.Args.Continues)
		c.cfg.Metrics.Forged(bus.WorkBucket)
		return nil, errUnsigned
	}
	if d.Generation < n.Generation {
		// The document that takes this one's place is on its way.
		return nil, fmt.Errorf("%w: work %s has generation %d, and the node has since accepted generation %d", driver.ErrAwaited, d.ID, d.Generation, n.Generation)
	}
	return key, nil
}

// pinned reports whether a rackd of the group wrote the agent into the checkpoint. One that is not pinned is forgotten: the
// machine's own agent has the token of the boot, and its next heartbeat pins it again.
func (c *Conductor) pinned(n *node.Document, d *work.Document) bool {
	key := c.cfg.Keys.Of(n.Group)
	if key == nil || d.AgentSigned(key) {
		return true
	}
	c.log.Error("rackd does not call the agent that a work document names, because its authentication code is wrong. A party without the group's key wrote it, or a rackd of an older version; "+
		"rackd accepts the machine's own agent again when it calls", "node", d.Node, "work", d.ID, "agent", d.Checkpoint.Agent.URL)
	c.cfg.Metrics.Forged(bus.WorkBucket)
	return false
}
