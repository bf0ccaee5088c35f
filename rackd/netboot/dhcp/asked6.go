package dhcp

import (
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// maxHops bounds the relays that a message has passed (HOP_COUNT_LIMIT of RFC 8415, section 7.6).
const maxHops = 8

// asked is a client's message and where it came from.
type asked struct {
	*dhcpv6.Message
	relay *dhcpv6.RelayMessage // the nearest to this server; nil: none
	// link is an address of the client's network, as its relay says; zero: that of this server, also through relays
	// that are switches (RFC 6221).
	link netip.Addr
	peer netip.Addr // the client's address
	told string     // its MAC address, as its relay says; may be empty
}

// read takes a message apart; ok is false for one that is no client's.
func read(m dhcpv6.DHCPv6, from netip.Addr) (a asked, ok bool) {
	a.peer = from.WithZone("")
	if r, is := m.(*dhcpv6.RelayMessage); is {
		a.relay = r
	}
	for hops := 0; m != nil && m.IsRelay(); hops++ {
		r, is := m.(*dhcpv6.RelayMessage)
		if !is || r.Type() != dhcpv6.MessageTypeRelayForward || hops == maxHops {
			return a, false
		}
		if l := addr6(r.LinkAddr); l.IsValid() {
			a.link = l // the nearest to the client counts
		}
		a.peer, a.told = addr6(r.PeerAddr), ""
		if kind, mac := r.Options.ClientLinkLayerAddress(); kind == iana.HWTypeEthernet && len(mac) == 6 {
			a.told = mac.String()
		}
		m = r.Options.RelayMessage()
	}
	a.Message, ok = m.(*dhcpv6.Message)
	return a, ok && a.Message != nil
}

// onLink is the client's MAC address as its relay or its link-local address says; empty where they do not.
func (a asked) onLink() string {
	if mac, ok := macIn(a.peer); a.told == "" && ok && a.peer.IsLinkLocalUnicast() {
		return mac
	}
	return a.told
}

// inDUID is the MAC address in the client's DUID; empty for none. It may be that of another card of the host, or of the machine
// on which the host's image was made.
func (a asked) inDUID() string {
	switch d := a.Options.ClientID().(type) {
	case *dhcpv6.DUIDLL:
		return ethernet(d.HWType, d.LinkLayerAddr)
	case *dhcpv6.DUIDLLT:
		return ethernet(d.HWType, d.LinkLayerAddr)
	}
	return ""
}

func ethernet(kind iana.HWType, mac net.HardwareAddr) string {
	if kind != iana.HWTypeEthernet || len(mac) != 6 {
		return ""
	}
	return mac.String()
}

// client returns the machine that sent a, and its MAC address; ok is false when it gets no answer. What the link says of a card
// counts alone: its host's DUID is the same for all its cards, and two of them must not get one address.
func (s *Server6) client(a asked) (machine netboot.Machine, mac string, ok bool) {
	if s.cfg.Mode == Off {
		return machine, "", false
	}
	mac = a.onLink()
	// Hosts that hide their MAC address from their address are asked for it on the link.
	if _, plain := macIn(a.peer); mac == "" && !plain && a.relay == nil && s.cfg.Neighbour != nil && s.looks.Allow() {
		if found, there := s.cfg.Neighbour(a.peer); there {
			mac = found
		}
	}
	if mac == "" {
		mac = a.inDUID()
	}
	if mac != "" {
		if machine, ok = s.cfg.Directory.ByMAC(mac); ok || s.cfg.Discovery {
			return machine, mac, true
		}
	}
	s.cfg.Metrics.DHCPDropped("unknown")
	s.cfg.Log.Debug("DHCPv6 request of an unknown machine", "from", a.peer.String(), "mac", mac)
	return machine, "", false
}

// subnet returns the number of the client's network in Subnets; ok is false where it is none of them.
func (s *Server6) subnet(a asked) (n int, ok bool) {
	if !a.link.IsValid() {
		return 0, true
	}
	n = slices.IndexFunc(s.cfg.Subnets, func(n Subnet) bool { return n.Prefix.Contains(a.link) })
	if n < 0 {
		s.cfg.Metrics.DHCPDropped("relay")
		s.foreignLog.Do(func() {
			s.cfg.Log.Warn("DHCPv6 relay of another network not answered", "link", a.link.String(), "todo", "give that network a range with --dhcp6-range if it is one of yours")
		})
	}
	return n, n >= 0
}

// heeds reports whether a message is heeded: a client sends from its link-local address, which no router passes on. A
// relay sends from its own, or from an address of a network that is served; one of a network behind another from
// whichever address is on its way.
func (s *Server6) heeds(m dhcpv6.DHCPv6, from netip.Addr) bool {
	from = from.WithZone("")
	near := slices.ContainsFunc(s.cfg.Subnets, func(n Subnet) bool { return n.Prefix.Contains(from) })
	r, relayed := m.(*dhcpv6.RelayMessage)
	behind := relayed && slices.ContainsFunc(s.cfg.Subnets[min(1, len(s.cfg.Subnets)):], func(n Subnet) bool { return n.Prefix.Contains(addr6(r.LinkAddr)) })
	if from.IsLinkLocalUnicast() || relayed && near || behind {
		return true
	}
	s.cfg.Metrics.DHCPDropped("sender")
	s.senderLog.Do(func() {
		s.cfg.Log.Warn("DHCPv6 request from another network not heeded", "from", from.String(),
			"todo", "if it is a relay's, have it send from its address in the network that is served; else keep that host from port 547")
	})
	return false
}

// macIn returns the MAC address that an IPv6 address was made of (RFC 4291, appendix A).
func macIn(a netip.Addr) (string, bool) {
	if !a.Is6() || a.Is4In6() {
		return "", false
	}
	b := a.As16()
	if b[11] != 0xff || b[12] != 0xfe || b[8]&1 != 0 {
		return "", false
	}
	return net.HardwareAddr{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}.String(), true
}

// made is the address that a host with that MAC address makes of a prefix; zero where the prefix has not 64 bits.
func made(prefix netip.Prefix, mac string) netip.Addr {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 || prefix.Bits() != 64 {
		return netip.Addr{}
	}
	b := prefix.Masked().Addr().As16()
	copy(b[8:], []byte{hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]})
	return netip.AddrFrom16(b)
}
