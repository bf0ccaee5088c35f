package ilo

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// What the interface ilo can do besides: each of it in the way that the iLO speaks. RIBCL has no stream of events, sends none, shows no
// clock that can be set, and boots nothing by UEFI HTTP.

// Sensors implements driver.Sensors.
func (a Auto) Sensors(ctx context.Context, n *node.Document) (found map[string]map[string]driver.Sensor, err error) {
	err = a.either(n, func() (err error) { found, err = a.Redfish.Sensors(ctx, n); return err },
		func() (err error) { found, err = a.RIBCL.Sensors(ctx, n); return err })
	return found, err
}

// Health implements driver.HealthReader.
func (a Auto) Health(ctx context.Context, n *node.Document) (health string, err error) {
	err = a.either(n, func() (err error) { health, err = a.Redfish.Health(ctx, n); return err },
		func() (err error) { health, err = a.RIBCL.Health(ctx, n); return err })
	return health, err
}

// healthEvery is how often the health is read by RIBCL: it takes an iLO some seconds, and is looked at with the power.
const healthEvery = 10 * time.Minute

// Observe implements driver.Observer. By RIBCL that is the boot mode and, from time to time, the health.
func (a Auto) Observe(ctx context.Context, n *node.Document) (o hardware.Observation, err error) {
	err = a.either(n, func() (err error) { o, err = a.Redfish.Observe(ctx, n); return err }, func() error {
		mode, err := a.RIBCL.BootMode(ctx, n)
		switch {
		case err == nil:
			o.BootMode = &mode
		case !errors.Is(err, driver.ErrUnsupported): // an iLO 3 knows none
			return err
		}
		if !a.known.healthDue(a.RIBCL.Account(n)) {
			return nil
		}
		switch health, err := a.RIBCL.Health(ctx, n); {
		case err == nil:
			o.Health = &health
		case !errors.Is(err, driver.ErrUnsupported):
			return err
		}
		return nil
	})
	return o, err
}

// LogEnd implements driver.EventLog.
func (a Auto) LogEnd(ctx context.Context, n *node.Document) (mark string, err error) {
	err = a.either(n, func() (err error) { mark, err = a.Redfish.LogEnd(ctx, n); return err },
		func() (err error) { mark, err = a.RIBCL.LogEnd(ctx, n); return err })
	return mark, err
}

// LogEntries implements driver.EventLog. A mark of the other way is none: an iLO that gets Redfish tells its whole log once more.
func (a Auto) LogEntries(ctx context.Context, n *node.Document, after string) (entries []driver.LogEntry, mark string, err error) {
	err = a.either(n, func() (err error) { entries, mark, err = a.Redfish.LogEntries(ctx, n, after); return err },
		func() (err error) { entries, mark, err = a.RIBCL.LogEntries(ctx, n, after); return err })
	return entries, mark, err
}

// ClearLog implements driver.EventLog.
func (a Auto) ClearLog(ctx context.Context, f driver.Fence, n *node.Document) error {
	return a.either(n, func() error { return a.Redfish.ClearLog(ctx, f, n) }, func() error { return a.RIBCL.ClearLog(ctx, f, n) })
}

// Indicators implements driver.Indicators.
func (a Auto) Indicators(ctx context.Context, n *node.Document) (list []hardware.Indicator, err error) {
	err = a.either(n, func() (err error) { list, err = a.Redfish.Indicators(ctx, n); return err },
		func() (err error) { list, err = a.RIBCL.Indicators(ctx, n); return err })
	return list, err
}

// Indicator implements driver.Indicators.
func (a Auto) Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error) {
	err = a.either(n, func() (err error) { state, err = a.Redfish.Indicator(ctx, n, component, name); return err },
		func() (err error) { state, err = a.RIBCL.Indicator(ctx, n, component, name); return err })
	return state, err
}

// SetIndicator implements driver.Indicators.
func (a Auto) SetIndicator(ctx context.Context, f driver.Fence, n *node.Document, component, name, state string) error {
	return a.either(n, func() error { return a.Redfish.SetIndicator(ctx, f, n, component, name, state) },
		func() error { return a.RIBCL.SetIndicator(ctx, f, n, component, name, state) })
}

// Events implements driver.EventSource.
func (a Auto) Events(ctx context.Context, n *node.Document) (stream driver.EventStream, err error) {
	err = a.either(n, func() (err error) { stream, err = a.Redfish.Events(ctx, n); return err }, no(n, "events of the BMC"))
	return stream, err
}

// SendEvents implements driver.EventSender.
func (a Auto) SendEvents(ctx context.Context, f driver.Fence, n *node.Document, to string, stale func(string) bool) error {
	return a.either(n, func() error { return a.Redfish.SendEvents(ctx, f, n, to, stale) }, no(n, "events of the BMC"))
}

// PostedEvents implements driver.EventSender.
func (a Auto) PostedEvents(post []byte) []driver.BMCEvent { return a.Redfish.PostedEvents(post) }

// Clock implements driver.Clock.
func (a Auto) Clock(ctx context.Context, n *node.Document) (at time.Time, err error) {
	err = a.either(n, func() (err error) { at, err = a.Redfish.Clock(ctx, n); return err }, no(n, "the BMC's clock"))
	return at, err
}

// SetClock implements driver.Clock.
func (a Auto) SetClock(ctx context.Context, f driver.Fence, n *node.Document, at time.Time, offset string) error {
	return a.either(n, func() error { return a.Redfish.SetClock(ctx, f, n, at, offset) }, no(n, "set_bmc_clock"))
}

// SetHTTPBoot implements driver.HTTPBooter.
func (a Auto) SetHTTPBoot(ctx context.Context, f driver.Fence, n *node.Document, url string, persistent bool) error {
	return a.either(n, func() error { return a.Redfish.SetHTTPBoot(ctx, f, n, url, persistent) }, no(n, "boot by UEFI HTTP"))
}

// AutoVendor is the vendor interface of the hardware type ilo. The event log is that of the way in which the iLO speaks; the rest is
// Redfish's.
type AutoVendor struct {
	redfish.Vendor
	Auto Auto
	ISO  ISO
}

// NamedSteps is the step that clears the event log.
func (v AutoVendor) NamedSteps(*node.Document) []driver.Step {
	return driver.EventLogSteps("vendor", v.Auto)
}

// VendorMethods lists the methods.
func (v AutoVendor) VendorMethods() []driver.VendorMethod {
	return v.ISO.with(driver.WithEventLog(v.Vendor.VendorMethods(), v.Auto))
}
