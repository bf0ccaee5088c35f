package networkdata

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// network is one of network_data's networks.
type network struct {
	ID       string    `json:"id"`
	Link     string    `json:"link"`
	Type     string    `json:"type"`
	Address  string    `json:"ip_address"`
	Netmask  string    `json:"netmask"`
	Gateway  string    `json:"gateway"`
	Routes   []route   `json:"routes"`
	Services []service `json:"services"`
}

type route struct {
	Network  string    `json:"network"`
	Netmask  string    `json:"netmask"`
	Gateway  string    `json:"gateway"`
	Services []service `json:"services"`
}

type service struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// join gives an interface of the list what the network says.
func (n network) join(list []Interface) error {
	place := slices.IndexFunc(list, func(i Interface) bool { return i.ID == n.Link })
	if place < 0 {
		return fmt.Errorf("it is on link %.60q, which is none", n.Link)
	}
	for _, i := range list {
		if i.Bond != nil && slices.Contains(i.Bond.Of, n.Link) {
			return fmt.Errorf("it is on link %.60q, which is in the bond %.60q: give the bond the network", n.Link, i.ID)
		}
	}
	i := &list[place]
	fixed := true
	switch n.Type {
	case "ipv4_dhcp":
		i.DHCP, fixed = true, false
	case "ipv6_dhcp":
		i.DHCP6, fixed = true, false
	case "ipv6_slaac":
		// Its writer may know the address that comes of the prefix. It is the interface's at once then.
		i.SLAAC, fixed = true, n.Address != ""
	case "ipv4", "ipv6":
	default:
		return fmt.Errorf("its type is %.20q: %w: give ipv4, ipv4_dhcp, ipv6, ipv6_dhcp or ipv6_slaac", n.Type, ErrUnsupported)
	}
	six := strings.HasPrefix(n.Type, "ipv6")
	if six && i.MTU != 0 && i.MTU < minMTU6 {
		return fmt.Errorf("IPv6 needs an mtu of %d at least, and its link %.60q has %d", minMTU6, n.Link, i.MTU)
	}
	if err := n.address(i, list, six, fixed); err != nil {
		return err
	}
	if err := n.routes(i, six); err != nil {
		return err
	}
	var err error
	i.DNS, err = servers(i.DNS, n.Services)
	return err
}

// address gives an interface the network's address, if it is a fixed one.
func (n network) address(i *Interface, list []Interface, six, fixed bool) error {
	if !fixed {
		if n.Address != "" || n.Netmask != "" {
			return fmt.Errorf("its type is %s, and it has an ip_address or a netmask: %w: leave them out", n.Type, ErrUnsupported)
		}
		return nil
	}
	address, err := prefix(n.Address, n.Netmask)
	if err != nil {
		return err
	}
	if a := address.Addr(); a.Is4() == six || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return fmt.Errorf("%s is no address that a machine can have in a network of type %s", a, n.Type)
	}
	if slices.Contains(Addresses(list), address.Addr()) {
		return fmt.Errorf("another network has its address %s", address.Addr())
	}
	i.Addresses = append(i.Addresses, address)
	return nil
}

// routes gives an interface the network's routes, and the name servers that are named with them.
func (n network) routes(i *Interface, six bool) error {
	if n.Gateway != "" {
		everywhere := "0.0.0.0/0"
		if six {
			everywhere = "::/0"
		}
		n.Routes = append(n.Routes, route{everywhere, "", n.Gateway, nil})
	}
	for _, r := range n.Routes {
		to, err := prefix(r.Network, r.Netmask)
		via, e := netip.ParseAddr(r.Gateway)
		if err = errors.Join(err, e); err != nil {
			return fmt.Errorf("the route to %.60q by %.60q: %w", r.Network, r.Gateway, err)
		}
		if via.Is4() == six || to.Addr().Is4() == six || via.Zone() != "" || via.IsUnspecified() || via.IsMulticast() {
			return fmt.Errorf("the route to %.60q by %.60q is none in a network of type %s", r.Network, r.Gateway, n.Type)
		}
		if made := (Route{to.Masked(), via}); !slices.Contains(i.Routes, made) {
			i.Routes = append(i.Routes, made)
		}
		if i.DNS, err = servers(i.DNS, r.Services); err != nil {
			return err
		}
	}
	return nil
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
			return nil, fmt.Errorf("a service of type %.20q: %w: give dns alone", s.Type, ErrUnsupported)
		}
		host, _, _ := strings.Cut(s.Address, "/") // Ironic's schema lets addresses of IPv6 have the length of a prefix
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" { // a zone is a text, and ends in the resolver's file
			return nil, fmt.Errorf("the name server %.60q is no address", s.Address)
		}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list, nil
}
