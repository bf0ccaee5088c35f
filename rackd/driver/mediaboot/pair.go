package mediaboot

import (
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ValidateWith asks for a management interface that brings an image to the machine.
func (i Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	what, can := "has no virtual media", false
	if i.by == byHTTP {
		what = "cannot set a URL for the firmware to boot"
		_, can = h.Management().(driver.HTTPBooter)
	} else {
		_, can = h.Management().(driver.VirtualMedia)
	}
	if can {
		return nil
	}
	return fmt.Errorf("node %s: the boot interface %q brings an image to the machine, and the management interface %q %s: %w",
		n.Label(), h.Kinds()["boot"].Name, h.Kinds()["management"].Name, what, driver.ErrInvalid)
}
