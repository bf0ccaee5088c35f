package libvirt

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

// Console is the console interface libvirt: the machine's first serial console, by a stream of libvirt's RPC on a connection of its
// own. libvirt gives a console to one session, and the newest has it. A machine that is off has none.
type Console struct{ *Driver }

// NamedSteps is empty.
func (Console) NamedSteps(*node.Document) []driver.Step { return nil }

// StartConsole opens the console and gives it back, so that who asks for it hears what is in the way. Of a machine that is off it
// only looks whether it is there: its console comes when it is started.
func (c Console) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	state, err := c.PowerState(ctx, n)
	if err != nil || state == driver.PowerOff {
		return err
	}
	line, err := c.OpenConsole(ctx, f, n)
	if err != nil {
		return err
	}
	line.Close(ctx)
	return nil
}

// StopConsole has nothing to do: the rackd that holds the console gives it back.
func (Console) StopConsole(context.Context, driver.Fence, *node.Document) error { return nil }

// Console finds nothing to say: rackd carries the console.
func (Console) Console(context.Context, *node.Document) (map[string]any, error) { return nil, nil }

// OpenConsole implements driver.Serial.
func (c Console) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	t, err := parse(n)
	if err != nil {
		return nil, err
	}
	var opened *stream
	err = c.with(ctx, n, "open the serial console", func(_ *session, domain golibvirt.Domain) error {
		own, err := open(ctx, t, c.opts)
		if err != nil {
			return err
		}
		st := newStream(own)
		own.wire.stream.Store(st) // before the call: what comes first is not lost
		err = own.write(ctx, f, func() error {
			return own.rpc.DomainOpenConsole(domain, nil, nil, uint32(golibvirt.DomainConsoleForce))
		})
		if err != nil {
			st.Close()
			return err
		}
		st.serial.Store(own.wire.last.Load())
		opened = st
		return nil
	})
	if err != nil {
		return nil, err
	}
	return serialline.New(opened, serialline.Options{Node: n, Fence: f, What: "the serial console of libvirt " + t.shown, Secrets: t.secrets()}), nil
}
