package irmc

import (
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// What an iRMC without a Redfish service tells by IPMI. What is not here is Redfish's alone: health, events, the clock, virtual media and
// secure boot end there with redfish.ErrNoService.

// Sensors implements driver.Sensors: by IPMI where irmc_sensor_method says so.
func (i Interface) Sensors(ctx context.Context, n *node.Document) (found map[string]map[string]driver.Sensor, err error) {
	method, err := sensorsBy(n)
	if err != nil {
		return nil, err
	}
	byLAN := func(lan *node.Document) (err error) { found, err = i.lan.Sensors(ctx, lan); return err }
	if method == "ipmitool" {
		err = OverLAN().InTheirWords(byLAN(byIPMI(n)))
		return found, err
	}
	err = i.either(n, func() (err error) { found, err = i.Management.Sensors(ctx, n); return err }, byLAN)
	return found, err
}

// DetectVendor implements driver.VendorDetector.
func (i Interface) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = i.either(n, func() (err error) { vendor, err = i.Management.DetectVendor(ctx, n); return err },
		func(lan *node.Document) (err error) { vendor, err = i.lan.DetectVendor(ctx, lan); return err })
	return vendor, err
}

// LogEnd implements driver.EventLog.
func (i Interface) LogEnd(ctx context.Context, n *node.Document) (mark string, err error) {
	err = i.either(n, func() (err error) { mark, err = i.Management.LogEnd(ctx, n); return err },
		func(lan *node.Document) (err error) { mark, err = i.lan.LogEnd(ctx, lan); return err })
	return mark, err
}

// LogEntries implements driver.EventLog. A mark of the other way is none: an iRMC that gets Redfish tells its whole log once more.
func (i Interface) LogEntries(ctx context.Context, n *node.Document, after string) (entries []driver.LogEntry, mark string, err error) {
	err = i.either(n, func() (err error) { entries, mark, err = i.Management.LogEntries(ctx, n, after); return err },
		func(lan *node.Document) (err error) {
			entries, mark, err = i.lan.LogEntries(ctx, lan, after)
			return err
		})
	return entries, mark, err
}

// ClearLog implements driver.EventLog.
func (i Interface) ClearLog(ctx context.Context, f driver.Fence, n *node.Document) error {
	return i.either(n, func() error { return i.Management.ClearLog(ctx, f, n) },
		func(lan *node.Document) error { return i.lan.ClearLog(ctx, f, lan) })
}

// The light has the name of Redfish's in both ways. IPMI calls it the chassis's.
const lightName, lightComponent, byLANComponent = "led", "system", "chassis"

// Indicators implements driver.Indicators.
func (i Interface) Indicators(ctx context.Context, n *node.Document) (list []hardware.Indicator, err error) {
	err = i.either(n, func() (err error) { list, err = i.Management.Indicators(ctx, n); return err }, func(lan *node.Document) (err error) {
		list, err = i.lan.Indicators(ctx, lan)
		list = slices.Clone(list)
		for at := range list {
			list[at].Component = lightComponent
		}
		return err
	})
	return list, err
}

// checkLED refuses other lights, before it is known in which way the iRMC speaks.
func checkLED(n *node.Document, component, name string) error {
	if component == lightComponent && name == lightName {
		return nil
	}
	return fmt.Errorf("node %s: there is no indicator %q of the %q, there is %s@%s: %w",
		n.Label(), name, component, lightName, lightComponent, driver.ErrInvalid)
}

// Indicator implements driver.Indicators.
func (i Interface) Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error) {
	if err := checkLED(n, component, name); err != nil {
		return "", err
	}
	err = i.either(n, func() (err error) { state, err = i.Management.Indicator(ctx, n, component, name); return err },
		func(lan *node.Document) (err error) {
			state, err = i.lan.Indicator(ctx, lan, byLANComponent, name)
			return err
		})
	return state, err
}

// SetIndicator implements driver.Indicators.
func (i Interface) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, state string) error {
	if err := checkLED(n, component, name); err != nil {
		return err
	}
	return i.either(n, func() error { return i.Management.SetIndicator(ctx, f, n, component, name, state) },
		func(lan *node.Document) error { return i.lan.SetIndicator(ctx, f, lan, byLANComponent, name, state) })
}

// Vendor is the vendor interface irmc. The event log is that of the way in which the iRMC speaks; the rest is Redfish's.
type Vendor struct {
	redfish.Vendor
	Own Interface
}

// NamedSteps is the step that clears the event log.
func (v Vendor) NamedSteps(*node.Document) []driver.Step {
	return driver.EventLogSteps("vendor", v.Own)
}

// VendorMethods lists the methods.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	return append(driver.WithEventLog(v.Vendor.VendorMethods(), v.Own), v.Own.firmwareMethod())
}
