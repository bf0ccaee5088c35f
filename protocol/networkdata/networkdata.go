// Package networkdata reads a node's network_data, which is Nova's network metadata
// (https://docs.openstack.org/nova/latest/user/metadata.html), as far as a ramdisk's agent acts on it: rackd checks it
// before a boot, and the agent configures the machine from it.
//
// It imports nothing of the project. Invariant: what Parse accepts, the agent configures whole. Bonds, VLANs and links of other
// kinds are refused, for a ramdisk without one of its interfaces could call no rackd.
package networkdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// ErrUnsupported means that the agent cannot configure a machine so.
var ErrUnsupported = errors.New("the ramdisk's agent cannot configure this network_data")

// Interface is one network interface and what it is given.
type Interface struct {
	MAC string // lower case, colons
	MTU int    // 0: leave it
	// DHCP: it asks for its IPv4 address.
	DHCP      bool
	Addresses []netip.Prefix
	Routes    []Route
	DNS       []netip.Addr
}

// Route leads to a network by a gateway.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// document is what is read of network_data.
type document struct {
	Links []struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		MAC  string `json:"ethernet_mac_address"`
		MTU  *int   `json:"mtu"`
	} `json:"links"`
	Networks []struct {
		ID       string    `json:"id"`
		Link     string    `json:"link"`
		Type     string    `json:"type"`
		Address  string    `json:"ip_address"`
		Netmask  string    `json:"netmask"`
		Gateway  string    `json:"gateway"`
		Routes   []route   `json:"routes"`
		Services []service `json:"services"`
	} `json:"networks"`
	Services []service `json:"services"`
}

type route struct {
	Network string `json:"network"`
	Netmask string `json:"netmask"`
	Gateway string `json:"gateway"`
}

type service struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Bounds of an MTU: what every host must take (RFC 791), and what a link's field holds.
const (
	minMTU = 576
	maxMTU = 65535
)

// plain are the types of links that are one interface of the machine.
var plain = []string{"phy", "ovs", "vif", "tap", "bridge", "vhostuser", "hw_veb", "hyperv", "dvs"}

// Parse reads network_data. Its errors name the link or network by its id; those that wrap ErrUnsupported are of what may well be valid.
func Parse(raw []byte) ([]Interface, error) {
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("network_data: %w", err)
	}
	at := map[string]int{}
	var list []Interface
	for _, l := range d.Links {
		if !slices.Contains(plain, l.Type) {
			return nil, fmt.Errorf("link %.60q is of type %.20q: %w: it knows single interfaces alone", l.ID, l.Type, ErrUnsupported)
		}
		mac, err := net.ParseMAC(l.MAC)
		if err != nil || len(mac) != 6 {
			return nil, fmt.Errorf("link %.60q: its ethernet_mac_address %.40q is none", l.ID, l.MAC)
		}
		i := Interface{MAC: mac.String()}
		if l.MTU != nil {
			if i.MTU = *l.MTU; i.MTU < minMTU || i.MTU > maxMTU {
				return nil, fmt.Errorf("link %.60q: an mtu is between %d and %d, not %d", l.ID, minMTU, maxMTU, i.MTU)
			}
		}
		if _, twice := at[l.ID]; twice || slices.ContainsFunc(list, func(o Interface) bool { return o.MAC == i.MAC }) {
			return nil, fmt.Errorf("link %.60q: another has its id or its MAC address", l.ID)
		}
		at[l.ID], list = len(list), append(list, i)
	}
	for _, n := range d.Networks {
		place, known := at[n.Link]
		if !known {
			return nil, fmt.Errorf("network %.60q is on link %.60q, which is none", n.ID, n.Link)
		}
		i := &list[place]
		switch n.Type {
		case "ipv4_dhcp":
			i.DHCP = true
			continue
		case "ipv4", "ipv6":
		default:
			return nil, fmt.Errorf("network %.60q is of type %.20q: %w: give ipv4, ipv6 or ipv4_dhcp", n.ID, n.Type, ErrUnsupported)
		}
		address, err := prefix(n.Address, n.Netmask)
		if err != nil {
			return nil, fmt.Errorf("network %.60q: %w", n.ID, err)
		}
		i.Addresses = append(i.Addresses, address)
		if n.Gateway != "" {
			n.Routes = append(n.Routes, route{everywhere(address), "", n.Gateway})
		}
		for _, r := range n.Routes {
			to, err := prefix(r.Network, r.Netmask)
			via, e := netip.ParseAddr(r.Gateway)
			if err = errors.Join(err, e); err != nil || via.Is4() != address.Addr().Is4() || to.Addr().Is4() != via.Is4() {
				return nil, fmt.Errorf("network %.60q: the route to %.60q by %.60q is none of its kind: %w", n.ID, r.Network, r.Gateway, errors.Join(err, errors.ErrUnsupported))
			}
			i.Routes = append(i.Routes, Route{to.Masked(), via})
		}
		if i.DNS, err = servers(i.DNS, n.Services); err != nil {
			return nil, fmt.Errorf("network %.60q: %w", n.ID, err)
		}
	}
	for place := range list {
		var err error
		if list[place].DNS, err = servers(list[place].DNS, d.Services); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// everywhere is the network of all addresses of an address's kind.
func everywhere(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// prefix reads an address with the length of its network, which stands behind it or in a netmask.
func prefix(address, mask string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(address); err == nil && mask == "" {
		return p, nil
	}
	address, _, _ = strings.Cut(address, "/")
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%.60q is no address with the length of its network", address)
	}
	if m, err := netip.ParseAddr(mask); err == nil {
		if ones, bits := net.IPMask(m.AsSlice()).Size(); bits == a.BitLen() {
			return netip.PrefixFrom(a, ones), nil
		}
	}
	if p, err := netip.ParsePrefix(address + "/" + mask); err == nil {
		return p, nil
	}
	return netip.Prefix{}, fmt.Errorf("%.60q is no netmask of %s", mask, a)
}

// servers adds name servers.
func servers(list []netip.Addr, given []service) ([]netip.Addr, error) {
	for _, s := range given {
		if s.Type != "dns" {
			continue
		}
		a, err := netip.ParseAddr(s.Address)
		if err != nil {
			return nil, fmt.Errorf("the name server %.60q is no address", s.Address)
		}
		if !slices.Contains(list, a) {
			list = append(list, a)
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

// AsksDHCP reports whether one of the interfaces asks for its address.
func AsksDHCP(list []Interface) bool {
	return slices.ContainsFunc(list, func(i Interface) bool { return i.DHCP })
}
