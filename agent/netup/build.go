package netup

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

// made is an interface of network_data that the kernel has.
type made struct {
	networkdata.Interface
	name  string   // the kernel's
	index int      // the kernel's
	cards []string // the MAC addresses of the cards that it consists of
}

// errNoCard is a card that the machine does not show.
var errNoCard = errors.New("the machine shows no network card with this MAC address")

// clear takes away the bonds and VLANs that an agent before this one has made in this boot: it has crashed. The ramdisk has no others.
// Their cards have their own MAC addresses again, which network_data names.
func (m *Manager) clear() error {
	all, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	for _, l := range all {
		switch l.(type) {
		case *netlink.Bond, *netlink.Vlan:
			m.Log.Info("taking away an interface of the agent before", "interface", l.Attrs().Name)
			err := netlink.LinkDel(l)
			if errors.Is(err, unix.ENODEV) { // it has gone with what it stood on
				continue
			}
			if err != nil {
				return fmt.Errorf("taking away interface %s, which an agent before this one has made: %w", l.Attrs().Name, err)
			}
		}
	}
	return nil
}

// build makes the bonds and VLANs of network_data, and brings all interfaces up that it names. It tells what cannot be made, and makes the
// rest: one of them may lead to a rackd.
func (m *Manager) build(cards []netlink.Link) []made {
	if m.Modules != nil && slices.ContainsFunc(m.Given, func(i networkdata.Interface) bool { return i.Bond != nil || i.VLAN != nil }) {
		m.Modules()
	}
	inBond := map[string]bool{}
	for _, i := range m.Given {
		if i.Bond != nil {
			for _, id := range i.Bond.Of {
				inBond[id] = true
			}
		}
	}
	there := map[string]made{}
	var list []made
	for _, i := range m.Given {
		d := made{Interface: i}
		var err error
		switch {
		case i.Bond != nil:
			err = m.bond(&d, there)
		case i.VLAN != nil:
			err = m.vlan(&d, there)
		default:
			err = card(&d, cards)
		}
		if err == nil && !inBond[i.ID] {
			if err = m.up(d); err == nil {
				list = append(list, d)
			}
		}
		if err != nil {
			m.Log.Error("cannot make an interface of network_data", "id", i.ID, "mac", i.MAC, "interface", d.name, "error", err)
			continue
		}
		there[i.ID] = d
	}
	for _, l := range cards {
		if !slices.ContainsFunc(m.Given, func(i networkdata.Interface) bool {
			return i.Bond == nil && i.VLAN == nil && i.MAC == l.Attrs().HardwareAddr.String()
		}) {
			m.Log.Info("network_data does not name this interface, which gets no address", "interface", l.Attrs().Name, "mac", l.Attrs().HardwareAddr)
			if err := netlink.LinkSetUp(l); err != nil { // the inventory tells whether it has a cable
				m.Log.Warn("cannot bring up interface", "interface", l.Attrs().Name, "error", err)
			}
		}
	}
	return list
}

// card finds a card by its MAC address.
func card(d *made, cards []netlink.Link) error {
	at := slices.IndexFunc(cards, func(l netlink.Link) bool { return l.Attrs().HardwareAddr.String() == d.MAC })
	if at < 0 {
		return errNoCard
	}
	d.name, d.index, d.cards = cards[at].Attrs().Name, cards[at].Attrs().Index, []string{d.MAC}
	return nil
}

// bond makes a bond of those of its cards that are there.
func (m *Manager) bond(d *made, there map[string]made) error {
	var cards []made
	for _, id := range d.Bond.Of {
		if c, is := there[id]; is {
			cards = append(cards, c)
		}
	}
	if len(cards) == 0 {
		return fmt.Errorf("a bond of %s: none of them is there", strings.Join(d.Bond.Of, ", "))
	}
	name, err := free("bond")
	if err != nil {
		return err
	}
	b := netlink.NewLinkBond(attributes(d, name))
	b.Mode, b.Miimon = netlink.StringToBondMode(d.Bond.Mode), d.Bond.MIIMon
	if d.Bond.HashPolicy != "" {
		b.XmitHashPolicy = netlink.StringToBondXmitHashPolicy(d.Bond.HashPolicy)
	}
	if d.Bond.LACPRate != "" {
		b.LacpRate = netlink.StringToBondLacpRate(d.Bond.LACPRate)
	}
	for _, n := range []struct {
		given int
		to    *int
	}{{d.Bond.UpDelay, &b.UpDelay}, {d.Bond.DownDelay, &b.DownDelay}, {d.Bond.MinLinks, &b.MinLinks}} {
		if n.given != 0 {
			*n.to = n.given
		}
	}
	if err := m.add(d, b); err != nil {
		return fmt.Errorf("making a bond of mode %s of %s: %w", d.Bond.Mode, strings.Join(d.Bond.Of, ", "), err)
	}
	for _, c := range cards {
		if err := enslave(c, d.index); err != nil {
			m.Log.Error("cannot put a card into a bond of network_data", "id", c.ID, "mac", c.MAC, "interface", c.name, "bond", name, "error", err)
			continue
		}
		d.cards = append(d.cards, c.cards...)
		if c.ID == d.Bond.Primary {
			if err := netlink.LinkModify(primary(name, d.index, c.index)); err != nil {
				m.Log.Error("cannot make a card of a bond the one that is preferred", "id", c.ID, "interface", c.name, "bond", name, "error", err)
			}
		}
	}
	if len(d.cards) == 0 {
		err := fmt.Errorf("a bond of %s: none of them can be put into it", strings.Join(d.Bond.Of, ", "))
		return errors.Join(err, netlink.LinkDel(b))
	}
	return nil
}

// primary is a bond of which the preferred card alone is told.
func primary(name string, bond, card int) *netlink.Bond {
	a := netlink.NewLinkAttrs()
	a.Name, a.Index = name, bond
	b := netlink.NewLinkBond(a)
	b.Primary = card
	return b
}

// enslave puts a card into a bond. The kernel takes none that is up, and brings it up itself.
func enslave(c made, bond int) error {
	l, err := netlink.LinkByIndex(c.index)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetDown(l); err != nil {
		return fmt.Errorf("bringing it down: %w", err)
	}
	return netlink.LinkSetMasterByIndex(l, bond)
}

// vlan makes a VLAN on another interface.
func (m *Manager) vlan(d *made, there map[string]made) error {
	on, is := there[d.VLAN.On]
	if !is {
		return fmt.Errorf("the VLAN %d on link %q, which is not there", d.VLAN.Tag, d.VLAN.On)
	}
	name := fmt.Sprintf("%s.%d", on.name, d.VLAN.Tag)
	if len(name) > maxName {
		var err error
		if name, err = free("vlan"); err != nil {
			return err
		}
	}
	v := &netlink.Vlan{LinkAttrs: attributes(d, name), VlanId: d.VLAN.Tag, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	v.ParentIndex = on.index
	if err := m.add(d, v); err != nil {
		return fmt.Errorf("making the VLAN %d on link %q: %w", d.VLAN.Tag, d.VLAN.On, err)
	}
	d.cards = on.cards
	return nil
}

// maxName is the longest name of an interface.
const maxName = 15

// free is a name that no interface has.
func free(kind string) (string, error) {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s%d", kind, n)
		_, err := netlink.LinkByName(name)
		if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("looking for a free name of an interface: %w", err)
		}
	}
}

// attributes are what bonds and VLANs are made with.
func attributes(d *made, name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = name, d.MTU
	a.HardwareAddr, _ = net.ParseMAC(d.MAC) // as networkdata has written it
	return a
}

// add has the kernel make an interface.
func (m *Manager) add(d *made, l netlink.Link) error {
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	d.name = l.Attrs().Name
	is, err := netlink.LinkByName(d.name)
	if err != nil {
		return err
	}
	d.index = is.Attrs().Index
	return nil
}

// up brings an interface up, and looks that the kernel has it as network_data says.
func (m *Manager) up(d made) error {
	m.without6(d.name, d.Interface)
	l, err := netlink.LinkByIndex(d.index)
	if err != nil {
		return err
	}
	if d.MTU != 0 && d.MTU != l.Attrs().MTU {
		if err := netlink.LinkSetMTU(l, d.MTU); err != nil {
			m.Log.Error("the interface does not take the mtu of network_data", "interface", d.name, "id", d.ID, "mtu", d.MTU, "has", l.Attrs().MTU, "error", err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bringing it up: %w", err)
	}
	if l, err = netlink.LinkByIndex(d.index); err != nil {
		return err
	}
	if odd := differs(l, d); len(odd) > 0 {
		m.Log.Error("the kernel has an interface otherwise than network_data says", "interface", d.name, "id", d.ID, "differs", strings.Join(odd, "; "))
	}
	return nil
}

// differs tells what the kernel has otherwise than it was told.
func differs(l netlink.Link, d made) (odd []string) {
	check := func(what string, is, want any) {
		if is != want {
			odd = append(odd, fmt.Sprintf("%s is %v, not %v", what, is, want))
		}
	}
	check("MAC address", l.Attrs().HardwareAddr.String(), d.MAC)
	if d.MTU != 0 {
		check("mtu", l.Attrs().MTU, d.MTU)
	}
	if b, is := l.(*netlink.Bond); d.Bond != nil {
		check("a bond", is, true)
		if !is {
			return odd
		}
		check("mode", b.Mode.String(), d.Bond.Mode)
		check("miimon", b.Miimon, d.Bond.MIIMon)
		check("updelay", b.UpDelay, d.Bond.UpDelay)
		check("downdelay", b.DownDelay, d.Bond.DownDelay)
		if d.Bond.HashPolicy != "" {
			check("xmit_hash_policy", b.XmitHashPolicy.String(), d.Bond.HashPolicy)
		}
		if d.Bond.LACPRate != "" {
			check("lacp_rate", b.LacpRate.String(), d.Bond.LACPRate)
		}
		if d.Bond.MinLinks != 0 {
			check("min_links", b.MinLinks, d.Bond.MinLinks)
		}
		if d.Bond.Primary != "" {
			check("a primary", b.Primary > 0, true)
		}
	}
	if v, is := l.(*netlink.Vlan); d.VLAN != nil {
		check("a VLAN", is, true)
		if is {
			check("vlan_id", v.VlanId, d.VLAN.Tag)
		}
	}
	return odd
}
