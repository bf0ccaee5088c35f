package conductor

import (
	"encoding/base64"
	"fmt"
	"net/netip"

	"github.com/ironyard/ironyard/protocol/networkdata"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// MediumOrder is what the medium of one boot holds.
type MediumOrder struct {
	Node   *node.Document
	State  provision.State
	Load   bootorder.Load
	BootID string
}

const mediumPurpose = "ramdisk medium"

// MediumCode names the medium of one boot in its URL. Who was given it may read the medium, and so learns the id of the boot; it
// says neither that nor the token.
func MediumCode(key *seal.Key, node, root string, boot uint64) string {
	return base64.RawURLEncoding.EncodeToString(key.Code(mediumPurpose, []byte(node), []byte(root), fmt.Append(nil, boot)))
}

// Medium says what the medium with a code holds; ok is false where the node has no boot with that code now. It answers
// from memory, at each rackd that knows the node.
func (c *Conductor) Medium(id, code string) (o MediumOrder, ok bool) {
	n := c.cfg.Documents.Node(id)
	w := c.cfg.Documents.Work(id)
	given, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if n == nil || w == nil || err != nil {
		return o, false
	}
	key := c.cfg.Keys.Of(n.Group)
	hw, err := c.cfg.Hardware.Resolve(n)
	if key == nil || err != nil {
		return o, false
	}
	maker, makes := hw.Boot().(driver.MediumMaker)
	if !makes {
		return o, false
	}
	root, facts := w.Doc.Root(), w.Doc.Checkpoint.Facts
	boot, ok := w.Doc.Checkpoint.Boot.Number, w.Doc.Open() && facts[driver.FactBoot] == driver.BootRamdisk
	if r := c.runner(id); r != nil {
		root = r.Root()
		boot, facts, ok = r.Medium()
	}
	if !ok || !key.CodeFits(given, mediumPurpose, []byte(id), []byte(root), fmt.Append(nil, boot)) {
		return o, false
	}
	o.BootID = key.BootID(id, root, boot)
	n = driver.WithBootMode(n, facts)
	now := *n // its work may have gone on since central wrote it
	now.State, _ = c.state(n)
	o.Node, o.State = n, now.State
	o.Load, ok = maker.Medium(&now, facts)
	return o, ok
}

// static are the addresses that a machine configures from its medium, without asking DHCP.
func (c *Conductor) static(n *node.Document) []netip.Addr {
	if len(n.NetworkData) == 0 {
		return nil
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	if err != nil || !hw.MakesMedium(n) {
		return nil
	}
	list, err := networkdata.Parse(n.NetworkData)
	if err != nil {
		return nil
	}
	return networkdata.Addresses(list)
}
