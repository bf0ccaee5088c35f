package operators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// way is what to ask for on the way to available and active, by state.
var way = map[provision.State]string{provision.Enroll: "manage", provision.Manageable: "provide", provision.Available: "active",
	provision.Active: "deleted", provision.DeployFail: "deleted", provision.CleanFail: "manage", provision.InspectFail: "manage", provision.Error: "deleted"}

// Reach brings a node to want, which is available or active, by whatever way leads
// there; image is the instance_info of a deploy on it. It fails when ctx ends, or where
// no way leads on.
func (c *Client) Reach(ctx context.Context, node string, want provision.State, image map[string]any) error {
	for {
		n, err := c.Show(ctx, node)
		if err != nil {
			return err
		}
		var last string
		switch {
		case n.Maintenance:
			last = c.Maintain(ctx, n.UUID, string(n.State), false).Fault
		case !n.Resting():
		case n.State == want:
			return nil
		default:
			verb, known := way[n.State]
			if !known {
				return fmt.Errorf("node %s (%s) is %q, from where no way leads to %q", n.UUID, n.Name, n.State, want)
			}
			if n.State == provision.Available && !c.SetImage(ctx, n.UUID, image).Accepted() {
				break // an undeploy has taken it away, and it is set again
			}
			last = c.Ask(ctx, n.UUID, string(n.State), verb).Fault
		}
		t := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("node %s (%s) is still %q, bound for %q, held by %q; last error: %q; last answer: %q: %w",
				n.UUID, n.Name, n.State, n.Target, n.Reservation, n.LastError, last, context.Cause(ctx))
		case <-t.C:
		}
	}
}

// finish brings the machine to active by a new deploy, from wherever it is.
func (p *person) finish(ctx context.Context) error {
	n, err := p.find(ctx)
	for err != nil && p.rest(ctx) {
		n, err = p.find(ctx) // the node may have to be enrolled anew
	}
	if err != nil {
		return fmt.Errorf("machine %s: %w", p.machine.Name, err)
	}
	if err := p.Client.Reach(ctx, n.UUID, provision.Available, nil); err != nil {
		return err
	}
	return p.Client.Reach(ctx, n.UUID, provision.Active, p.Images[0])
}

// EndMaintenance takes the nodes of all machines out of maintenance, in which people have left them when their work
// ended: a flow in maintenance waits for that, however long it takes (decision 76).
func (c *Crew) EndMaintenance(ctx context.Context) error {
	for _, m := range c.Machines {
		for {
			n, err := c.Client.Show(ctx, m.Name)
			if errors.Is(err, ErrNotFound) || err == nil && !n.Maintenance {
				break
			}
			if err == nil {
				c.Client.Maintain(ctx, n.UUID, string(n.State), false)
			}
			t := time.NewTimer(lookEvery)
			select {
			case <-ctx.Done():
				t.Stop()
				return fmt.Errorf("machine %s is still in maintenance: %w", m.Name, errors.Join(err, context.Cause(ctx)))
			case <-t.C:
			}
		}
	}
	return nil
}
