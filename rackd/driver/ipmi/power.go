package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Network functions and commands (appendix G).
const (
	netFnChassis = 0x00
	netFnApp     = 0x06

	cmdChassisStatus  = 0x01
	cmdChassisControl = 0x02
	cmdIdentify       = 0x04
	cmdSetBoot        = 0x08
	cmdGetBoot        = 0x09

	cmdDeviceID  = 0x01
	cmdColdReset = 0x02
	cmdWarmReset = 0x03
)

// Chassis controls (section 28.3).
const (
	controlOff       = 0x00
	controlOn        = 0x01
	controlCycle     = 0x02
	controlReset     = 0x03
	controlInterrupt = 0x04
	controlSoftOff   = 0x05
)

// PowerTargets lists the supported targets; they are those of Ironic's ipmitool.
func (d *Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftReboot, driver.SoftPowerOff}
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, nil, n, "read the power state", func(c *conn) (err error) {
		state, err = c.power()
		return err
	})
	return state, err
}

func (c *conn) power() (driver.PowerState, error) {
	status, err := c.ask(netFnChassis, cmdChassisStatus)
	switch {
	case err != nil:
		return "", err
	case len(status) < 3: // section 28.2
		return "", short("the chassis's status", status)
	case status[0]&1 != 0:
		return driver.PowerOn, nil
	}
	return driver.PowerOff, nil
}

// SetPower asks for target, if the machine is not there. A reboot of a machine that is off switches it on. A soft reboot
// waits for the machine to be off.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: IPMI has no power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	if target == driver.SoftReboot {
		return d.softReboot(ctx, f, n)
	}
	return d.with(ctx, f, n, fmt.Sprintf("set the power to %q", target), func(c *conn) error { return d.reach(c, n, target) })
}

func (d *Driver) reach(c *conn, n *node.Document, target driver.PowerState) error {
	is, err := c.power()
	if err != nil {
		return err
	}
	off := is == driver.PowerOff
	switch {
	case target == driver.PowerOn && !off:
		d.forced.seen(n)
		return nil
	case (target == driver.PowerOff || target == driver.SoftPowerOff) && off:
		return nil
	case target == driver.PowerOff:
		return c.control(controlOff, driver.PowerOff)
	case target == driver.SoftPowerOff:
		return c.control(controlSoftOff, driver.PowerOff)
	}
	if err := d.bootAgain(c, n); err != nil {
		return err
	}
	err = c.start(off, n.DisablePowerOff)
	if c.force {
		d.forced.started(n, err)
	}
	return err
}

// start starts the machine, from off or once more. keeps: its power must not be switched off.
func (c *conn) start(off, keeps bool) error {
	switch {
	case off:
		return c.control(controlOn, driver.PowerOn)
	case keeps:
		return c.control(controlReset, "")
	}
	err := c.control(controlCycle, "")
	if code := codeOf(err); code == 0xC1 || code == 0xC9 || code == 0xCC || code == 0xD5 || code == 0xD6 { // cycling is optional (section 28.3)
		return c.control(controlReset, "")
	}
	return err
}

// control gives a chassis control that leads to goal. A refusal is none if the machine got there by itself between reading and writing.
func (c *conn) control(control uint8, goal driver.PowerState) error {
	_, err := c.tell(netFnChassis, cmdChassisControl, control)
	if f, refused := errors.AsType[*bmc.Failure](err); !refused || f.Class == bmc.Denied || f.Class == bmc.Unknown {
		return err
	}
	if goal != "" {
		if now, readErr := c.power(); readErr == nil && now == goal {
			return nil
		}
	}
	if code := codeOf(err); code == 0xC9 || code == 0xCC {
		return fmt.Errorf("%w: it does not have that chassis control: %w", err, driver.ErrUnsupported)
	}
	return err
}

// softPoll is how often a machine's power is read while it switches itself off.
const softPoll = 2 * time.Second

// softReboot switches the machine off in the way of its operating system, and on again. The BMC is free for others meanwhile. A
// rackd that goes on with it finds the machine off, and switches it on.
func (d *Driver) softReboot(ctx context.Context, f driver.Fence, n *node.Document) error {
	if n.DisablePowerOff {
		return fmt.Errorf("node %s: IPMI has no soft reboot but by switching off, which disable_power_off forbids: %w", n.Label(), driver.ErrUnsupported)
	}
	if err := d.SetPower(ctx, f, n, driver.SoftPowerOff); err != nil {
		return err
	}
	pause, until := 100*time.Millisecond, time.Now().Add(d.opts.SoftOff)
	for {
		state, err := d.PowerState(ctx, n)
		switch {
		case err == nil && state == driver.PowerOff:
			return d.SetPower(ctx, f, n, driver.PowerOn)
		case err != nil && !errors.Is(err, driver.ErrUnreachable):
			return err
		case time.Now().After(until) && err != nil:
			return err
		case time.Now().After(until):
			return fmt.Errorf("node %s: a soft reboot was asked for, and the machine has not switched itself off in %s: does its operating system listen to ACPI?", n.Label(), d.opts.SoftOff)
		}
		if err := driver.Pause(ctx, pause); err != nil {
			return fmt.Errorf("node %s: waiting for the machine to switch itself off: %w", n.Label(), context.Cause(ctx))
		}
		pause = min(2*pause, softPoll)
	}
}

// InjectNMI sends a diagnostic interrupt.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, f, n, "inject an NMI", func(c *conn) error { return c.control(controlInterrupt, "") })
}
