package flow

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// observeWithin bounds what is read of a machine beyond what a flow needs.
const observeWithin = 2 * time.Minute

// observeHardware reads what central shows of the machine. Nothing depends on it, so
// what cannot be read is left as it was.
func (c *Catalog) observeHardware() driver.Step {
	return driver.Step{Interface: "conductor", Name: "observe_hardware", Kind: driver.Repeatable,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			ctx, cancel := context.WithTimeout(ctx, observeWithin)
			defer cancel()
			o := c.ReadBoot(ctx, t.Hardware, t.Node)
			o.BIOS = ifRead(c, t.Node, "BIOS settings", func() ([]hardware.Setting, error) {
				if b := t.Hardware.BIOS(); b != nil {
					return b.Settings(ctx, t.Node)
				}
				return nil, driver.ErrUnsupported
			})
			o.Firmware = ifRead(c, t.Node, "firmware versions", func() ([]hardware.Component, error) {
				if f := t.Hardware.Firmware(); f != nil {
					return f.Components(ctx, t.Node)
				}
				return nil, driver.ErrUnsupported
			})
			o.Vendor = c.readVendor(ctx, t)
			t.Record.Observe(o)
			return driver.Done(), nil
		}}
}

// readVendor reads who made the machine, unless an operator has said so: that does not change.
func (c *Catalog) readVendor(ctx context.Context, t *driver.Task) string {
	detects, can := t.Hardware.Management().(driver.VendorDetector)
	if known, _ := t.Node.Properties["vendor"].(string); !can || known != "" {
		return ""
	}
	return ifRead(c, t.Node, "vendor", func() (string, error) { return detects.DetectVendor(ctx, t.Node) })
}

// ReadBoot reads boot mode, secure boot and health.
func (c *Catalog) ReadBoot(ctx context.Context, hw *driver.Hardware, n *node.Document) (o hardware.Observation) {
	m := hw.Management()
	if all, can := m.(driver.Observer); can {
		return ifRead(c, n, "boot mode, secure boot and health", func() (hardware.Observation, error) { return all.Observe(ctx, n) })
	}
	o.BootMode = ifRead(c, n, "boot mode", func() (*string, error) {
		mode, err := m.BootMode(ctx, n)
		return &mode, err
	})
	if s, can := m.(driver.SecureBooter); can {
		o.SecureBoot = ifRead(c, n, "secure boot", func() (*bool, error) {
			on, err := s.SecureBoot(ctx, n)
			return &on, err
		})
	}
	if h, can := m.(driver.HealthReader); can {
		o.Health = ifRead(c, n, "health", func() (*string, error) {
			health, err := h.Health(ctx, n)
			return &health, err
		})
	}
	return o
}

// ifRead returns what read reads, the zero value when it fails. Machines that cannot
// tell are no news.
func ifRead[T any](c *Catalog, n *node.Document, what string, read func() (T, error)) (none T) {
	v, err := read()
	switch {
	case err == nil:
		return v
	case !errors.Is(err, driver.ErrUnsupported):
		c.cfg.Log.Warn("not read from the machine", "node", n.UUID, "what", what, "error", err)
	}
	return none
}

// HardwareEvent reports what a rackd saw of a node's machine.
func HardwareEvent(rackd string, n *node.Document, o *hardware.Observation) work.Event {
	return work.Event{Kind: work.HardwareObserved, Node: n.UUID, Group: n.Group, Rackd: rackd, Time: time.Now().UTC(), Hardware: o}
}
