// Package networkdata reads a node's network_data, which is Nova's network metadata
// (https://docs.openstack.org/nova/latest/user/metadata.html), as far as a ramdisk's agent acts on it: rackd checks it
// before a boot, and the agent configures the machine from it.
//
// It imports nothing of the project. Invariant: what Parse accepts, the agent configures whole. What it cannot configure is refused with
// the link's or the network's id, for a ramdisk without one of its interfaces could call no rackd.
package networkdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrUnsupported means that the agent cannot configure a machine so.
var ErrUnsupported = errors.New("the ramdisk's agent cannot configure this network_data")

// Interface is one network interface and what it is given: a card of the machine, a bond of cards, or a VLAN on one of these.
type Interface struct {
	ID  string
	MAC string // lower case, colons: a card is found by it, a bond and a VLAN are given it
	MTU int    // 0: leave it
	// Bond is what the interface is made of if it is a bond, VLAN what it stands on if it is a VLAN. A card has neither.
	Bond *Bond
	VLAN *VLAN
	// DHCP: it asks for its IPv4 address. DHCP6: it asks for an IPv6 address. SLAAC: it takes one of a router's prefix.
	DHCP, DHCP6, SLAAC bool
	Addresses          []netip.Prefix
	Routes             []Route
	DNS                []netip.Addr
}

// Bond is how cards are one interface.
type Bond struct {
	Mode string   // as the kernel names it
	Of   []string // the ids of the cards
	// MIIMon is how often the carrier of the cards is looked at, in milliseconds; UpDelay and DownDelay are how long a change of it is
	// waited with, 0: not at all.
	MIIMon, UpDelay, DownDelay int
	HashPolicy                 string // empty: the kernel's own
	LACPRate                   string // slow, fast, or empty: the kernel's own
	Primary                    string // the id of the card that is used when it can be; empty: none
	MinLinks                   int    // 0: the kernel's own
}

// VLAN is a network of IEEE 802.1Q on another interface.
type VLAN struct {
	On  string // the id of the other
	Tag int
}

// Route leads to a network by a gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Bounds of network_data: it may come from who may do no more than write a node's fields, and rackds read it at each call of an agent.
const (
	maxLinks    = 256
	maxNetworks = 256
	maxRoutes   = 1024 // of all networks, and name servers with them
	// maxStacked is how many bonds and VLANs the kernel takes on each other, above a card.
	maxStacked = 7
)

// bounded refuses more than any machine has.
func (d document) bounded() error {
	routes := len(d.Services)
	for _, n := range d.Networks {
		routes += len(n.Routes) + len(n.Services)
		for _, r := range n.Routes {
			routes += len(r.Services)
		}
	}
	for _, c := range []struct {
		what      string
		has, most int
	}{{"links", len(d.Links), maxLinks}, {"networks", len(d.Networks), maxNetworks}, {"routes and name servers", routes, maxRoutes}} {
		if c.has > c.most {
			return fmt.Errorf("network_data has %d %s, and %d are the most: %w", c.has, c.what, c.most, ErrUnsupported)
		}
	}
	return nil
}

// document is what is read of network_data.
type document struct {
	Links    []link    `json:"links"`
	Networks []network `json:"networks"`
	Services []service `json:"services"`
}

// Parse reads network_data. Each interface comes after those that it is made of. Its errors name the link or network by its id; those that
// wrap ErrUnsupported are of what may well be valid.
func Parse(raw []byte) ([]Interface, error) {
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("network_data: %w", err)
	}
	if err := d.bounded(); err != nil {
		return nil, err
	}
	list, err := interfaces(d.Links)
	if err != nil {
		return nil, err
	}
	for _, n := range d.Networks {
		if err := n.join(list); err != nil {
			return nil, fmt.Errorf("network %.60q: %w", n.ID, err)
		}
	}
	for place := range list {
		if list[place].DNS, err = servers(list[place].DNS, d.Services); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Addresses are all that the interfaces are given for good.
func Addresses(list []Interface) (all []netip.Addr) {
	for _, i := range list {
		for _, p := range i.Addresses {
			all = append(all, p.Addr())
		}
	}
	return all
}

// Asks reports whether one of the interfaces gets an address from the network: by DHCP, DHCPv6, or from a router's prefix.
func Asks(list []Interface) bool {
	return slices.ContainsFunc(list, func(i Interface) bool { return i.DHCP || i.DHCP6 || i.SLAAC })
}

// Elsewhere reports whether the machine may have addresses of a version of IP that neither network_data nor the rack's own leases tell.
// They are those that it asks for beside fixed ones, and those that it asks for on a VLAN or a bond.
func Elsewhere(list []Interface, six bool) bool {
	fixed := slices.ContainsFunc(Addresses(list), func(a netip.Addr) bool { return a.Is4() != six })
	return slices.ContainsFunc(list, func(i Interface) bool {
		return (six && (i.DHCP6 || i.SLAAC) || !six && i.DHCP) && (fixed || i.Bond != nil || i.VLAN != nil)
	})
}
