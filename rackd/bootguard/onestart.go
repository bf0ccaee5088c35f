package bootguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Firmware uses up a boot device for one start. Where it does not, the machine goes on to boot from there. The guard takes that device back
// once it knows that the device was set before a start: a request has set it, or an earlier look has found it. Starts that requests
// for power have asked for count, and no request or flow may have set a device since.

// patience is how long a machine may be in its firmware. A large server takes that long to reach its boot device.
const patience = 20 * time.Minute

// awaits reports whether a request has set a device for one start that no look has found used up.
func (g *guard) awaits(id string) bool {
	at, device, lasts := g.nodes.BootAsked(id)
	if device == "" || lasts {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.seen[id]
	return s.once != "" || s.at.Before(at)
}

// sawNone notes that no device is set for one start.
func (g *guard) sawNone(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[id] = seen{at: time.Now(), right: g.seen[id].right}
}

// sawOnce notes that a device is set for one start, and returns what was seen before.
func (g *guard) sawOnce(id, device string) seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.seen[id]
	if was.once != device {
		g.seen[id] = seen{once: device, at: time.Now(), right: was.right}
	}
	return was
}

// isRight notes that the device for all starts is the right one.
func (g *guard) isRight(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.seen[id]
	s.right = time.Now()
	g.seen[id] = s
}

// otherMaySet reports whether a request or a flow may have set a device for one start since the one for all starts was seen. A BMC may have
// room for one of the two. A flow leaves an instance with a device for all starts.
func (g *guard) otherMaySet(n *node.Document) bool {
	at, device, lasts := g.nodes.BootAsked(n.UUID)
	g.mu.Lock()
	right := g.seen[n.UUID].right
	g.mu.Unlock()
	switch {
	case lasts:
		return false
	case device == "" && n.State == provision.Active:
		return false
	case at.IsZero() && n.State != provision.Active:
		return right.IsZero()
	}
	return at.After(right)
}

// oneStart looks after a device that is set for one start.
func (g *guard) oneStart(ctx context.Context, n *node.Document, hw *driver.Hardware, device string) error {
	_, asked, lasts := g.nodes.BootAsked(n.UUID)
	start := g.nodes.StartAfter(n.UUID)
	was := g.sawOnce(n.UUID, device)
	before := asked == device && !lasts || was.once == device && was.at.Before(start)
	if start.IsZero() || !before || time.Since(start) < patience {
		return nil
	}
	err := driver.Settle(func() error { return takeBack(ctx, g.nodes.Fence(n), n, hw) })
	if errors.Is(err, driver.ErrFenced) {
		return nil // work has begun, or another rackd has the node: they know better
	}
	found, detail := outlived, fmt.Sprintf("the BMC shows %s for one start, and the machine has started since, at %s: its firmware has not used it up, and would boot from there again",
		device, start.UTC().Format(time.RFC3339))
	switch {
	case err == nil && n.BootSet != "":
		detail += "; " + n.BootSet + ", which was set for all starts, was set again"
		g.sawNone(n.UUID)
		g.isRight(n.UUID)
	case err == nil:
		detail += "; it was taken back"
		g.sawNone(n.UUID)
	default:
		found = kept
		detail += fmt.Sprintf("; it could not be taken back: %v", err)
	}
	if errors.Is(err, driver.ErrUnsupported) {
		detail += ". Set a device for all starts in its place"
		err = nil
	}
	var o hardware.Observation
	hw.Remember(n, &o)
	g.tell(ctx, n, o, found, work.Line{Phase: phase, Detail: detail})
	return err
}

// takeBack has a device for one start give way to the one for all starts, or else to the machine's own order.
func takeBack(ctx context.Context, f driver.Fence, n *node.Document, hw *driver.Hardware) error {
	if n.BootSet != "" {
		return set(ctx, f, n, hw)
	}
	c, can := hw.Management().(driver.OneStartClearer)
	if !can {
		return driver.Unsupported(n, "management", "a boot device taken back")
	}
	return c.ClearOneStart(ctx, f, n)
}
