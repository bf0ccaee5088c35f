package operators

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/provision"
)

// way is what to ask for on the way to active, by state.
var way = map[provision.State]string{provision.Enroll: "manage", provision.Manageable: "provide", provision.Available: "active",
	provision.DeployFail: "deleted", provision.CleanFail: "manage", provision.InspectFail: "manage", provision.Error: "deleted"}

// finish goes the way. Active nodes are deployed anew once, so that all have shown that
// they can be.
func (p *person) finish(ctx context.Context) error {
	deployed := false
	for {
		n, err := p.find(ctx)
		if err != nil {
			return fmt.Errorf("machine %s: %w", p.machine.Name, err)
		}
		var last string
		switch {
		case n.Maintenance:
			last = p.Client.Maintain(ctx, n.UUID, string(n.State), false).Fault
		case !n.Resting():
		case n.State == provision.Active && deployed:
			return nil
		case n.State == provision.Active:
			last = p.Client.Ask(ctx, n.UUID, string(n.State), "deleted").Fault
		case n.State == provision.Available:
			if r := p.Client.SetImage(ctx, n.UUID, p.Images[0]); r.Accepted() {
				r = p.Client.Ask(ctx, n.UUID, string(n.State), "active")
				last, deployed = r.Fault, r.Accepted()
			}
		default:
			verb, known := way[n.State]
			if !known {
				return fmt.Errorf("node %s (%s) is %q, from where no way leads on", n.UUID, n.Name, n.State)
			}
			last = p.Client.Ask(ctx, n.UUID, string(n.State), verb).Fault
		}
		if !p.rest(ctx) {
			return fmt.Errorf("node %s (%s) is still %q, bound for %q, held by %q; last error: %q; last answer: %q",
				n.UUID, n.Name, n.State, n.Target, n.Reservation, n.LastError, last)
		}
	}
}
