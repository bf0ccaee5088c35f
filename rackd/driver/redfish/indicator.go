package redfish

import (
	"context"
	"fmt"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// lights pairs the states of an indicator.
var lights = map[string]common.IndicatorLED{
	"on": common.LitIndicatorLED, "off": common.OffIndicatorLED, "blinking": common.BlinkingIndicatorLED, "unknown": common.UnknownIndicatorLED,
}

// systemLED is the light that is read and set: that of the system.
var systemLED = hardware.Indicator{Name: "led", Component: "system", States: []string{"on", "off", "blinking"}}

func checkLED(n *node.Document, component, name string) error {
	if component == systemLED.Component && name == systemLED.Name {
		return nil
	}
	return fmt.Errorf("node %s: there is no indicator %q of the %q, there is %s@%s: %w",
		n.Label(), name, component, systemLED.Name, systemLED.Component, driver.ErrInvalid)
}

// Indicators lists the system's light, if the BMC reports one.
func (d *Driver) Indicators(ctx context.Context, n *node.Document) (list []hardware.Indicator, err error) {
	err = d.read(ctx, n, "list the indicators", func(s *redfish.ComputerSystem) error {
		if s.IndicatorLED != "" {
			list = []hardware.Indicator{systemLED}
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
	err = d.read(ctx, n, "read the indicator", func(s *redfish.ComputerSystem) error {
		state = "unknown"
		for word, led := range lights {
			if led == s.IndicatorLED {
				state = word
			}
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
	want, known := lights[state]
	if !known || state == "unknown" {
		return fmt.Errorf("node %s: an indicator cannot be set to %q: %w", n.Label(), state, driver.ErrInvalid)
	}
	return d.change(ctx, f, n, "set the indicator to "+state, func(s *redfish.ComputerSystem, _ *gofish.APIClient) error {
		switch s.IndicatorLED {
		case "":
			return fmt.Errorf("it reports no indicator: %w", driver.ErrUnsupported)
		case want:
			return nil
		}
		s.IndicatorLED = want
		return s.Update()
	})
}
