package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Boot options (section 28.13).
const (
	paramValidClearing = 3
	paramBootFlags     = 5

	// keepOnTimeout has the BMC keep the boot flags when the machine does not start within 60 s.
	keepOnTimeout = 0x08

	flagValid      = 0x80
	flagPersistent = 0x40
	flagUEFI       = 0x20

	// selectorRemote is "primary remote media". Supermicro's BMCs take it for the disk of UEFI.
	selectorRemote = 9
)

// devices pairs Ironic's boot devices with selectors.
var devices = []struct {
	device   driver.BootDevice
	selector uint8
}{
	{driver.BootPXE, 1}, {driver.BootDisk, 2}, {"safe", 3}, {"cdrom", 5}, {"bios", 6},
}

// bootFlags are what parameter 5 says.
type bootFlags struct {
	valid, persistent, uefi bool
	selector                uint8
}

func (b bootFlags) pack() []byte {
	flags := uint8(0)
	for bit, on := range map[uint8]bool{flagValid: b.valid, flagPersistent: b.persistent, flagUEFI: b.uefi} {
		if on {
			flags |= bit
		}
	}
	return []byte{paramBootFlags, flags, b.selector << 2, 0, 0, 0}
}

// device is the boot device in Ironic's word, empty for others.
func (b bootFlags) device() string {
	for _, d := range devices {
		if d.selector == b.selector {
			return string(d.device)
		}
	}
	if b.selector == selectorRemote && b.uefi {
		return string(driver.BootDisk)
	}
	return ""
}

// bootFlags reads parameter 5.
func (c *conn) bootFlags() (b bootFlags, err error) {
	data, err := c.ask(netFnChassis, cmdGetBoot, paramBootFlags, 0, 0)
	if codeOf(err) == 0x80 {
		return b, fmt.Errorf("it has no boot flags (%w): %w", err, driver.ErrUnsupported)
	}
	if err != nil {
		return b, err
	}
	if len(data) < 4 {
		return b, short("the boot flags", data)
	}
	return bootFlags{data[2]&flagValid != 0, data[2]&flagPersistent != 0, data[2]&flagUEFI != 0, data[3] >> 2 & 0x0F}, nil
}

// SupportedBootDevices lists the devices of Ironic's ipmitool. A BMC may refuse some.
func (d *Driver) SupportedBootDevices(context.Context, *node.Document) (list []driver.BootDevice, err error) {
	for _, d := range devices {
		list = append(list, d.device)
	}
	return list, nil
}

// BootDevice reads the boot device; without one in force it is empty. Of a BMC that does not remember it
// (ipmi_force_boot_device) it is what is set before each start.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, nil, n, "read the boot device", func(c *conn) error {
		b, err := c.bootFlags()
		if err != nil {
			return err
		}
		if always := d.forced.Of(n); c.force && always.before() != "" {
			persistent := !always.Once
			found = ask.BootDevice{Device: string(always.before()), Persistent: &persistent}
			return nil
		}
		if device := b.device(); b.valid && device != "" {
			found = ask.BootDevice{Device: device, Persistent: &b.persistent}
		}
		return nil
	})
	return found, err
}

// SetBootDevice sets the boot device for one start or for all, in the boot mode of the node. What is already so is not written.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	i := slices.IndexFunc(devices, func(m struct {
		device   driver.BootDevice
		selector uint8
	}) bool {
		return m.device == device
	})
	if i < 0 {
		return fmt.Errorf("node %s: IPMI has no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, f, n, fmt.Sprintf("set the boot device to %s", device), func(c *conn) error {
		want := bootFlags{valid: true, persistent: persistent && !c.force, uefi: n.BootMode() == "uefi", selector: devices[i].selector}
		err := c.setBoot(n, want)
		if c.force && errors.Is(err, errNotKept) && c.runs() {
			d.forced.later(n, device, persistent) // the BMC is told again before the start, and then it has to show the device
			return nil
		}
		if err == nil && c.force {
			d.forced.set(n, device, persistent)
		}
		return err
	})
}

// runs reports whether the machine is on. VirtualBMC shows the boot device that a machine was started with for as long as it runs.
func (c *conn) runs() bool {
	is, err := c.power()
	return err == nil && is == driver.PowerOn
}

// ClearOneStart implements driver.OneStartClearer: no boot flags are in force then.
func (d *Driver) ClearOneStart(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, f, n, "take back the boot device of one start", func(c *conn) error {
		if always := d.forced.Of(n); c.force && always.before() != "" {
			if always.Once { // it has not been told to the BMC
				d.forced.used(n)
			}
			return nil // what is for all starts is set again before each
		}
		is, err := c.bootFlags()
		if err != nil || !is.valid || is.persistent {
			return err
		}
		if _, err := c.tell(netFnChassis, cmdSetBoot, bootFlags{}.pack()...); err != nil {
			return err
		}
		if is, err = c.bootFlags(); err == nil && is.valid {
			err = fmt.Errorf("it accepted that no boot flags are in force, and shows those of %q as before: set a device for all starts, or look at the BMC", is.device())
		}
		return err
	})
}

// bootAgain sets the boot device before a start, for BMCs that do not remember it.
func (d *Driver) bootAgain(c *conn, n *node.Document) error {
	if !c.force {
		return nil
	}
	device := d.forced.Of(n).before()
	for _, m := range devices {
		if m.device == device {
			return c.setBoot(n, bootFlags{valid: true, uefi: n.BootMode() == "uefi", selector: m.selector})
		}
	}
	return nil
}

// setBoot writes the boot flags and reads them back.
func (c *conn) setBoot(n *node.Document, want bootFlags) error {
	device := want.device()
	if want.uefi && device == string(driver.BootDisk) {
		super, err := c.supermicro(n)
		if err != nil {
			return err
		}
		if super {
			want.selector = selectorRemote
		}
	}
	is, err := c.bootFlags()
	if err != nil {
		return err
	}
	if is == want {
		return nil
	}
	if c.noTimeout {
		if err := c.keepBoot(); err != nil {
			return err
		}
	}
	if _, err := c.tell(netFnChassis, cmdSetBoot, want.pack()...); err != nil {
		if code := codeOf(err); code == 0x80 || code == 0xC9 || code == 0xCC {
			return fmt.Errorf("it does not boot from %s (%w): %w", device, err, driver.ErrUnsupported)
		}
		return err
	}
	if is, err = c.bootFlags(); err != nil {
		return err
	}
	return c.kept(is, want)
}

// keepBoot has the BMC keep the boot flags for longer than 60 s. A BMC without that timer has nothing to be told. The order changes nothing
// of the machine, so it is given again where its answer is lost.
func (c *conn) keepBoot() (err error) {
	for range 2 {
		_, err = c.tell(netFnChassis, cmdSetBoot, paramValidClearing, keepOnTimeout)
		if lost, is := errors.AsType[*bmc.Lost](err); !is || !lost.Unknown || c.ctx.Err() != nil {
			break
		}
	}
	switch codeOf(err) {
	case 0x80, 0x82, 0xC1, 0xC7, 0xC9, 0xCC:
		return nil
	}
	return err
}

// errNotKept: the BMC shows another boot device than it was told.
var errNotKept = errors.New("accepted the boot device and did not keep it")

// kept compares the boot flags with what was asked for. A BMC that does not say that its flags are in force tells nothing of the others.
// The bit of UEFI is not held against a BMC: many boot in the mode that is set in the BIOS whatever it says.
func (c *conn) kept(is, want bootFlags) error {
	if is.device() != want.device() {
		return fmt.Errorf("it %w: it boots from %q: set it at the BMC, or give the node's boot order another way",
			errNotKept, strings.TrimSpace(is.device()+" "+fmt.Sprintf("(selector %d)", is.selector)))
	}
	if is.valid && is.persistent != want.persistent {
		if want.persistent {
			return fmt.Errorf("it keeps the boot device for one start only: set driver_info %s to true, and it is set before each start", fieldForce)
		}
		return errors.New("it keeps the boot device for all starts, although it was asked to for one: look at the BMC")
	}
	return nil
}

// BootMode is not to be read by IPMI; Ironic's ipmitool does not either. Each boot device is set for the node's boot mode.
func (d *Driver) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", driver.Unsupported(n, "management", "get_boot_mode")
}

// SetBootMode is not to be had by IPMI.
func (d *Driver) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return driver.Unsupported(n, "management", "set_boot_mode")
}
