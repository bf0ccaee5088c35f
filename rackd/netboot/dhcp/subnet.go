package dhcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Subnet is a network and the part of it that is given to machines. Those of a further network reach the server by relays, or by a
// router once they have an address.
type Subnet struct {
	Prefix   netip.Prefix
	From, To netip.Addr // both are given
	Router   netip.Addr // of a further network of IPv4; in IPv6 routers advertise themselves
}

// addSubnets makes a server for each subnet, with leases of its own. Their addresses are offered without a probe, which crosses no
// router: a machine that finds one in use declines it.
func (s *Server) addSubnets() error {
	own := s.pool.subnet
	for i, n := range s.cfg.Subnets {
		c := s.cfg
		c.Subnets, c.Probe = nil, nil
		c.From, c.To, c.Router, c.Mask = n.From, n.To, n.Router, net.CIDRMask(n.Prefix.Bits(), 32)
		if c.LeaseFile != "" {
			c.LeaseFile += "." + strings.ReplaceAll(n.Prefix.Masked().String(), "/", "-")
		}
		for _, other := range append([]Subnet{{Prefix: own}}, s.cfg.Subnets[:i]...) {
			if other.Prefix.Overlaps(n.Prefix) {
				return fmt.Errorf("DHCP subnet %s overlaps %s: a relay's address says which is meant", n.Prefix, other.Prefix)
			}
		}
		switch {
		case !n.Prefix.Addr().Is4() || !n.Prefix.Contains(n.From) || !n.Prefix.Contains(n.To):
			return fmt.Errorf("DHCP subnet %s: its range %s-%s is not in it", n.Prefix, n.From, n.To)
		case !n.Prefix.Contains(n.Router):
			return fmt.Errorf("DHCP subnet %s needs a router in it, by which machines reach %s", n.Prefix, s.cfg.ServerIP)
		}
		served, err := New(c)
		if err != nil {
			return err
		}
		s.relayed = append(s.relayed, served)
	}
	return nil
}

// forRequest returns the server whose range a request is for: that of the relay's network, or that of the network from which a
// machine renews its address by unicast.
func (s *Server) forRequest(m *dhcpv4.DHCPv4, from net.Addr) *Server {
	relay := addr(m.GatewayIPAddr)
	if relay.IsValid() {
		return s.forAddress(relay)
	}
	if u, ok := from.(*net.UDPAddr); ok {
		if a := addr(u.IP); a.IsValid() && a == addr(m.ClientIPAddr) {
			return s.forAddress(a)
		}
	}
	return s
}

// forAddress returns the server of the network of an address; s itself for one of none.
func (s *Server) forAddress(a netip.Addr) *Server {
	for _, r := range s.relayed {
		if r.pool.subnet.Contains(a) {
			return r
		}
	}
	return s
}

// pools are those of all subnets; none in proxy mode.
func (s *Server) pools() (list []*pool) {
	if s.pool != nil {
		list = append(list, s.pool)
	}
	for _, r := range s.relayed {
		list = append(list, r.pool)
	}
	return list
}

// taken counts the addresses that are not free, of all subnets.
func (s *Server) taken() (n int) {
	for _, p := range s.pools() {
		n += p.taken()
	}
	return n
}

// newest returns the address that a machine was given last: it may have been moved to another subnet.
func (s *Server) newest(mac string) (a netip.Addr, ok bool) {
	var last lease
	for _, p := range s.pools() {
		if l, has := p.leaseOf(mac); has && (!ok || l.Until.After(last.Until)) {
			last, ok = l, true
		}
	}
	return last.Address, ok
}

// ParseSubnet reads a subnet as an operator writes it: PREFIX FROM-TO ROUTER.
func ParseSubnet(text string) (n Subnet, err error) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return n, fmt.Errorf("%q: want a network, a range and a router, such as 10.2.0.0/24 10.2.0.100-10.2.0.200 10.2.0.1", text)
	}
	from, to, _ := strings.Cut(words[1], "-")
	var err1, err2, err3, err4 error
	n.Prefix, err1 = netip.ParsePrefix(words[0])
	n.From, err2 = netip.ParseAddr(from)
	n.To, err3 = netip.ParseAddr(to)
	n.Router, err4 = netip.ParseAddr(words[2])
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return n, fmt.Errorf("%q: %w", text, err)
	}
	if n.Prefix != n.Prefix.Masked() || n.Prefix.Bits() < 1 || n.Prefix.Bits() > 30 {
		return n, errors.New(text + ": the network must be written by its first address, with 1 to 30 bits")
	}
	return n, nil
}
