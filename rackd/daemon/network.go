package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
)

// Network is a further network of machines, on an interface of its own. Rackd gives addresses there and serves it at its own address
// in it. Machines of one network are told of no address in another.
type Network struct {
	Interface string
	Address   netip.Prefix // this rackd's IPv4 address there, with the length of the network's prefix
	From, To  netip.Addr   // both are given to machines
	Router    netip.Addr   // zero: none
}

// ParseNetwork reads a further network as an operator writes it: INTERFACE ADDRESS/BITS FROM-TO [ROUTER].
func ParseNetwork(text string) (n Network, err error) {
	words := strings.Fields(text)
	if len(words) < 3 || len(words) > 4 {
		return n, fmt.Errorf("%q: want an interface, this rackd's address on it, a range and perhaps a router, such as eth2 10.3.0.2/24 10.3.0.100-10.3.0.200 10.3.0.1", text)
	}
	n.Interface = words[0]
	if n.Address, err = netip.ParsePrefix(words[1]); err != nil {
		return n, fmt.Errorf("%q: %w", text, err)
	}
	from, to, _ := strings.Cut(words[2], "-")
	if n.From, err = netip.ParseAddr(from); err != nil {
		return n, fmt.Errorf("%q: %w", text, err)
	}
	if n.To, err = netip.ParseAddr(to); err != nil {
		return n, fmt.Errorf("%q: %w", text, err)
	}
	if len(words) == 4 {
		if n.Router, err = netip.ParseAddr(words[3]); err != nil {
			return n, fmt.Errorf("%q: %w", text, err)
		}
	}
	return n, n.check()
}

func (n Network) check() error {
	network := n.Address.Masked()
	switch {
	case !n.Address.Addr().Is4() || n.Address.Bits() < 1 || n.Address.Bits() > 30:
		return fmt.Errorf("network on %s: %s must be an IPv4 address with a prefix of 1 to 30 bits", n.Interface, n.Address)
	case n.Address.Addr() == network.Addr():
		return fmt.Errorf("network on %s: %s is the network itself: give this rackd's address in it", n.Interface, n.Address)
	case !network.Contains(n.From) || !network.Contains(n.To) || n.To.Less(n.From):
		return fmt.Errorf("network on %s: want a first and a last address inside %s, not %s-%s", n.Interface, network, n.From, n.To)
	case n.Router.IsValid() && !network.Contains(n.Router):
		return fmt.Errorf("network on %s: its router %s is not in %s, so machines there do not reach it", n.Interface, n.Router, network)
	}
	return nil
}

// checkNetworks refuses networks that cannot be told apart, by their interface or by an address. It refuses more of them than others may
// read of a rackd, which would take it for none of theirs.
func (r *Rack) checkNetworks() error {
	if len(r.Further) > bus.MaxFurther {
		return fmt.Errorf("%d further networks: a rackd serves %d at most, for it tells all others of each: serve the rest by another rackd, or by relays and --dhcp-subnet", len(r.Further), bus.MaxFurther)
	}
	if len(r.Further) > 0 && (dhcp.Mode(r.DHCP) != dhcp.Serve || !r.Address.IsValid()) {
		return fmt.Errorf("further networks are served with --dhcp serve and --address alone: rackd gives addresses there")
	}
	type known struct {
		what   string
		prefix netip.Prefix
	}
	var all []known
	add := func(what string, p netip.Prefix) error {
		for _, k := range all {
			if k.prefix.Overlaps(p) {
				return fmt.Errorf("%s and %s overlap, %s and %s: an address has to say which network a machine is in", k.what, what, k.prefix, p)
			}
		}
		all = append(all, known{what, p})
		return nil
	}
	if r.Address.IsValid() && r.Mask != nil {
		ones, _ := r.Mask.Size()
		if err := add("the network of --address", netip.PrefixFrom(r.Address, ones).Masked()); err != nil {
			return err
		}
	}
	for _, s := range r.Subnets {
		if err := add("--dhcp-subnet "+s.Prefix.String(), s.Prefix.Masked()); err != nil {
			return err
		}
	}
	interfaces := map[string]string{r.Interface: "--interface"}
	for _, n := range r.Further {
		if other := interfaces[n.Interface]; other != "" {
			return fmt.Errorf("network on %s: %s has that interface too, and a request there would not say which network it is for: give each an interface of its own, or one network a relay and --dhcp-subnet", n.Interface, other)
		}
		interfaces[n.Interface] = "another network"
		if err := n.check(); err != nil {
			return err
		}
		if err := add("the network on "+n.Interface, n.Address.Masked()); err != nil {
			return err
		}
	}
	return nil
}

// attached says why a network is not the one on its interface: requests would come by another than the address is on.
func (n Network) attached() error {
	link, err := net.InterfaceByName(n.Interface)
	if err != nil {
		return fmt.Errorf("further network %s: its interface %s: %w", n.Address, n.Interface, err)
	}
	has, err := link.Addrs()
	if err != nil {
		return fmt.Errorf("further network %s: the addresses of %s: %w", n.Address, n.Interface, err)
	}
	var names []string
	for _, a := range has {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p == n.Address {
			return nil
		}
		names = append(names, a.String())
	}
	return fmt.Errorf("further network %s: %s has the addresses %s: give the interface this address, with this length of its prefix", n.Address, n.Interface, strings.Join(names, ", "))
}
