package ipmi

import (
	"context"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// vendors are manufacturers by their numbers (IANA's private enterprise numbers), in the words that operators use for them.
var vendors = map[uint32]string{2: "IBM", 11: "HPE", 343: "Intel", 674: "Dell", 2011: "Huawei", 5771: "Cisco", 7154: "IPMI Forum", 7244: "Quanta", 10368: "Fujitsu",
	10876: "Supermicro", 15370: "Gigabyte", 19046: "Lenovo", 20301: "Lenovo", 20569: "Inspur", 33049: "Mellanox", 42817: "OpenPOWER", 47196: "HPE", 47488: "Supermicro", 49622: "ASRockRack", 49769: "YADRO"}

// manufacturer is the number of the BMC's manufacturer (section 20.1).
func (c *conn) manufacturer() (uint32, error) {
	id, err := c.ask(netFnApp, cmdDeviceID)
	if err != nil {
		return 0, err
	}
	if len(id) < 11 {
		return 0, short("its identity", id)
	}
	return uint32(id[6]) | uint32(id[7])<<8 | uint32(id[8]&0x0F)<<16, nil
}

// supermicro reports whether the machine is one of Supermicro's, by the node's property or by its BMC.
func (c *conn) supermicro(n *node.Document) (bool, error) {
	if vendor, _ := n.Properties["vendor"].(string); vendor != "" {
		return strings.HasPrefix(strings.ToLower(strings.ReplaceAll(vendor, " ", "")), "supermicro"), nil
	}
	number, err := c.manufacturer()
	return vendors[number] == "Supermicro", err
}

// DetectVendor returns the manufacturer in lower case, as Ironic's ipmitool does; empty: the BMC tells one that is not known here.
func (d *Driver) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = d.with(ctx, nil, n, "detect the vendor", func(c *conn) error {
		number, err := c.manufacturer()
		vendor = strings.ToLower(vendors[number])
		return err
	})
	return vendor, err
}

// Identity reads the vendor. IPMI's identifier of a system is in no reliable order of bytes, and serial numbers of its inventory are often
// those of boards: neither may prove or disprove a machine.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.with(ctx, nil, n, "read the identity", func(c *conn) error {
		number, err := c.manufacturer()
		if err != nil {
			return err
		}
		if id.Manufacturer = vendors[number]; id.Manufacturer == "" {
			id.Manufacturer = fmt.Sprintf("manufacturer %d", number)
		}
		return nil
	})
	return id, err
}

// identifyLED is the light that says which of the machines in a rack it is.
var identifyLED = hardware.Indicator{Name: "led", Component: "chassis", States: []string{"on", "off"}}

func checkLED(n *node.Document, component, name string) error {
	if component == identifyLED.Component && name == identifyLED.Name {
		return nil
	}
	return fmt.Errorf("node %s: there is no indicator %q of the %q, there is %s@%s: %w",
		n.Label(), name, component, identifyLED.Name, identifyLED.Component, driver.ErrInvalid)
}

// Indicators lists the chassis's light. Whether a BMC has one shows when it is switched.
func (d *Driver) Indicators(context.Context, *node.Document) ([]hardware.Indicator, error) {
	return []hardware.Indicator{identifyLED}, nil
}

// light reads the light's state out of the chassis's status (section 28.2); many BMCs do not tell it.
func (c *conn) light() (string, error) {
	status, err := c.ask(netFnChassis, cmdChassisStatus)
	switch {
	case err != nil:
		return "", err
	case len(status) < 3:
		return "", short("the chassis's status", status)
	case status[2]&0x40 == 0:
		return "unknown", nil
	case status[2]&0x30 == 0:
		return "off", nil
	}
	return "on", nil
}

// Indicator reads the light.
func (d *Driver) Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error) {
	if err := checkLED(n, component, name); err != nil {
		return "", err
	}
	err = d.with(ctx, nil, n, "read the indicator", func(c *conn) (err error) {
		state, err = c.light()
		return err
	})
	return state, err
}

// SetIndicator switches the light, if it is otherwise. What the BMC tells of it is read back.
func (d *Driver) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, state string) error {
	if err := checkLED(n, component, name); err != nil {
		return err
	}
	if state != "on" && state != "off" {
		return fmt.Errorf("node %s: the indicator cannot be set to %q: give on or off: %w", n.Label(), state, driver.ErrInvalid)
	}
	return d.with(ctx, f, n, "switch the indicator "+state, func(c *conn) error {
		is, err := c.light()
		if err != nil || is == state {
			return err
		}
		order := []byte{0} // for 0 s: off (section 28.5)
		if state == "on" {
			order = []byte{0, 1} // until it is switched off
		}
		if _, err := c.tell(netFnChassis, cmdIdentify, order...); err != nil {
			if code := codeOf(err); code == 0xC7 || code == 0xCC {
				return fmt.Errorf("it switches its light on for a time only (%w): %w", err, driver.ErrUnsupported)
			}
			return err
		}
		if is, err = c.light(); err == nil && is != state && is != "unknown" {
			return fmt.Errorf("it accepted the order, and its light is %s", is)
		}
		return err
	})
}
