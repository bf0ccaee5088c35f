package none

import (
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Management is the management interface "noop", as Ironic has it: of machines without a BMC. Their firmware tries the
// network first and their disk then, and rackd cannot change that.
type Management struct{ Noop }

var bootDevices = []driver.BootDevice{driver.BootPXE, driver.BootDisk}

// FixedBootOrder implements driver.FixedBootOrder.
func (Management) FixedBootOrder() {}

// SupportedBootDevices are those of the order.
func (Management) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return slices.Clone(bootDevices), nil
}

// BootDevice is the network, always: it is tried first at each start.
func (Management) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	persistent := true
	return ask.BootDevice{Device: string(driver.BootPXE), Persistent: &persistent}, nil
}

// SetBootDevice changes nothing: a machine that tries its devices in that order needs no change. Other devices are refused.
func (Management) SetBootDevice(_ context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, _ bool) error {
	if !slices.Contains(bootDevices, d) {
		return fmt.Errorf("node %s: %w", n.Label(), driver.Refuse("Invalid boot device %s specified, supported are pxe, disk", d))
	}
	return f.Check()
}

// BootMode is not known.
func (Management) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", driver.Unsupported(n, "management", "get_boot_mode")
}

// SetBootMode is not possible.
func (Management) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return driver.Unsupported(n, "management", "set_boot_mode")
}

// Identity is not known.
func (Management) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, driver.Unsupported(n, "management", "detect_vendor")
}

// InjectNMI is not possible.
func (Management) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return driver.Unsupported(n, "management", "inject_nmi")
}
