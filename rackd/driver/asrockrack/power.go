package asrockrack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	providererrors "github.com/bmc-toolbox/bmclib/v2/errors"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// orders are the provider's words for power targets.
var orders = map[driver.PowerState]string{driver.PowerOn: "on", driver.PowerOff: "off", driver.SoftPowerOff: "soft", driver.Rebooting: "reset"}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, nil, n, "read the power state", func(s *session) (err error) { state, err = s.power(ctx); return err })
	if err != nil {
		return "", err
	}
	return state, nil
}

func (s *session) power(ctx context.Context) (driver.PowerState, error) {
	state, err := s.api.PowerStateGet(ctx)
	switch {
	case errors.Is(err, providererrors.ErrBMCUpdating):
		return "", &bmc.Failure{Class: bmc.Busy, Said: "that it writes its own firmware: " + s.wire.clean(err.Error())}
	case err != nil:
		return "", s.wire.sorted(err)
	case !s.wire.tells("power_status"):
		return "", s.wire.unread(errors.New("it tells no power_status"), false)
	case state == "On":
		return driver.PowerOn, nil
	}
	return driver.PowerOff, nil
}

// SetPower gives a power order, if the machine is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: a BMC of ASRockRack knows no power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	return d.with(ctx, f, n, fmt.Sprintf("set the power to %q", target), func(s *session) error {
		is, err := s.power(ctx)
		word := orders[target]
		switch {
		case err != nil || is == target || is == driver.PowerOff && target == driver.SoftPowerOff:
			return err
		case is == driver.PowerOff: // a reboot switches it on
			word = orders[driver.PowerOn]
		}
		_, err = s.api.PowerSet(ctx, word)
		return s.wire.sorted(err)
	})
}
