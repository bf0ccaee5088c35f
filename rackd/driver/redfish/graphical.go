package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/rfb"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

// Graphical is the console interface redfish-graphical: what the machine shows, by RFB over a WebSocket of the BMC, with the account of
// the other calls. The standard tells of graphical consoles without their protocol (KVMIP), so it is taken from firmware that is
// known to speak RFB.
//
// Ironic has an interface of this name, which shows the vendor's own page in a browser that it starts. No page is shown here.
type Graphical struct{ *Driver }

// NamedSteps is empty.
func (Graphical) NamedSteps(*node.Document) []driver.Step { return nil }

// Validate checks driver_info, and refuses machines of vendors whose graphical console is a page of their own.
func (g Graphical) Validate(n *node.Document) error {
	if err := g.Driver.Validate(n); err != nil {
		return err
	}
	vendor, _ := n.Properties["vendor"].(string)
	if why, always := ownPageOf(maker{vendor: strings.ToLower(vendor)}); always {
		return fmt.Errorf("node %s: its vendor is %q: %s: %w", n.Label(), vendor, why, driver.ErrUnsupported)
	}
	return nil
}

// ownPageOf says by which page of its own a vendor shows its machines; empty: none is known. always: all of its machines.
func ownPageOf(m maker) (why string, always bool) {
	for _, known := range ownPages {
		if slices.ContainsFunc(known.vendors, m.is) {
			return known.console + " is a page of its vendor's own and speaks no RFB: open it in a browser at the BMC, or use another console interface", !known.some
		}
	}
	return "", false
}

// StartConsole opens the console and gives it back, so that who asks for it hears what is in the way.
func (g Graphical) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
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
	var from account
	var stream serialline.Stream
	err := g.pool.with(ctx, nil, n, openingGraphical, func(b *session, a account, client *gofish.APIClient) error {
		s, err := b.system(client, a)
		if err != nil {
			return err
		}
		path, err := rfbOf(client, s)
		if err != nil {
			return err
		}
		from = a
		stream, err = g.webSocket(ctx, f, b, a, path)
		if status(err) == http.StatusNotFound {
			err = fmt.Errorf("it has nothing at %s: its firmware was built without the graphical console: %w", path, driver.ErrUnsupported)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	greeting, cancel := context.WithTimeout(ctx, g.pool.opts.ReadTimeout)
	defer cancel()
	if stream, err = rfb.Greeted(greeting, pieces{stream}); err != nil {
		return nil, explain(n, from, openingGraphical, false, err)
	}
	return serialline.New(stream, serialline.Options{Node: n, Fence: f, What: "the graphical console of " + from.endpoint, Secrets: []string{from.password}}), nil
}

// picture is a GraphicalConsole, of a system (DSP0268, ComputerSystem 1.13) or of a manager, where older firmware has it.
type picture struct {
	ServiceEnabled        *bool
	ConnectTypesSupported []string
}

// rfbOf is the path of the WebSocket by which a BMC gives a system's graphical console. An error says what there is instead.
func rfbOf(c *gofish.APIClient, s *System) (string, error) {
	var system struct{ GraphicalConsole *picture }
	if err := json.Unmarshal(s.raw, &system); err != nil {
		return "", fmt.Errorf("its system cannot be read: %w", err)
	}
	m, err := managerOf(c, s)
	if err != nil {
		return "", err
	}
	told := system.GraphicalConsole
	if told == nil {
		told = m.GraphicalConsole
	}
	known := slices.IndexFunc(rfbConsoles, func(k rfbConsole) bool { return strings.ToLower(m.Model) == k.model })
	switch why, _ := ownPageOf(makerOf(c, s)); {
	case known < 0 && why != "":
		return "", fmt.Errorf("%s: %w", why, driver.ErrUnsupported)
	case told == nil:
		return "", fmt.Errorf("it tells of no graphical console: %w", driver.ErrUnsupported)
	case told.ServiceEnabled != nil && !*told.ServiceEnabled:
		return "", fmt.Errorf("its graphical console is switched off: switch it on at the BMC: %w", driver.ErrUnsupported)
	case !slices.Contains(told.ConnectTypesSupported, "KVMIP"):
		return "", fmt.Errorf("its graphical console is not reached by the network (KVMIP): %w", driver.ErrUnsupported)
	case known < 0:
		return "", fmt.Errorf("its graphical console speaks a protocol that Redfish does not name, and its firmware (manager %.40q) is not known to speak RFB by a WebSocket: %w", m.Model, driver.ErrUnsupported)
	}
	return rfbConsoles[known].path, m.sole(c, s, rfbConsoles[known].path)
}

// pieces is a WebSocket whose server takes short messages only, and not many at once.
type pieces struct{ serialline.Stream }

// largestPiece is how much one message holds, in bytes. OpenBMC's bmcweb has room for 1,024 that its server of pictures has not taken. It
// ends the session at a longer message, and its buffer throws where several are too much together. So it has pieceRest after each full
// piece to hand that on.
const (
	largestPiece = 256
	pieceRest    = 20 * time.Millisecond
)

// Write implements serialline.Stream.
func (p pieces) Write(b []byte) error {
	for part := range slices.Chunk(b, largestPiece) {
		if err := p.Stream.Write(part); err != nil {
			return err
		}
		if len(part) == largestPiece {
			time.Sleep(pieceRest)
		}
	}
	return nil
}
