package ribcl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// health reads what the iLO tells of the machine's parts. It takes an iLO some seconds.
func (t *turn) health() (element, error) {
	return t.read(server, "GET_EMBEDDED_HEALTH", nil, "GET_EMBEDDED_HEALTH_DATA")
}

// healths are the words of iLOs for a part's health; others, such as "Not Installed", tell none. Power supplies of an iLO 4 say more after
// a comma: "Good, In Use".
var healths = map[string]string{"ok": hardware.OK, "good": hardware.OK, "degraded": hardware.Warning, "caution": hardware.Warning,
	"failed": hardware.Critical, "critical": hardware.Critical}

func healthOf(status string) string {
	word, _, _ := strings.Cut(strings.ToLower(status), ",")
	return healths[strings.TrimSpace(word)]
}

// Health implements driver.HealthReader: the worst of what the iLO sums up, or of its fans, temperatures and power supplies where it
// sums up none.
func (d *Driver) Health(ctx context.Context, n *node.Document) (worst string, err error) {
	err = d.with(ctx, nil, n, "read the health", func(t *turn) error {
		e, err := t.health()
		if err != nil {
			return err
		}
		var told []string
		glance, _ := e.find("HEALTH_AT_A_GLANCE")
		for _, c := range glance.Children {
			told = append(told, healthOf(c.attribute("STATUS")))
		}
		if len(told) == 0 {
			for _, parts := range []string{"FANS", "TEMPERATURE", "POWER_SUPPLIES"} {
				in, _ := e.find(parts)
				for _, s := range in.all("STATUS") {
					told = append(told, healthOf(s.attribute("VALUE")))
				}
			}
		}
		worst = slices.MaxFunc(append(told, ""), func(a, b string) int { return cmp.Compare(badness(a), badness(b)) })
		return nil
	})
	return worst, err
}

func badness(health string) int {
	return slices.Index([]string{"", hardware.OK, hardware.Warning, hardware.Critical}, health)
}

// Sensors implements driver.Sensors: fans, temperatures and power supplies, in the fields that Redfish's have, so that an iLO which gets
// Redfish by a new firmware goes on under the same names of gauges. A part that is not installed is left out.
func (d *Driver) Sensors(ctx context.Context, n *node.Document) (found map[string]map[string]driver.Sensor, err error) {
	err = d.with(ctx, nil, n, "read the sensors", func(t *turn) error {
		e, err := t.health()
		if err != nil {
			return err
		}
		if found = sensors(e); len(found) == 0 {
			return fmt.Errorf("it shows no sensors: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return found, err
}

func sensors(e element) map[string]map[string]driver.Sensor {
	found := map[string]map[string]driver.Sensor{}
	each := func(parts, part, kind string, told func(element) driver.Sensor) {
		in, _ := e.find(parts)
		for _, p := range in.all(part) {
			s := told(p)
			label := p.value("LABEL")
			if s == nil || label == "" {
				continue
			}
			if found[kind] == nil {
				found[kind] = map[string]driver.Sensor{}
			}
			name := label
			for i := 2; found[kind][name] != nil; i++ {
				name = fmt.Sprintf("%s (%d)", label, i)
			}
			s["identity"] = label
			if health := healthOf(p.value("STATUS")); health != "" {
				s["health"], s["state"] = health, "Enabled"
			}
			found[kind][name] = s
		}
	}
	each("FANS", "FAN", "Fan", func(p element) driver.Sensor {
		speed := number(p.value("SPEED"))
		if speed == nil {
			return nil
		}
		in, _ := p.find("SPEED")
		return driver.Sensor{"reading": speed, "reading_units": in.attribute("UNIT"), "physical_context": p.value("ZONE")}
	})
	each("TEMPERATURE", "TEMP", "Temperature", func(p element) driver.Sensor {
		reading := number(p.value("CURRENTREADING"))
		if in, _ := p.find("CURRENTREADING"); reading == nil || !strings.EqualFold(in.attribute("UNIT"), "Celsius") {
			return nil
		}
		return driver.Sensor{"reading_celsius": reading, "physical_context": p.value("LOCATION")}
	})
	each("POWER_SUPPLIES", "SUPPLY", "Power", func(p element) driver.Sensor {
		if healthOf(p.value("STATUS")) == "" {
			return nil
		}
		serial := first(p.value("SERIAL_NUMBER"), p.value("SERIAL"))
		return driver.Sensor{"power_capacity_watts": number(p.value("CAPACITY")), "serial_number": serial}
	})
	return found
}

// number reads a number such as "20" or "460 Watts"; nil: it is none.
func number(text string) any {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil
	}
	return v
}

// The light has the name that Redfish's has.
const lightName, lightComponent = "led", "system"

func checkLED(n *node.Document, component, name string) error {
	if component == lightComponent && name == lightName {
		return nil
	}
	return fmt.Errorf("node %s: there is no indicator %q of the %q, there is %s@%s: %w",
		n.Label(), name, component, lightName, lightComponent, driver.ErrInvalid)
}

// Indicators lists the unit's identification light.
func (*Driver) Indicators(context.Context, *node.Document) ([]hardware.Indicator, error) {
	return []hardware.Indicator{{Name: lightName, Component: lightComponent, States: []string{"on", "off"}}}, nil
}

// light reads the light.
func (t *turn) light() (string, error) {
	e, err := t.read(server, "GET_UID_STATUS", nil, "GET_UID_STATUS")
	if err != nil {
		return "", err
	}
	switch strings.ToUpper(e.attribute("UID")) {
	case "ON":
		return "on", nil
	case "OFF":
		return "off", nil
	case "FLASHING":
		return "blinking", nil // while someone works at the machine from afar
	}
	return "unknown", nil
}

// Indicator reads the light.
func (d *Driver) Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error) {
	if err := checkLED(n, component, name); err != nil {
		return "", err
	}
	err = d.with(ctx, nil, n, "read the indicator", func(t *turn) (err error) { state, err = t.light(); return err })
	return state, err
}

// SetIndicator switches the light, if it is otherwise, and reads it back.
func (d *Driver) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, state string) error {
	if err := checkLED(n, component, name); err != nil {
		return err
	}
	word := map[string]string{"on": "Yes", "off": "No"}[state]
	if word == "" {
		return fmt.Errorf("node %s: the indicator cannot be set to %q: give on or off: %w", n.Label(), state, driver.ErrInvalid)
	}
	return d.with(ctx, f, n, "switch the indicator "+state, func(t *turn) error {
		is, err := t.light()
		if err != nil || is == state {
			return err
		}
		if _, err := t.write(server, "UID_CONTROL", map[string]string{"UID": word}, ""); err != nil {
			return err
		}
		if is, err = t.light(); err == nil && is != state {
			err = fmt.Errorf("it accepted the order, and its light is %s", is)
		}
		return err
	})
}
