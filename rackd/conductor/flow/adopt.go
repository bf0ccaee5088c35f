package flow

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// adoptFlow makes a machine that runs its instance already one of ours, and writes nothing to it. As in Ironic, the power has to be
// known. What boots is looked at where that is not the machine's own disk. An instance that the network or a medium brings needs
// its files in the rack, and a volume has to be the one that the machine boots.
func adoptFlow(c *Catalog, d *work.Document, t *driver.Task) ([]Step, error) {
	steps, err := verified(c, d, t)
	if err != nil {
		return nil, err
	}
	a, can := t.Hardware.Deploy().(driver.Adopter)
	switch {
	case can && a.Adopts(t.Node):
		steps[0] = validateStep("power", "management", "boot", "deploy", "storage")
		steps = append(steps, Step{Own: true, Step: driver.Step{Interface: "conductor", Name: "take_over", Kind: driver.Repeatable, Retries: 2, Pause: 10 * time.Second, Apart: true,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Done(), a.TakeOver(ctx, t)
			}}})
	case driver.NetbootAsked(t.Node):
		steps[0] = validateStep("power", "management", "boot", "deploy", "storage")
	}
	return steps, nil
}
