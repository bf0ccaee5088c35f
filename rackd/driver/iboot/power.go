package iboot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// with runs do when it is the caller's turn at the node's iBoot, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(target) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, bmc.Account{Address: t.address(), Sum: t.sum(), Node: n},
		func(context.Context) (session, error) { return session{}, nil },
		func(session) error { return do(t) })
	return bmc.Attempt{Node: n, Doing: doing, Device: "iBoot", BMC: t.address(), User: t.user, Secrets: []string{t.password},
		Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword}}.Explain(err)
}

// PowerTargets lists the supported targets. A relay asks no system to shut down, so there are no soft ones.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting}
}

// PowerState reads the relay.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(t target) error {
		on, err := d.read(ctx, t)
		state = map[bool]driver.PowerState{true: driver.PowerOn, false: driver.PowerOff}[on]
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower switches the relay, if it is not there. A reboot switches it off, waits for Hold, and switches it on.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: an iBoot knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
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
	// A write whose outcome is unknown would leave the machine off, so each half is settled.
	if err := driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOff) }); err != nil {
		return err
	}
	if err = driver.Pause(ctx, d.opts.Hold); err == nil {
		err = driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOn) })
	} else {
		err = fmt.Errorf("node %s: %w", n.Label(), err)
	}
	if err != nil && !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnknown) {
		err = fmt.Errorf("%w; the relay went off for a reboot, and was not yet told to go on again: %w", err, driver.ErrUnknown)
	}
	return err
}

func (d *Driver) switchTo(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(t target) error {
		on, err := d.read(ctx, t)
		if err != nil || on == (goal == driver.PowerOn) {
			return err
		}
		return d.write(ctx, f, t, goal == driver.PowerOn)
	})
}
