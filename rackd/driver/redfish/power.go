package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// resets lists, for each target, the reset types that lead there, best first.
var resets = map[driver.PowerState][]schemas.ResetType{
	driver.PowerOn:      {schemas.OnResetType, schemas.ForceOnResetType},
	driver.PowerOff:     {schemas.ForceOffResetType},
	driver.SoftPowerOff: {schemas.GracefulShutdownResetType, schemas.PushPowerButtonResetType},
	driver.Rebooting:    {schemas.ForceRestartResetType, schemas.PowerCycleResetType},
	driver.SoftReboot:   {schemas.GracefulRestartResetType},
}

// PowerTargets lists the supported targets; a BMC may know fewer.
func (d *Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftReboot, driver.SoftPowerOff}
}

// PowerState reads the power state. A machine on its way between states counts
// as still in the one it leaves.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.pool.with(ctx, nil, n, "read the power state", func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		state, err = powerOf(s)
		return err
	})
	return state, err
}

func powerOf(s *System) (driver.PowerState, error) {
	switch s.PowerState {
	case schemas.OnPowerState, schemas.PoweringOffPowerState, schemas.PausedPowerState:
		return driver.PowerOn, nil
	case schemas.OffPowerState, schemas.PoweringOnPowerState:
		return driver.PowerOff, nil
	}
	if s.PowerState == "" || s.PowerState == "Unknown" { // as BMCs say while they start
		return driver.PowerError, &bmc.Failure{Class: bmc.Busy, Said: fmt.Sprintf("the power state %q", s.PowerState)}
	}
	return driver.PowerError, fmt.Errorf("it reports the power state %q, which Redfish does not know", s.PowerState)
}

// SetPower resets the machine in the way that leads to target, if it is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	doing := fmt.Sprintf("set the power to %q", target)
	return d.pool.with(ctx, f, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		goal, needed := plan(s.PowerState, target)
		if !needed {
			return nil
		}
		reset, err := choose(s, goal)
		if err != nil {
			return err
		}
		if goal == driver.PowerOn || goal == driver.Rebooting || goal == driver.SoftReboot {
			if err := d.bootAgain(ctx, b, a, c, s, n); err != nil {
				return err
			}
		}
		err = resetSystem(c, s, reset)
		if code := status(err); code < 400 || code == 401 || code == 403 || goal == driver.Rebooting || goal == driver.SoftReboot {
			return inDoubt(err)
		}
		// The machine may have got there by itself between reading and writing.
		if now, readErr := b.system(c, a); readErr == nil {
			if _, needed := plan(now.PowerState, target); !needed {
				return nil
			}
		}
		return inDoubt(err)
	})
}

// inDoubt is the error of a reset, which a BMC that answers 500 may have taken all the same.
func inDoubt(err error) error {
	if refused, is := refusal(err); is && refused.HTTPReturnedStatusCode == http.StatusInternalServerError {
		return &bmc.Failure{Class: bmc.Unknown, Said: "HTTP 500: " + message(refused)}
	}
	return err
}

// plan says what to ask for in state is to reach target, and whether anything is
// to be asked. A reboot of a machine that is off switches it on.
func plan(is schemas.PowerState, target driver.PowerState) (goal driver.PowerState, needed bool) {
	off := is == schemas.OffPowerState
	switch target {
	case driver.PowerOn:
		return target, is != schemas.OnPowerState && is != schemas.PoweringOnPowerState
	case driver.PowerOff:
		return target, !off
	case driver.SoftPowerOff:
		return target, !off && is != schemas.PoweringOffPowerState
	case driver.Rebooting, driver.SoftReboot:
		if off {
			return driver.PowerOn, true
		}
	}
	return target, true
}

// choose picks the best reset type that the BMC allows; a BMC that lists none is
// taken to allow all.
func choose(s *System, goal driver.PowerState) (schemas.ResetType, error) {
	for _, r := range resets[goal] {
		if len(s.Actions.Reset.Allowed) == 0 || slices.Contains(s.Actions.Reset.Allowed, r) {
			return r, nil
		}
	}
	return "", fmt.Errorf("it allows the resets %v, and none of them leads to %q: %w", s.Actions.Reset.Allowed, goal, driver.ErrUnsupported)
}

// resetSystem sends a reset.
func resetSystem(c *gofish.APIClient, s *System, r schemas.ResetType) error {
	tag := s.tag
	if makerOf(c, s).needs(noResetTag) {
		tag = ""
	}
	if err := call(c, s.Actions.Reset.Target, tag, map[string]any{"ResetType": r}); err != nil {
		return fmt.Errorf("reset %s: %w", r, err)
	}
	return nil
}

// InjectNMI sends a non-maskable interrupt.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.pool.with(ctx, f, n, "inject an NMI", func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		if allowed := s.Actions.Reset.Allowed; len(allowed) > 0 && !slices.Contains(allowed, schemas.NmiResetType) {
			return fmt.Errorf("it allows the resets %v, not Nmi: %w", allowed, driver.ErrUnsupported)
		}
		return resetSystem(c, s, schemas.NmiResetType)
	})
}
