package conductor

import (
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Aside returns the fence for a write beside the node's work, and what is to be called after the write. ok is false
// unless the work runs here and does nothing but wait, for the machine or for an operator.
func (c *Conductor) Aside(node string) (f driver.Fence, done func(), ok bool) {
	r := c.runner(node)
	if r == nil {
		return nil, nil, false
	}
	return r.Aside()
}

// CheckFlow says what speaks against the steps of a flow that central is about to accept.
func (c *Conductor) CheckFlow(f ask.Flow, n *node.Document, hw *driver.Hardware) error {
	return c.flows.CheckFlow(f, n, hw)
}

// CheckChange says what speaks against a change of the machine. It asks the machine nothing.
func (c *Conductor) CheckChange(ch *work.Change, n *node.Document, hw *driver.Hardware) error {
	return c.flows.CheckChange(ch, n, hw)
}
