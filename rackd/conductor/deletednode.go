package conductor

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/conductor/runner"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A node's document and its work go one after the other when the node is deleted. Work that goes alone was ended by another.
const (
	deletedWithin = 10 * time.Second
	deletedLook   = 250 * time.Millisecond
)

// takeBack takes back what the flow of r has made ready on the machine of n, where n was deleted in the middle of it. r runs no more.
// Where this rackd has only ceased to serve the node's group, the machine is the next owner's, who goes on with the flow.
func (c *Conductor) takeBack(ctx context.Context, r *runner.Runner, n *node.Document) {
	if !r.CutOff() {
		return
	}
	for end := time.Now().Add(deletedWithin); c.Knows(n.UUID); {
		if time.Now().After(end) || driver.Pause(ctx, deletedLook) != nil {
			return
		}
	}
	if !c.cfg.Documents.Deleted(n.UUID) {
		c.log.Info("a flow ends here, for this rackd does not serve the node's conductor group any more: the rackd that takes its work goes on", "node", n.UUID, "group", n.Group)
		return
	}
	r.TakeBack(ctx, c.LeftFence(n))
}
