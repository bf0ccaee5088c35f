package conductor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// BootOrder says what a machine that boots from the network is to do.
type BootOrder struct {
	Node  *node.Document
	State provision.State
	Order bootorder.Order
	// BootID is the id of the boot, for the agent to show.
	BootID string
	// Addresses are those that the machine is known to have been given.
	Addresses []netip.Addr
	// needs is what the machine is to run, as far as is known here.
	needs need
}

// need is what a machine is to run.
type need int

// What machines are to run: nothing that is known, the ramdisk, their instance.
const (
	needsNothing need = iota
	needsRamdisk
	needsInstance
)

// BootByMAC and BootByUUID answer for netboot, from memory; ok is false for a machine that is
// not of this group.
func (c *Conductor) BootByMAC(mac string) (BootOrder, bool) {
	return c.bootOrder(c.cfg.Documents.NodeByMAC(strings.ToLower(mac)))
}

// BootByUUID is BootByMAC for a node's UUID.
func (c *Conductor) BootByUUID(id string) (BootOrder, bool) {
	return c.bootOrder(c.cfg.Documents.Node(id))
}

func (c *Conductor) bootOrder(n *node.Document) (BootOrder, bool) {
	if n == nil {
		return BootOrder{}, false
	}
	return c.orderFor(n), true
}

// lookWithin bounds how long a machine waits for the bus.
const lookWithin = 2 * time.Second

// Asked is the order for a machine that asks what to do and will do it. The bus is asked before one is
// told that there is nothing for it: it was started, and the work that did so may not
// have come here yet. Nor is one told so whose work has ended, before the node shows how: its instance may boot from the network.
func (c *Conductor) Asked(o BootOrder) BootOrder {
	if o.needs == needsInstance || o.Order.Again || c.cfg.Members.Check() != nil || o.needs == needsRamdisk && c.runner(o.Node.UUID) != nil {
		return o
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	read := func(ctx context.Context) error { return c.cfg.Documents.RefreshWork(ctx, o.Node.Group, o.Node.UUID) }
	switch err := c.asks.at(ctx, o.Node.UUID, read); {
	case err == nil:
		o = c.orderFor(o.Node)
	case o.needs == needsRamdisk: // by another rackd's work: its boot, as far as it is known here
	case !errors.Is(err, view.ErrNoWork):
		c.loud.Do(func() {
			c.log.Warn("machine told to ask again, because the bus does not say whether it has work", "node", o.Node.UUID, "error", err)
		})
		o.withhold(bootorder.Later(fmt.Sprintf("Node %s asked a rackd that cannot read its site's bus.", o.Node.Label())))
	}
	if o.Order.Refuses() && provision.Transient(o.State) {
		// Its work is over, and central's word of that is on its way, or its work is.
		o.withhold(bootorder.Later(fmt.Sprintf("Node %s is in state %q, and its work is not known here.", o.Node.Label(), o.State)))
	}
	return o
}

// withhold gives the machine another order, which travels as the one before.
func (o *BootOrder) withhold(instead bootorder.Order) {
	instead.OverTFTP, instead.Direct = o.Order.OverTFTP, o.Order.Direct
	o.Order, o.needs = instead, needsNothing
}

// orderFor is what this rackd knows of a node.
func (c *Conductor) orderFor(n *node.Document) BootOrder {
	state, open := c.state(n)
	boot := c.bootOf(n.UUID)
	o := BootOrder{Node: n, State: state, Addresses: c.addresses(n, boot)}
	var facts map[string]string
	fact := ""
	w := c.cfg.Documents.Work(n.UUID)
	if w != nil && w.Doc.Generation >= n.Generation {
		facts = w.Doc.Checkpoint.Facts // also of one that has ended: the node may not show yet what its instance boots
	}
	if w != nil && open {
		facts = w.Doc.Checkpoint.Facts
		fact = facts[driver.FactBoot]
		if key := c.cfg.Keys.Of(n.Group); key != nil {
			o.BootID = key.BootID(n.UUID, w.Doc.Root(), boot.Number)
		}
		if r := c.runner(n.UUID); r != nil {
			fact = r.BootFact()
		}
	}
	n = driver.WithBootMode(n, facts)
	o.Node = n
	if len(n.Targets) > 0 {
		opened, err := c.Open(n)
		if err != nil {
			c.loud.Do(func() {
				c.log.Warn("machine told to ask again, because the secrets of its volumes cannot be opened", "node", n.UUID, "error", err)
			})
			o.withhold(bootorder.Later(fmt.Sprintf("Node %s asked a rackd that cannot open the secrets of its volumes.", n.Label())))
			return o
		}
		n = opened
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	var lacks bootorder.Order
	if err != nil {
		lacks = bootorder.Later(fmt.Sprintf("Node %s asked a rackd that has not its drivers: %v.", n.Label(), err))
		o.Order = bootorder.LocalDisk() // that is there whatever drivers this rackd has
	} else {
		o.Order = hw.Boot().InstanceOrder(n, facts)
	}
	if c.Blind() {
		o.withhold(bootorder.Later(fmt.Sprintf("Node %s asked a rackd that has lost its site's bus.", n.Label())))
		return o
	}
	switch {
	case open && fact == driver.BootRamdisk && err != nil:
		o.withhold(lacks)
	case open && fact == driver.BootRamdisk:
		now := *n // its work may have gone on since central wrote it
		now.State = state
		o.Order, o.needs = hw.Boot().RamdiskOrder(&now, facts), needsRamdisk
	case err != nil && notOnDisk(n) && (state == provision.Active || open && fact == driver.BootInstance):
		o.withhold(lacks)
	case open && fact == driver.BootInstance, state == provision.Active, state == provision.Rescue:
		o.needs = needsInstance
	case open:
		// The owner may have written more than has come here. A machine that started again would
		// lose a boot device that was set for one boot, and never call.
		o.withhold(bootorder.Later(fmt.Sprintf("Node %s is in state %q, which does not boot from the network now.", n.Label(), state)))
	default:
		o.withhold(bootorder.Refuse(fmt.Sprintf("Node %s is in state %q: there is nothing to boot. Deploy it, or power it off.", n.Label(), state)))
	}
	return o
}

// notOnDisk reports whether a node's instance may be something else than what is on its machine's disk: files, or a volume. What it
// boots exactly the node's drivers know.
func notOnDisk(n *node.Document) bool {
	if len(n.InstanceFiles) > 0 {
		return true
	}
	_, image := n.InstanceInfo["image_source"]
	return !image && n.Interface("storage") != "noop" && slices.ContainsFunc(n.Targets, func(t node.Target) bool { return t.BootIndex == 0 })
}

// trustAgain is how long a rackd without a lease sends machines elsewhere. After that
// the bus is taken to be away for everybody, and what was last known is better than
// nothing.
const trustAgain = 5 * time.Minute

// Blind reports whether this rackd may lack documents of its nodes: it has just started and still reads them, or it lost its site's
// bus less than trustAgain ago. A machine that is not known here may be a node's then. Told that it is none, it would end its boot
// and never call.
func (c *Conductor) Blind() bool {
	return c.cfg.Members.Check() != nil && c.cfg.Members.Age() < trustAgain
}

// Seen is told what a machine does: "dhcp", "tftp", "script", "kernel", …. It returns
// the rackd to tell instead when that runs the machine's work, and the node's group. What
// a machine asks for is a line of history and changes nothing else; an address that
// DHCP gives is remembered, for its agent to be known by. A machine whose instance is a volume has no work when it starts: that it
// has not booted is told all the same.
func (c *Conductor) Seen(s ask.Sign) (elsewhere, group string) {
	n := c.cfg.Documents.NodeByMAC(strings.ToLower(s.Address))
	if n == nil {
		return "", ""
	}
	if r := c.runner(n.UUID); r != nil {
		r.Saw(s)
		return "", ""
	}
	if w := c.cfg.Documents.Work(n.UUID); w != nil && w.Doc.Open() && w.Doc.Owner != c.cfg.Name {
		return w.Doc.Owner, n.Group
	}
	if s.Phase == ask.SignVolume {
		c.unbooted(n, s)
	}
	return "", ""
}
