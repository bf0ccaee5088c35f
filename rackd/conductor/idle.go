package conductor

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Nodes lists all nodes in memory, those of other rackds too.
func (c *Conductor) Nodes() []string { return c.cfg.Documents.Nodes() }

// Knows reports whether there is such a node, of this rackd or another one.
func (c *Conductor) Knows(id string) bool {
	_, _, known := c.cfg.Documents.Kind(id)
	return known
}

// Owns reports whether the ring gives a node to this rackd, which has a lease.
func (c *Conductor) Owns(id string) bool { return c.owns(id) }

// Idle returns a copy of a node with its secrets open, and its hardware; a nil node
// when this rackd does not own it or it has work in flight.
func (c *Conductor) Idle(id string) (*node.Document, *driver.Hardware, error) {
	if w := c.cfg.Documents.Work(id); w != nil && w.Doc.Open() {
		return nil, nil, nil
	}
	return c.Owned(id)
}

// Owned returns a copy of a node with its secrets open, and its hardware; a nil node when this rackd does not own it.
func (c *Conductor) Owned(id string) (*node.Document, *driver.Hardware, error) {
	if !c.owns(id) {
		return nil, nil, nil
	}
	n := c.cfg.Documents.Node(id)
	if n == nil {
		return nil, nil, nil
	}
	n, err := c.Open(n)
	if err != nil {
		return nil, nil, err
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	if err != nil {
		return nil, nil, err
	}
	return n, hw, nil
}

// forcedReports is how often a power state that central is to correct is reported. Then it is taken for known.
const forcedReports = 3

// SawPower reports the power state of a machine, read at a time, unless this rackd reported the same within powerAgain.
// force: central is to have the machine brought back into the state on record, if that is another. Such a report is made
// again at the next reads, until the machine is as it was or central has heard it forcedReports times.
func (c *Conductor) SawPower(ctx context.Context, n *node.Document, s driver.PowerState, at time.Time, force bool) error {
	t := c.lastTold(n.UUID)
	if t.power == s && c.age()-t.at < int32(powerAgain/time.Second) {
		if t.forced > 0 {
			c.note(n.UUID, func(t *told) { t.forced = 0 })
		}
		return nil
	}
	e := work.Event{Kind: work.PowerObserved, Node: n.UUID, Group: n.Group, Rackd: c.cfg.Name, Time: at.UTC(), Power: string(s), ForcePower: force}
	if !force || t.power == "" || t.power == s || t.forced+1 >= forcedReports {
		return c.Report(ctx, e)
	}
	err := c.tellIdle(ctx, e)
	if err == nil {
		c.note(n.UUID, func(t *told) { t.forced++ })
	}
	return err
}

// Report publishes an observation of a machine's power that belongs to no work.
func (c *Conductor) Report(ctx context.Context, e work.Event) error {
	e.Cut()
	err := c.tellIdle(ctx, e)
	c.notePower(e, err)
	return err
}

// tellIdle publishes what belongs to no work; what fails is told with the next read of the machine.
func (c *Conductor) tellIdle(ctx context.Context, e work.Event) error {
	err := c.cfg.Documents.Publish(ctx, e)
	c.away.Tried(c.log, "reporting what idle machines do", err, "node", e.Node, "kind", string(e.Kind))
	return err
}

// seeWithin bounds what is read of an idle machine.
const seeWithin = time.Minute

// SawHardware reads boot mode, secure boot and health of an idle machine and reports
// them, unless this rackd reported the same before.
func (c *Conductor) SawHardware(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	reading, cancel := context.WithTimeout(ctx, seeWithin)
	o := c.flows.ReadBoot(reading, hw, n)
	cancel()
	// What drivers keep may come of the reads, as the key of a BMC that was talked to for the first time.
	hw.Remember(n, &o)
	last := c.lastTold(n.UUID)
	if o.Kept != nil && last.kept == maphash.Bytes(keptSeed, o.Kept) && c.age()-last.keptAt < int32(keptAgain/time.Second) {
		o.Kept = nil // on its way into the document
	}
	if o.Kept == nil && (o.Empty() || last.boot == seenOf(o)) {
		return nil
	}
	err := c.TellHardware(ctx, n, &o)
	c.noteHardware(n.UUID, &o, err)
	return err
}

// TellLog publishes lines for the history of a node, with an observation, that belong to no work.
func (c *Conductor) TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error {
	e := flow.HardwareEvent(c.cfg.Name, n, o)
	e.Before = lines
	e.Cut()
	return c.tellIdle(ctx, e)
}

// Fence returns the fence of a write to an idle node's machine that no request asked for.
func (c *Conductor) Fence(n *node.Document) driver.Fence { return idleFence{c, n} }

// idleFence holds while this rackd owns the node and no work has begun.
type idleFence struct {
	c *Conductor
	n *node.Document
}

// Check implements driver.Fence.
func (f idleFence) Check() error {
	if err := f.c.cfg.Members.Confirm(); err != nil {
		return fmt.Errorf("node %s: %w: %w", f.n.Label(), driver.ErrFenced, err)
	}
	w, now := f.c.cfg.Documents.Work(f.n.UUID), f.c.cfg.Documents.Node(f.n.UUID)
	if w != nil && w.Doc.Open() {
		return fmt.Errorf("node %s: %w: work %s (%s) has begun", f.n.Label(), driver.ErrFenced, w.Doc.ID, w.Doc.Verb)
	}
	// What is written was decided by what was read before. A request may have asked for something else meanwhile.
	if w != nil && w.Doc.Generation > f.n.Generation || now == nil || now.Generation > f.n.Generation || now.BootSet != f.n.BootSet || f.c.bootPending(now) {
		return fmt.Errorf("node %s: %w: a request has changed it since it was looked at", f.n.Label(), driver.ErrFenced)
	}
	if !f.c.owns(f.n.UUID) {
		return fmt.Errorf("node %s: %w: the ring gives it to another rackd", f.n.Label(), driver.ErrFenced)
	}
	return nil
}

// Work implements driver.Fence.
func (idleFence) Work() string { return "" }

// Epoch implements driver.Fence.
func (idleFence) Epoch() uint64 { return 0 }

// LeftFence returns the fence of a write to what was the BMC of a node that was deleted. It holds while this rackd has its lease,
// follows the node's group and is shown no such node.
func (c *Conductor) LeftFence(n *node.Document) driver.Fence { return leftFence{idleFence{c, n}} }

type leftFence struct{ idleFence }

// Check implements driver.Fence.
func (f leftFence) Check() error {
	if err := f.c.cfg.Members.Confirm(); err != nil {
		return fmt.Errorf("node %s: %w: %w", f.n.Label(), driver.ErrFenced, err)
	}
	if f.c.Knows(f.n.UUID) {
		return fmt.Errorf("node %s: %w: it is there again", f.n.Label(), driver.ErrFenced)
	}
	if !f.c.cfg.Documents.Deleted(f.n.UUID) {
		return fmt.Errorf("node %s: %w: this rackd does not see whether it is there, for it does not serve conductor group %q any more", f.n.Label(), driver.ErrFenced, f.n.Group)
	}
	return nil
}

// TellHardware publishes an observation that belongs to no work.
func (c *Conductor) TellHardware(ctx context.Context, n *node.Document, o *hardware.Observation) error {
	return c.tellIdle(ctx, flow.HardwareEvent(c.cfg.Name, n, o))
}
