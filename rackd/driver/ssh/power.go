package ssh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

func (h host) powered(ctx context.Context) (bool, error) {
	text, err := h.read(ctx, h.kind.state(h.id))
	return err == nil && h.kind.on(text), err
}

// PowerState reads whether the machine runs. One that is paused counts as on.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(h host) error {
		on, err := h.powered(ctx)
		state = map[bool]driver.PowerState{true: driver.PowerOn, false: driver.PowerOff}[on]
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower starts and stops the machine. A reboot stops and starts it, so that a boot device that was set counts.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: the driver ssh knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	if goal != driver.Rebooting {
		return d.switchTo(ctx, f, n, goal)
	}
	state, err := d.PowerState(ctx, n)
	if err != nil {
		return err
	}
	if state == driver.PowerOff {
		return d.switchTo(ctx, f, n, driver.PowerOn)
	}
	// A stop whose outcome is unknown would leave the machine off.
	if err := driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOff) }); err != nil {
		return err
	}
	err = driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOn) })
	if err != nil && !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnknown) {
		err = fmt.Errorf("%w; the machine was stopped for a reboot, and was not yet started again: %w", err, driver.ErrUnknown)
	}
	return err
}

func (d *Driver) switchTo(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(h host) error {
		on, err := h.powered(ctx)
		if err != nil || on == (goal == driver.PowerOn) {
			return err
		}
		switch goal {
		case driver.PowerOff:
			return h.write(ctx, f, h.kind.stop(h.id), "")
		case driver.SoftPowerOff:
			return h.write(ctx, f, h.kind.shutdown(h.id), "")
		}
		if kept := d.boots.Of(n); h.kind.offOnly && kept.Device != "" {
			if err := h.setBoot(ctx, f, kept.Device); err != nil {
				return err
			}
			d.boots.Keep(n, "", false) // the machine has it now
		}
		return h.write(ctx, f, h.kind.start(h.id), "")
	})
}

func (h host) bootable() error {
	if len(h.kind.devices) == 0 {
		return &bmc.Failure{Class: bmc.Unsupported, Said: "by a command line that knows no boot devices"}
	}
	return nil
}

// SupportedBootDevices are none on VMware ESXi, and else the same.
func (d *Driver) SupportedBootDevices(_ context.Context, n *node.Document) ([]driver.BootDevice, error) {
	t, err := parse(n)
	if err != nil || len(t.kind.devices) == 0 {
		return nil, err
	}
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom"}, nil
}

// boot reads the first device; empty for one without a name here.
func (h host) boot(ctx context.Context) (device driver.BootDevice, text string, err error) {
	if err := h.bootable(); err != nil {
		return "", "", err
	}
	if text, err = h.read(ctx, h.kind.boot(h.id)); err != nil {
		return "", "", err
	}
	word := h.kind.first(text)
	for device, is := range h.kind.devices {
		if is == word {
			return device, text, nil
		}
	}
	return "", text, nil
}

// setBoot makes a device the first, if it is not.
func (h host) setBoot(ctx context.Context, f driver.Fence, device driver.BootDevice) error {
	is, text, err := h.boot(ctx)
	if err != nil || is == device {
		return err
	}
	word, input := h.kind.devices[device], ""
	if h.kind.input != nil {
		if input, err = h.kind.input(text, word); err != nil {
			return err
		}
	}
	return h.write(ctx, f, h.kind.setBoot(h.id, word), input)
}

// BootDevice reads the first device, or the one that is kept until the machine is off.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(h host) error {
		device, _, err := h.boot(ctx)
		if kept := d.boots.Of(n); err == nil && h.kind.offOnly && kept.Device != "" {
			device = kept.Device
		}
		if device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice makes a device the first. It counts at the machine's next start, and lasts, also where it is asked for once. Where
// that is refused while the machine is on, the device is kept until it is started.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	if len(t.kind.devices) > 0 && t.kind.devices[device] == "" {
		return fmt.Errorf("node %s: Invalid boot device %s specified: the driver ssh has pxe, disk and cdrom: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(h host) error {
		if err := h.bootable(); err != nil {
			return err
		}
		if h.kind.offOnly {
			on, err := h.powered(ctx)
			if err != nil {
				return err
			}
			if on {
				if err := f.Check(); err != nil {
					return err
				}
				d.boots.Keep(n, device, false)
				return nil
			}
		}
		if err := h.setBoot(ctx, f, device); err != nil {
			return err
		}
		d.boots.Keep(n, "", false)
		return nil
	})
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: the driver ssh tells and takes no %s: %w", n.Label(), what, driver.ErrUnsupported)
}

// BootMode is not known.
func (*Driver) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", without(n, "boot mode")
}

// SetBootMode is refused.
func (*Driver) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return without(n, "boot mode")
}

// Identity is not known.
func (*Driver) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, without(n, "identity")
}

// InjectNMI is refused.
func (*Driver) InjectNMI(_ context.Context, _ driver.Fence, n *node.Document) error {
	return without(n, "NMI")
}
