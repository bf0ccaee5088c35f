// Package agentpower is the power interface "agent", Ironic's: nothing reaches the machine but the agent in its ramdisk.
//
// It may import rackd/driver and protocol. The flows ask the agent themselves (driver.Task.ByAgent): what arrives here is
// what no agent was there for, and is refused. Nothing tells the power state.
package agentpower

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Interface implements driver.Power. Safe for concurrent use.
type Interface struct{}

// Properties is empty: nothing of the node is read.
func (Interface) Properties() map[string]string { return nil }

// Validate accepts every node.
func (Interface) Validate(*node.Document) error { return nil }

// PowerTargets are what an agent can do to the machine that it runs on and that is to run on.
func (Interface) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.Rebooting, driver.SoftReboot}
}

// PowerState is empty: not known.
func (Interface) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return "", nil
}

// SetPower refuses: a caller that has the machine's agent asks that.
func (Interface) SetPower(_ context.Context, _ driver.Fence, n *node.Document, target driver.PowerState) error {
	switch target {
	case driver.Rebooting, driver.SoftReboot:
		offline := fmt.Sprintf("Agent seems offline for node %s, the agent power interface cannot be used", n.UUID)
		return fmt.Errorf("%s: switch the machine by hand: %w", offline, driver.ErrUnsupported)
	}
	return fmt.Errorf("node %s: Failed to set node power state to %s. The power interface agent reboots a machine through its agent, and does nothing else: switch it by hand: %w",
		n.Label(), target, driver.ErrUnsupported)
}
