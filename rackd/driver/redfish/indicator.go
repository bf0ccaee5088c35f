package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// lights pairs the states of an indicator.
var lights = map[string]schemas.IndicatorLED{
	"on": schemas.LitIndicatorLED, "off": schemas.OffIndicatorLED, "blinking": schemas.BlinkingIndicatorLED, "unknown": schemas.UnknownIndicatorLED,
}

// light is the system's light as its BMC shows it: IndicatorLED or, newer, LocationIndicatorActive, which knows on and off only.
type light struct {
	LED    *schemas.IndicatorLED `json:"IndicatorLED"`
	Active *bool                 `json:"LocationIndicatorActive"`
}

// lightOf reads the light. ok is false for a system without one.
func lightOf(s *System) (l light, ok bool) {
	if json.Unmarshal(s.raw, &l) != nil {
		return light{}, false
	}
	if l.LED != nil && *l.LED == "" {
		l.LED = nil
	}
	return l, l.LED != nil || l.Active != nil
}

// state is the light's, in the words of the API.
func (l light) state() string {
	switch {
	case l.LED == nil && *l.Active:
		return "on"
	case l.LED == nil:
		return "off"
	}
	for word, led := range lights {
		if led == *l.LED {
			return word
		}
	}
	return "unknown"
}

// states are those that it can be set to.
func (l light) states() []string {
	if l.LED == nil {
		return []string{"on", "off"}
	}
	return []string{"on", "off", "blinking"}
}

// body asks for a state.
func (l light) body(state string) map[string]any {
	if l.LED == nil {
		return map[string]any{"LocationIndicatorActive": state == "on"}
	}
	return map[string]any{"IndicatorLED": lights[state]}
}

// The light that is read and set is that of the system.
const lightName, lightComponent = "led", "system"

func checkLED(n *node.Document, component, name string) error {
	if component == lightComponent && name == lightName {
		return nil
	}
	return fmt.Errorf("node %s: there is no indicator %q of the %q, there is %s@%s: %w",
		n.Label(), name, component, lightName, lightComponent, driver.ErrInvalid)
}

// Indicators lists the system's light, if the BMC reports one.
func (d *Driver) Indicators(ctx context.Context, n *node.Document) (list []hardware.Indicator, err error) {
	err = d.read(ctx, n, "list the indicators", func(s *System) error {
		if l, ok := lightOf(s); ok {
			list = []hardware.Indicator{{Name: lightName, Component: lightComponent, States: l.states()}}
		}
		return nil
	})
	return list, err
}

// Indicator reads the light.
func (d *Driver) Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error) {
	if err := checkLED(n, component, name); err != nil {
		return "", err
	}
	err = d.read(ctx, n, "read the indicator", func(s *System) error {
		state = "unknown"
		if l, ok := lightOf(s); ok {
			state = l.state()
		}
		return nil
	})
	return state, err
}

// SetIndicator switches the light, if it is otherwise.
func (d *Driver) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, state string) error {
	if err := checkLED(n, component, name); err != nil {
		return err
	}
	if _, known := lights[state]; !known || state == "unknown" {
		return fmt.Errorf("node %s: an indicator cannot be set to %q: %w", n.Label(), state, driver.ErrInvalid)
	}
	return d.change(ctx, f, n, "set the indicator to "+state, func(s *System, c *gofish.APIClient) error {
		l, ok := lightOf(s)
		switch {
		case !ok:
			return fmt.Errorf("it reports no indicator: %w", driver.ErrUnsupported)
		case !slices.Contains(l.states(), state):
			return fmt.Errorf("its indicator can be %v, not %s: %w", l.states(), state, driver.ErrUnsupported)
		case l.state() == state:
			return nil
		}
		if _, err := patch(c, makerOf(c, s), s.Path, l.body(state)); err != nil {
			return err
		}
		return awaitSetting(ctx, "its indicator "+state, func() (bool, error) {
			now, err := readSystem(c, s.Path)
			if err != nil {
				return false, err
			}
			l, ok := lightOf(now)
			return ok && l.state() == state, nil
		})
	})
}
