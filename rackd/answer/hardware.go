package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// answerHardware answers what is asked of a node's machine.
func (d *Desk) answerHardware(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
	switch q.Method {
	case ask.Validate:
		return d.judge(q, n, hw)
	case ask.SupportedBootDevices:
		return hw.Management().SupportedBootDevices(ctx, n)
	case ask.GetBootDevice:
		return hw.Management().BootDevice(ctx, n)
	case ask.SetBootDevice:
		var dev ask.BootDevice
		if err := json.Unmarshal(q.Args, &dev); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
		}
		return d.writes(ctx, n, hw, func(f driver.Fence) error { return d.setBoot(ctx, f, n, hw, dev) })
	case ask.InjectNMI:
		return d.writes(ctx, n, hw, func(f driver.Fence) error { return hw.Management().InjectNMI(ctx, f, n) })
	case ask.Console:
		console := hw.Console()
		if console == nil {
			return nil, driver.Unsupported(n, "console", "console")
		}
		if err := console.Validate(n); err != nil {
			return nil, err
		}
		return console.Console(ctx, n)
	case ask.CheckRAID:
		config, err := arguments[map[string]any](q)
		if err != nil {
			return nil, err
		}
		raid := hw.RAID()
		if raid == nil {
			return nil, driver.Unsupported(n, "raid", "raid")
		}
		return struct{}{}, raid.CheckRAID(n, config)
	case ask.CheckChange:
		ch, err := arguments[work.Change](q)
		if err != nil {
			return nil, err
		}
		return struct{}{}, d.cfg.Conductor.CheckChange(&ch, n, hw)
	case ask.Indicators, ask.GetIndicator, ask.SetIndicator:
		return d.answerIndicator(ctx, q, n, hw)
	case ask.VirtualMedia:
		media, can := hw.Management().(driver.VirtualMedia)
		if !can {
			return nil, driver.Unsupported(n, "management", "get_virtual_media")
		}
		list, err := media.Media(ctx, n)
		for i := range list {
			list[i].Image = hardware.WithoutCodes(list[i].Image)
		}
		return list, err
	case ask.VendorMethods:
		return describeVendor(hw), nil
	case ask.CallVendor:
		return d.callVendor(ctx, q, n, hw)
	case ask.GetBootScript:
		return d.bootScript(q, n)
	}
	return nil, fmt.Errorf("question %q: is this rackd older than central? %w", q.Method, driver.ErrUnsupported)
}

func (d *Desk) answerIndicator(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
	lights, can := hw.Management().(driver.Indicators)
	if !can {
		return nil, driver.Unsupported(n, "management", "get_supported_indicators")
	}
	if q.Method == ask.Indicators {
		return lights.Indicators(ctx, n)
	}
	i, err := arguments[ask.Indicator](q)
	if err != nil {
		return nil, err
	}
	if q.Method == ask.SetIndicator {
		return d.writes(ctx, n, hw, func(f driver.Fence) error {
			return lights.SetIndicator(ctx, f, n, i.Component, i.Name, i.State)
		})
	}
	i.State, err = lights.Indicator(ctx, n, i.Component, i.Name)
	return i, err
}

// BootScript writes the boot script of a node, which asks from a MAC address or, with
// none, by its UUID.
type BootScript func(uuid, mac string, from netip.Addr) (string, error)

// errNoScripts: this rackd has no listeners for machines.
var errNoScripts = errors.New("this rackd serves no machines: it has no boot scripts")

func (d *Desk) bootScript(q ask.Request, n *node.Document) (any, error) {
	args, err := arguments[ask.BootScript](q)
	switch {
	case err != nil:
		return nil, err
	case d.cfg.BootScript == nil:
		return nil, fmt.Errorf("node %s: %w: %w", n.Label(), errNoScripts, driver.ErrUnsupported)
	}
	return d.cfg.BootScript(n.UUID, args.Address, args.From)
}
