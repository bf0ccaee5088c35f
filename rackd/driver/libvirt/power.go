package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// with runs do on the node's machine when it is the caller's turn at its host, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(*session, golibvirt.Domain) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	if t.transport == local {
		if err := d.Validate(n); err != nil {
			return err
		}
	}
	err = d.pool.Use(ctx, t.trust(d.opts).Account(t.sum()),
		func(ctx context.Context) (*session, error) { return open(ctx, t, d.opts) },
		func(s *session) error {
			domain, err := s.find(ctx, t)
			if err != nil {
				return err
			}
			return do(s, domain)
		})
	return t.explain(n, doing, err)
}

// explain says what went wrong at the host.
func (t target) explain(n *node.Document, doing string, err error) error {
	return t.attempt(n, doing).Explain(err)
}

func (t target) attempt(n *node.Document, doing string) bmc.Attempt {
	return bmc.Attempt{Node: n, Doing: doing, Device: "libvirt", BMC: t.shown, User: t.user, Secrets: t.secrets(),
		Fields: bmc.Fields{Address: fieldURI, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}
}

// find looks the machine up, by its UUID or its name.
func (s *session) find(ctx context.Context, t target) (domain golibvirt.Domain, err error) {
	if id, isID := uuidOf(t.domain); isID {
		err = s.read(ctx, func() (err error) { domain, err = s.rpc.DomainLookupByUUID(id); return err })
	} else {
		err = s.read(ctx, func() (err error) { domain, err = s.rpc.DomainLookupByName(t.domain); return err })
	}
	return domain, err
}

// PowerTargets lists the supported targets.
func (d *Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftReboot, driver.SoftPowerOff}
}

// powered reads whether the machine is on. One that is paused or sleeps counts as on.
func (s *session) powered(ctx context.Context, domain golibvirt.Domain) (on bool, err error) {
	err = s.read(ctx, func() error {
		state, _, err := s.rpc.DomainGetState(domain, 0)
		off := golibvirt.DomainState(state) == golibvirt.DomainShutoff || golibvirt.DomainState(state) == golibvirt.DomainCrashed
		on = !off
		return err
	})
	return on, err
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(s *session, domain golibvirt.Domain) error {
		on, err := s.powered(ctx, domain)
		state = map[bool]driver.PowerState{true: driver.PowerOn, false: driver.PowerOff}[on]
		return err
	})
	return state, err
}

// SetPower starts and stops the machine. A reboot stops and starts it, so that a boot device that was set counts.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: libvirt knows no power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	if target != driver.Rebooting {
		return d.order(ctx, f, n, target)
	}
	state, err := d.PowerState(ctx, n)
	if err != nil {
		return err
	}
	if state == driver.PowerOff {
		return d.order(ctx, f, n, driver.PowerOn)
	}
	// A stop whose outcome is unknown would leave the machine off.
	if err := driver.Settle(func() error { return d.order(ctx, f, n, driver.PowerOff) }); err != nil {
		return err
	}
	err = driver.Settle(func() error { return d.order(ctx, f, n, driver.PowerOn) })
	if err != nil && !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnknown) {
		err = fmt.Errorf("%w; the machine was stopped for a reboot, and not yet started again: %w", err, driver.ErrUnknown)
	}
	return err
}

// order makes the call that leads to a target, if the machine is not there.
func (d *Driver) order(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", target), func(s *session, domain golibvirt.Domain) error {
		on, err := s.powered(ctx, domain)
		if err != nil {
			return err
		}
		calls := map[driver.PowerState]func() error{
			driver.PowerOn:      func() error { return s.rpc.DomainCreate(domain) },
			driver.PowerOff:     func() error { return s.rpc.DomainDestroy(domain) },
			driver.SoftPowerOff: func() error { return s.rpc.DomainShutdown(domain) },
			driver.SoftReboot:   func() error { return s.rpc.DomainReboot(domain, 0) },
		}
		if !on && target == driver.SoftReboot {
			target = driver.PowerOn
		}
		if on == (target == driver.PowerOn) && target != driver.SoftReboot {
			return nil
		}
		return s.write(ctx, f, calls[target])
	})
}

// InjectNMI sends a non-maskable interrupt.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, n, "inject an NMI", func(s *session, domain golibvirt.Domain) error {
		return s.write(ctx, f, func() error { return s.rpc.DomainInjectNmi(domain, 0) })
	})
}
