package msftocs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// kind is a boot device with the number by which it is set and the name by which it is read.
type kind struct {
	device driver.BootDevice
	number int
	name   string
}

var kinds = []kind{{driver.BootPXE, 2, "ForcePxe"}, {driver.BootDisk, 3, "ForceDefaultHdd"}, {"bios", 4, "ForceIntoBiosSetup"}}

// SupportedBootDevices are the same for all blades.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) (list []driver.BootDevice, err error) {
	for _, k := range kinds {
		list = append(list, k.device)
	}
	return list, nil
}

// next reads the device of the next start; empty for none of kinds.
func (c chassis) next(ctx context.Context) (driver.BootDevice, error) {
	r, err := c.read(ctx, "GetNextBoot")
	if err != nil {
		return "", err
	}
	for _, k := range kinds {
		if k.name == r.Next {
			return k.device, nil
		}
	}
	return "", nil
}

// BootDevice reads the device of the next start. The API does not tell whether it lasts: those that SetBootDevice sets do.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(c chassis) error {
		device, err := c.next(ctx)
		if device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice sets the device of the next starts, in the node's boot mode. It lasts, also where it is asked for once: what the API
// tells of the device would otherwise not say whether there is anything to write.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.device == device })
	if i < 0 {
		return fmt.Errorf("node %s: set_boot_device called with invalid device %s: a Chassis Manager has pxe, disk and bios: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(c chassis) error {
		is, err := c.next(ctx)
		if err != nil || is == device {
			return err
		}
		uefi := strconv.FormatBool(n.BootMode() == "uefi")
		if err := c.write(ctx, f, "SetNextBoot", "bootType="+strconv.Itoa(kinds[i].number), "uefi="+uefi, "persistent=true"); err != nil {
			return err
		}
		if is, err = c.next(ctx); err == nil && is != device {
			err = &bmc.Failure{Said: fmt.Sprintf("Success, and the next boot device is %q still", is)}
		}
		return err
	})
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: a Chassis Manager tells and takes no %s: %w", n.Label(), what, driver.ErrUnsupported)
}

// BootMode is not known. A boot device is set with that of the node's capability.
func (*Driver) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", without(n, "boot mode")
}

// SetBootMode is refused.
func (*Driver) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return without(n, "boot mode of its own; set the capability boot_mode")
}

// Identity is not known.
func (*Driver) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, without(n, "identity")
}

// InjectNMI is refused.
func (*Driver) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return without(n, "NMI")
}
