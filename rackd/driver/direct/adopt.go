package direct

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// Adopts implements driver.Adopter: a volume is no disk of the machine's, and a kernel may come by the network.
func (Interface) Adopts(n *node.Document) bool { return volume.Boots(n) || loadsKernel(n) }

// TakeOver looks at what the machine, which runs already, boots at its next start, and makes ready what the rack serves of it.
func (Interface) TakeOver(ctx context.Context, t *driver.Task) error {
	switch {
	case volume.Boots(t.Node):
		b, can := t.Hardware.Boot().(driver.VolumeBooter)
		if !can {
			return fmt.Errorf("boot a volume: %w", driver.Unsupported(t.Node, "boot", "boot from volume"))
		}
		return b.AdoptVolume(ctx, t)
	case loadsKernel(t.Node):
		// No deploy here has seen the root partition, so the instance names it.
		if !instancefiles.NamesRoot(t.Node) {
			return fmt.Errorf("node %s: its kernel comes by the network (boot_option netboot), and no deploy here knows the root partition: give root=UUID=… in instance_info %s: %w",
				t.Node.Label(), instancefiles.Arguments, driver.ErrInvalid)
		}
		return instancefiles.Fetch(ctx, t)
	}
	return nil
}
