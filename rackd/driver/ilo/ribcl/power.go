package ribcl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, nil, n, "read the power state", func(t *turn) (err error) { state, err = t.power(); return err })
	return state, err
}

func (t *turn) power() (driver.PowerState, error) {
	e, err := t.read(server, "GET_HOST_POWER_STATUS", nil, "GET_HOST_POWER")
	if err != nil {
		return "", err
	}
	switch is := e.attribute("HOST_POWER"); strings.ToUpper(is) {
	case "ON":
		return driver.PowerOn, nil
	case "OFF":
		return driver.PowerOff, nil
	default:
		return driver.PowerError, fmt.Errorf("it reports the power state %.20q, which RIBCL does not know", is)
	}
}

// SetPower gives the order that leads to target, if the machine is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: an iLO does not lead to the power state %q by RIBCL: %w", n.Label(), target, driver.ErrUnsupported)
	}
	return d.with(ctx, f, n, fmt.Sprintf("set the power to %q", target), func(t *turn) error {
		is, err := t.power()
		if err != nil {
			return err
		}
		off := is == driver.PowerOff
		command, attributes := "", map[string]string(nil)
		switch {
		case target == driver.PowerOn && !off, target == driver.PowerOff && off, target == driver.SoftPowerOff && off:
			return nil
		case target == driver.PowerOn, target == driver.Rebooting && off:
			command, attributes = "SET_HOST_POWER", map[string]string{"HOST_POWER": "Yes"}
		case target == driver.PowerOff:
			command, attributes = "HOLD_PWR_BTN", map[string]string{"TOGGLE": "NO"}
		case target == driver.SoftPowerOff:
			command = "PRESS_PWR_BTN"
		case target == driver.Rebooting:
			command = "RESET_SERVER"
		}
		_, err = t.write(server, command, attributes, "")
		return err
	})
}
