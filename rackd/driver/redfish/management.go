package redfish

import (
	"context"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// modes pairs the boot modes.
var modes = map[string]schemas.BootSourceOverrideMode{
	"uefi": schemas.UEFIBootSourceOverrideMode,
	"bios": schemas.LegacyBootSourceOverrideMode,
}

// bootDevices are the boot devices that Redfish knows, in the order in which they are listed.
var bootDevices = []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom", "bios", "floppy", "safe", "uefihttp"}

func supported(s *System) (list []driver.BootDevice) {
	for _, d := range bootDevices {
		if _, err := targetFor(s, maker{}, d); err == nil {
			list = append(list, d)
		}
	}
	return list
}

// read runs look on the node's system.
func (d *Driver) read(ctx context.Context, n *node.Document, doing string, look func(*System) error) error {
	return d.pool.with(ctx, nil, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		return look(s)
	})
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// SupportedBootDevices lists the devices the BMC can be told to boot from.
func (d *Driver) SupportedBootDevices(ctx context.Context, n *node.Document) (list []driver.BootDevice, err error) {
	err = d.read(ctx, n, "list the boot devices", func(s *System) error {
		list = supported(s)
		return nil
	})
	return list, err
}

// BootDevice reads the boot override; without one the device is empty. A device that is set again before each start is
// one for good.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.change(ctx, nil, n, "read the boot device", func(s *System, c *gofish.APIClient) error {
		p, err := bootOf(c, s)
		if err != nil {
			return err
		}
		kept := d.again.Of(n).BootDevice
		persistent := p.now.BootSourceOverrideEnabled == schemas.ContinuousBootSourceOverrideEnabled
		if !persistent && p.now.BootSourceOverrideEnabled != schemas.OnceBootSourceOverrideEnabled {
			if kept != "" {
				persistent = true
				found = ask.BootDevice{Device: kept, Persistent: &persistent}
			}
			return nil
		}
		for device, targets := range bootTargets {
			if slices.Contains(targets, p.now.BootSourceOverrideTarget) {
				persistent = persistent || device == kept
				found = ask.BootDevice{Device: device, Persistent: &persistent}
			}
		}
		return nil
	})
	if err == nil && found.Device == "" {
		return d.iscsiDevice(ctx, n)
	}
	return found, err
}

// BootMode reads the mode of the boot override.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.read(ctx, n, "read the boot mode", func(s *System) error {
		for name, m := range modes {
			if m == s.Boot.BootSourceOverrideMode {
				mode = name
				return nil
			}
		}
		return fmt.Errorf("it does not report the boot mode: %w", driver.ErrUnsupported)
	})
	return mode, err
}

// SetBootMode sets the mode of the boot override, if it is another.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	want, ok := modes[mode]
	if !ok {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.pool.with(ctx, f, n, "set the boot mode to "+mode, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		p, err := bootOf(c, s)
		if err != nil {
			return err
		}
		if p.now.BootSourceOverrideMode == "" {
			return fmt.Errorf("it does not report the boot mode: %w", driver.ErrUnsupported)
		}
		want := override{BootSourceOverrideMode: want}
		if p.differs(want) == "" {
			return nil
		}
		if makerOf(c, s).needs(wholeBoot) {
			want.BootSourceOverrideTarget, want.BootSourceOverrideEnabled = p.now.BootSourceOverrideTarget, p.now.BootSourceOverrideEnabled
		}
		_, err = writeBoot(ctx, b, a, c, s, want)
		return err
	})
}

// Identity reads UUID, vendor, model, serial number and SKU. Of a BMC that is not to be believed in that it
// tells vendor and model only.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.pool.with(ctx, nil, n, "read the identity", func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		id = driver.Identity{UUID: s.UUID, Manufacturer: s.Manufacturer, Model: s.Model, Serial: s.SerialNumber, SKU: s.SKU}
		if a.ignored {
			id.UUID, id.Serial, id.SKU = "", "", ""
		}
		return nil
	})
	return id, err
}
