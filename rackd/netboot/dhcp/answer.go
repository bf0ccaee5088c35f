package dhcp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// Answer returns the reply to m, which came to port 67; nil for none. It is errUnprobed if the reply
// has to wait for afterProbe.
func (s *Server) Answer(m *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	machine, ok := s.client(m)
	switch {
	case !ok:
		return nil, nil
	case !s.ours(m.GatewayIPAddr):
		s.foreign(m)
		return nil, nil
	case waits(clientOf(m), machine, s.cfg.Serves):
		return nil, nil
	case s.cfg.Mode == Proxy:
		return s.proxy(m, machine)
	}
	mac := m.ClientHWAddr.String()
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		if len(s.pool.unprobed(mac, addr(m.RequestedIPAddress()))) > 0 {
			return nil, errUnprobed
		}
		a, err := s.pool.offer(mac, addr(m.RequestedIPAddress()))
		if err != nil {
			return nil, err
		}
		return s.reply(m, machine, dhcpv4.MessageTypeOffer, s.network(a)...)
	case dhcpv4.MessageTypeRequest:
		return s.request(m, machine, mac)
	case dhcpv4.MessageTypeInform:
		return s.reply(m, machine, dhcpv4.MessageTypeAck, s.network(netip.Addr{})...)
	case dhcpv4.MessageTypeRelease:
		// Nothing shows who sent it, and to believe it serves no one: the address stays the
		// machine's until the lease ends, and it is given the same one when it asks again.
	case dhcpv4.MessageTypeDecline:
		a := addr(m.RequestedIPAddress())
		if s.mayLog(mac, machine) {
			s.cfg.Log.Warn("DHCP address is in use by another host", "address", a.String(), "mac", mac)
		}
		s.pool.decline(mac, a)
	}
	return nil, nil
}

// client returns the machine that sent m; ok is false when it gets no answer.
func (s *Server) client(m *dhcpv4.DHCPv4) (machine netboot.Machine, ok bool) {
	if m.OpCode != dhcpv4.OpcodeBootRequest || len(m.ClientHWAddr) != 6 || s.cfg.Mode == Off {
		return machine, false
	}
	machine, ok = s.cfg.Directory.ByMAC(m.ClientHWAddr.String())
	if !ok && !s.cfg.Discovery {
		s.cfg.Metrics.DHCPDropped("unknown")
		s.cfg.Log.Debug("DHCP request of an unknown machine", "mac", m.ClientHWAddr.String())
	}
	return machine, ok || s.cfg.Discovery
}

// ours reports whether a relay is of a network that is served. The reply goes to where a
// request says that its relay is: anywhere else would be the sender's choice.
func (s *Server) ours(relay net.IP) bool {
	r := addr(relay)
	return !r.IsValid() || s.served(r) // none: it came from this network
}

// served reports whether machines of a's network are answered.
func (s *Server) served(a netip.Addr) bool {
	ones, _ := s.cfg.Mask.Size()
	if s.cfg.Mode != Proxy {
		return netip.PrefixFrom(s.cfg.From, ones).Contains(a)
	}
	return netip.PrefixFrom(s.cfg.ServerIP, ones).Contains(a) || s.named(a)
}

// named reports whether a proxy was told of a's network.
func (s *Server) named(a netip.Addr) bool {
	return s.cfg.Mode == Proxy && slices.ContainsFunc(s.cfg.Relays, func(n netip.Prefix) bool { return n.Contains(a) })
}

// heeds reports whether a request is heeded: its sender has no address yet, or one of a network that is
// served. No router passes on a packet of a sender without an address. A relay between a proxy and
// a network that it was told of sends from an address on its way, which has no name here.
func (s *Server) heeds(m *dhcpv4.DHCPv4, from net.Addr) bool {
	if u, ok := from.(*net.UDPAddr); ok && (u.IP.IsUnspecified() || s.near(from)) || s.named(addr(m.GatewayIPAddr)) {
		return true
	}
	s.cfg.Metrics.DHCPDropped("sender")
	s.senderLog.Do(func() {
		s.cfg.Log.Warn("DHCP request from another network not heeded", "from", from.String(), "mac", m.ClientHWAddr.String(), "relay", m.GatewayIPAddr.String(),
			"todo", "if it is a relay's, have it send from its address in the network that is served; else keep that host from port 67")
	})
	return false
}

// disbelieved counts a request that tells of another server's address which its machine cannot have, and
// says so now and then.
func (s *Server) disbelieved(m *dhcpv4.DHCPv4, a netip.Addr) {
	s.cfg.Metrics.DHCPDropped("address")
	s.addressLog.Do(func() {
		s.cfg.Log.Warn("DHCP address of another server not believed: it is of no network that is served, or another machine's", "address", a.String(), "mac", m.ClientHWAddr.String(),
			"todo", "if the machine has it, find the server that gave it; a proxy is told of that network with --dhcp-relays")
	})
}

// foreignEvery is how often it is said that relays of other networks are not answered.
const foreignEvery = time.Minute

// foreign counts a request through a relay of another network, and says so now and then:
// who floods the server does not flood the log.
func (s *Server) foreign(m *dhcpv4.DHCPv4) {
	s.cfg.Metrics.DHCPDropped("relay")
	now := time.Now()
	if last := s.foreignSaid.Load(); last != nil && now.Sub(*last) < foreignEvery || !s.foreignSaid.CompareAndSwap(s.foreignSaid.Load(), &now) {
		return
	}
	why := "the range here is of no use there"
	if s.cfg.Mode == Proxy {
		why = "name its network with --dhcp-relays if it is one of yours"
	}
	s.cfg.Log.Warn("DHCP relay of another network not answered: "+why, "relay", m.GatewayIPAddr.String(), "mac", m.ClientHWAddr.String())
}

// request answers a client that takes an offer or keeps an address; one that asks
// for an address that it cannot have is told so, and starts anew. A client that
// remembers an address from another server's range is left to that server (RFC 2131,
// section 4.3.2), until it is in use and that server does not renew it: then the
// client asks all (section 4.4.5), and a machine in the middle of a deploy must not
// lose its address.
func (s *Server) request(m *dhcpv4.DHCPv4, machine netboot.Machine, mac string) (*dhcpv4.DHCPv4, error) {
	wanted, uses := addr(m.RequestedIPAddress()), false
	if !wanted.IsValid() {
		wanted, uses = addr(m.ClientIPAddr), true
	}
	if s.elsewhere(m) {
		ours, ok := s.pool.learn(mac, wanted)
		if !ok {
			s.disbelieved(m, wanted)
			return nil, nil
		}
		s.cfg.Journal.Leased(mac, wanted, "", "") // that server tells the history
		if ours.IsValid() {
			s.cfg.Journal.Leased(mac, ours, "", "") // again: what anyone can say takes the place of no lease
		}
		return nil, nil
	}
	kind := clientOf(m)
	switch v := s.pool.take(mac, wanted, uses); {
	case v == unknown && !addr(m.ServerIdentifier()).IsValid():
		return nil, nil
	case v != granted:
		if s.mayLog(mac, machine) {
			s.cfg.Log.Info("DHCP address refused", "mac", mac, "node", machine.UUID, "address", wanted.String())
		}
		// RFC 2131, section 4.3.2: a relay broadcasts it, the client may be elsewhere by now.
		return dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithBroadcast(true),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(s.cfg.ServerIP.AsSlice())))
	}
	s.cfg.Journal.Leased(mac, wanted, netboot.PhaseDHCP, fmt.Sprintf("%s for %s", wanted, kind))
	if s.mayLog(mac, machine) {
		s.cfg.Log.Info("DHCP lease", "mac", mac, "node", machine.UUID, "address", wanted.String(), "client", kind.String())
	}
	return s.reply(m, machine, dhcpv4.MessageTypeAck, s.network(wanted)...)
}

// mayLog reports whether what came in a machine's name may be a line of the log: anyone can send it.
func (s *Server) mayLog(mac string, machine netboot.Machine) bool {
	if machine.UUID == "" {
		return s.lines.OfStranger()
	}
	return s.lines.OfMachine(mac)
}

// elsewhere reports whether m names another server.
func (s *Server) elsewhere(m *dhcpv4.DHCPv4) bool {
	id := addr(m.ServerIdentifier())
	return id.IsValid() && id != s.cfg.ServerIP
}

// network returns the options of the subnet, and of the address unless it is zero.
func (s *Server) network(a netip.Addr) []dhcpv4.Modifier {
	mods := []dhcpv4.Modifier{dhcpv4.WithNetmask(s.cfg.Mask)}
	if a.IsValid() {
		mods = append(mods, dhcpv4.WithYourIP(a.AsSlice()), dhcpv4.WithLeaseTime(uint32(s.cfg.LeaseTime/time.Second)))
	}
	if s.cfg.Router.IsValid() {
		mods = append(mods, dhcpv4.WithRouter(s.cfg.Router.AsSlice()))
	}
	if len(s.cfg.DNS) > 0 {
		var ips []net.IP
		for _, d := range s.cfg.DNS {
			ips = append(ips, d.AsSlice())
		}
		mods = append(mods, dhcpv4.WithDNS(ips...))
	}
	return mods
}

// proxy answers booting clients on port 67, with no address (PXE 2.1, section
// 2.2.3). Requests go to the server that gives the addresses.
func (s *Server) proxy(m *dhcpv4.DHCPv4, machine netboot.Machine) (*dhcpv4.DHCPv4, error) {
	s.overhear(m, machine)
	if clientOf(m) == clientAgent && m.MessageType() == dhcpv4.MessageTypeInform {
		return s.reply(m, machine, dhcpv4.MessageTypeAck) // it has an address, and asks all servers for the rest
	}
	if clientOf(m) == clientAgent || !s.boots(m, machine) || m.MessageType() != dhcpv4.MessageTypeDiscover {
		return nil, nil
	}
	return s.program(m, machine, dhcpv4.MessageTypeOffer)
}

// AnswerBoot returns the reply to m, which came to BootPort; nil for none.
func (s *Server) AnswerBoot(m *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	machine, ok := s.client(m)
	if !ok || clientOf(m) == clientAgent || !s.boots(m, machine) || s.elsewhere(m) || !s.ours(m.GatewayIPAddr) {
		return nil, nil
	}
	switch m.MessageType() {
	case dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeDiscover:
		return s.program(m, machine, dhcpv4.MessageTypeAck)
	}
	return nil, nil
}

// program is a reply that has the boot program and no address.
func (s *Server) program(m *dhcpv4.DHCPv4, machine netboot.Machine, t dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	kind := clientOf(m)
	s.cfg.Journal.Seen(m.ClientHWAddr.String(), netboot.PhaseDHCP, fmt.Sprintf("beside another server, for %s", kind))
	class := "PXEClient" // without it, the client takes the reply for a plain server's
	if kind == clientHTTP64 || kind == clientHTTPARM64 {
		class = "HTTPClient"
	}
	return s.reply(m, machine, t, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)),
		dhcpv4.WithOptionCopied(m, dhcpv4.OptionClientMachineIdentifier),
		// PXE_DISCOVERY_CONTROL 8: take the boot file of this reply, look no further.
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255})))
}
