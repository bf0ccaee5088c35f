package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// arguments reads a question's arguments.
func arguments[T any](q ask.Request) (args T, err error) {
	if err = json.Unmarshal(q.Args, &args); err != nil {
		err = fmt.Errorf("arguments of %s: %w: %w", q.Method, err, driver.ErrInvalid)
	}
	return args, err
}

// writes runs a write to a machine that has no work, or whose work waits, and reports
// what its drivers are to keep.
func (c *Conductor) writes(ctx context.Context, n *node.Document, hw *driver.Hardware, do func(driver.Fence) error) (any, error) {
	f, done, err := c.beside(n)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.begins(f, n); err != nil {
		return nil, err
	}
	if err := do(f); err != nil {
		return nil, err
	}
	return struct{}{}, c.remember(ctx, n, hw)
}

func (c *Conductor) remember(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	var o hardware.Observation
	if hw.Remember(n, &o); o.Kept == nil {
		return nil
	}
	return c.tellHardware(ctx, n, &o)
}

// answerHardware answers what is asked of a node's machine.
func (c *Conductor) answerHardware(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
	switch q.Method {
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
		_, err = c.adjustment(nil, &ch, n, hw)
		return struct{}{}, err
	case ask.Indicators, ask.GetIndicator, ask.SetIndicator:
		return c.answerIndicator(ctx, q, n, hw)
	case ask.VirtualMedia:
		media, can := hw.Management().(driver.VirtualMedia)
		if !can {
			return nil, driver.Unsupported(n, "management", "get_virtual_media")
		}
		return media.Media(ctx, n)
	case ask.VendorMethods:
		return describeVendor(hw), nil
	case ask.CallVendor:
		return c.callVendor(ctx, q, n, hw)
	case ask.GetBootScript:
		return c.bootScript(q, n)
	}
	return nil, fmt.Errorf("question %q: is this rackd older than central? %w", q.Method, driver.ErrUnsupported)
}

func (c *Conductor) answerIndicator(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
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
		return c.writes(ctx, n, hw, func(f driver.Fence) error {
			return lights.SetIndicator(ctx, f, n, i.Component, i.Name, i.State)
		})
	}
	i.State, err = lights.Indicator(ctx, n, i.Component, i.Name)
	return i, err
}

// errNoScripts: this rackd has no listeners for machines.
var errNoScripts = errors.New("this rackd serves no machines: it has no boot scripts")

func (c *Conductor) bootScript(q ask.Request, n *node.Document) (any, error) {
	args, err := arguments[ask.BootScript](q)
	switch {
	case err != nil:
		return nil, err
	case c.cfg.BootScript == nil:
		return nil, fmt.Errorf("node %s: %w: %w", n.Label(), errNoScripts, driver.ErrUnsupported)
	}
	return c.cfg.BootScript(n.UUID, args.Address, args.From)
}
