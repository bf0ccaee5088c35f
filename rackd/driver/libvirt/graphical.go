package libvirt

import (
	"context"
	"crypto/sha256"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/rfb"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

// Graphical is the console interface libvirt-graphical: the machine's VNC display, on the host where its libvirt is. It is reached as
// libvirt is: on rackd's own machine, or through SSH. A machine that is off has no display.
type Graphical struct{ *Driver }

// NamedSteps is empty.
func (Graphical) NamedSteps(*node.Document) []driver.Step { return nil }

// Validate checks driver_info.
func (g Graphical) Validate(n *node.Document) error {
	if err := g.Driver.Validate(n); err != nil {
		return err
	}
	if t, err := parse(n); err != nil || t.transport != overTLS {
		return err
	}
	return fmt.Errorf("node %s: driver_info: libvirt's TLS carries no display: give %s as qemu+ssh://HOST/system: %w", n.Label(), fieldURI, driver.ErrInvalid)
}

// StartConsole opens the display and gives it back, so that who asks for it hears what is in the way. Of a machine that is off it only
// looks whether it is there: its display comes when it is started.
func (g Graphical) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	if err := g.Validate(n); err != nil {
		return err
	}
	state, err := g.PowerState(ctx, n)
	if err != nil || state == driver.PowerOff {
		return err
	}
	line, err := g.OpenViewer(ctx, f, n)
	if err != nil {
		return err
	}
	line.Close(ctx)
	return nil
}

// StopConsole has nothing to do: viewers end with the console.
func (Graphical) StopConsole(context.Context, driver.Fence, *node.Document) error { return nil }

// Console tells the type.
func (Graphical) Console(context.Context, *node.Document) (map[string]any, error) {
	return map[string]any{"type": driver.VNC}, nil
}

const openingGraphical = "open the graphical console"

// OpenViewer implements driver.Graphical.
func (g Graphical) OpenViewer(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	if err := g.Validate(n); err != nil {
		return nil, err
	}
	t, err := parse(n)
	if err != nil {
		return nil, err
	}
	at, err := g.displayOf(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	stream, err := g.dial(ctx, n, t, at)
	if err != nil {
		return nil, err
	}
	greeting, cancel := context.WithTimeout(ctx, g.opts.CallTimeout)
	defer cancel()
	if stream, err = rfb.Greeted(greeting, stream); err != nil {
		return nil, t.explain(n, openingGraphical, err)
	}
	// A machine that has stopped meanwhile leaves its port to the next that starts on the host, which may be another tenant's.
	if now, err := g.displayOf(ctx, n); err != nil || now != at {
		stream.Close()
		if err == nil {
			err = t.explain(n, openingGraphical, &bmc.Failure{Class: bmc.Busy, Said: "that the machine's display has moved meanwhile"})
		}
		return nil, err
	}
	return serialline.New(stream, serialline.Options{Node: n, Fence: f, What: "the display of the machine at libvirt " + t.shown, Secrets: t.secrets()}), nil
}

// dial connects to a display. By SSH that is a login of its own, and the session of the other calls may go on although it is refused. So
// it rests by itself: else each viewer would count at the host.
func (g Graphical) dial(ctx context.Context, n *node.Document, t target, at display) (stream serialline.Stream, err error) {
	account := bmc.Account{Address: t.address(), Sum: sha256.Sum256([]byte("display\x00" + t.accountOf)), Node: n}
	err = g.pool.Beside(ctx, account, func() (err error) {
		stream, err = dialDisplay(ctx, t, at, g.opts)
		return err
	})
	attempt := t.attempt(n, openingGraphical)
	attempt.Again = "the graphical console"
	return stream, attempt.Explain(err)
}

// displayOf is where the machine's display is now.
func (g Graphical) displayOf(ctx context.Context, n *node.Document) (at display, err error) {
	err = g.with(ctx, n, openingGraphical, func(s *session, domain golibvirt.Domain) (err error) {
		at, err = s.displayNow(ctx, domain)
		return err
	})
	return at, err
}
