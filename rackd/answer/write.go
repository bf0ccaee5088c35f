package answer

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// idleFence guards a BMC write that belongs to no work.
type idleFence struct {
	d *Desk
	n *node.Document
	// shared: work on the node does not stand in its way.
	shared bool
}

// Check implements driver.Fence.
func (f idleFence) Check() error {
	if err := f.d.cfg.Members.Confirm(); err != nil {
		return fmt.Errorf("node %s: %w: %w", f.n.Label(), driver.ErrFenced, err)
	}
	if w := f.d.cfg.Documents.Work(f.n.UUID); !f.shared && w != nil && w.Doc.Open() {
		return fmt.Errorf("node %s: %w: work %s (%s) has begun", f.n.Label(), driver.ErrFenced, w.Doc.ID, w.Doc.Verb)
	}
	return nil
}

// Work implements driver.Fence.
func (idleFence) Work() string { return "" }

// Epoch implements driver.Fence.
func (idleFence) Epoch() uint64 { return 0 }

// beside returns the fence for a write that is not part of the node's open work, and what
// is to be called after it. Work that does nothing but wait, for the machine or for an
// operator, stands aside for as long; other work is in the way.
func (d *Desk) beside(n *node.Document) (driver.Fence, func(), error) {
	w := d.cfg.Documents.Work(n.UUID)
	if w == nil || !w.Doc.Open() {
		return idleFence{d: d, n: n}, func() {}, nil
	}
	if f, done, ok := d.cfg.Conductor.Aside(n.UUID); ok {
		return f, done, nil
	}
	return nil, nil, locked(n, w.Doc.Owner)
}

func locked(n *node.Document, owner string) *ask.Error {
	return &ask.Error{Status: http.StatusConflict, Locked: true,
		Message: fmt.Sprintf("Node %s is locked by host %s, please retry after the current operation is completed.", n.UUID, owner)}
}

// begins checks the fence before the first write. Work that came meanwhile makes the node locked: nothing has been
// sent, so that who asks may ask again.
func (d *Desk) begins(f driver.Fence, n *node.Document) error {
	err := f.Check()
	if idle, ok := f.(idleFence); ok && err != nil && !idle.shared {
		if w := d.cfg.Documents.Work(n.UUID); w != nil && w.Doc.Open() {
			return locked(n, w.Doc.Owner)
		}
	}
	return err
}

// writes runs a write to a machine that has no work, or whose work waits, and reports
// what its drivers are to keep.
func (d *Desk) writes(ctx context.Context, n *node.Document, hw *driver.Hardware, do func(driver.Fence) error) (any, error) {
	f, done, err := d.beside(n)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.begins(f, n); err != nil {
		return nil, err
	}
	if err := do(f); err != nil {
		return nil, err
	}
	return struct{}{}, d.remember(ctx, n, hw)
}

// remember reports what the drivers of a node are to keep.
func (d *Desk) remember(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	var o hardware.Observation
	if hw.Remember(n, &o); o.Kept == nil {
		return nil
	}
	return d.cfg.Conductor.TellHardware(ctx, n, &o)
}

// setBoot sets a boot device.
func (d *Desk) setBoot(ctx context.Context, f driver.Fence, n *node.Document, hw *driver.Hardware, dev ask.BootDevice) (err error) {
	lasts := dev.Persistent != nil && *dev.Persistent
	over := d.cfg.Conductor.SettingBoot(n, dev.Device, lasts)
	defer func() { over(err == nil) }()
	if err = hw.Management().SetBootDevice(ctx, f, n, driver.BootDevice(dev.Device), lasts); err != nil || !lasts {
		return err
	}
	return d.holdBoot(ctx, n, dev.Device)
}

// holdBoot reports a boot device that was set for all starts, where rackds are to look whether the BMC keeps it. Without that
// report the device before would be set again, so that it is an error of the request.
func (d *Desk) holdBoot(ctx context.Context, n *node.Document, device string) error {
	if !n.State.In(provision.BootHeld) || n.BootSet == device {
		return nil
	}
	return d.cfg.Conductor.TellHardware(ctx, n, &hardware.Observation{BootSet: &device})
}
