package conductor

import (
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// tellLeases tells the owner of a node's work which addresses this rackd's DHCP knows of the machine and the
// owner has not written down. DHCP gives an address once: the owner of that moment may have had no runner, or
// may have died before it wrote. So every look at the node's documents compares, and tells again. A list that is full is left as it
// is: the owner would write a checkpoint for what it is told, without another address that the next rackd tells it then, and so on.
func (c *Conductor) tellLeases(n *node.Document, d *work.Document) {
	if c.cfg.Leases == nil || c.cfg.TellOwner == nil || n == nil || d.Owner == "" || d.Owner == c.cfg.Name || !d.State.In(provision.LookupAllowed) || d.Checkpoint.Boot.Full() {
		return
	}
	for _, p := range n.Ports {
		mac := strings.ToLower(p.Address)
		for _, a := range c.cfg.Leases.Addresses(mac) {
			if !slices.Contains(d.Checkpoint.Boot.Addresses, a) {
				c.cfg.TellOwner(d.Owner, n.Group, ask.Sign{Address: mac, Leased: a})
			}
		}
	}
}
