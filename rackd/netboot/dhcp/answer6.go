package dhcp

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// answer6 is a reply as its client gets it, through its relays.
type answer6 struct {
	dhcpv6.DHCPv6
	mac, kind, client string
}

// answer returns the reply to m, which came from that address; nil for none.
func (s *Server6) answer(m dhcpv6.DHCPv6, from netip.Addr) (*answer6, error) {
	a, ok := read(m, from)
	if !ok {
		return nil, nil
	}
	machine, mac, ok := s.client(a)
	if !ok {
		return nil, nil
	}
	n, ok := s.subnet(a)
	if !ok || waits(client6Of(a.Message), machine, s.cfg.Serves) {
		return nil, nil
	}
	if own := made(s.cfg.Subnets[n].Prefix, mac); own.IsValid() && s.auto.at(mac, s.cfg.Now()) != own && s.auto.learn(mac, machine, own, s.cfg.Now()) {
		s.cfg.Journal.Leased(mac, own, "", "")
	}
	r, err := s.reply(a, machine, mac, n)
	if err != nil {
		s.failed(mac, machine, err)
	}
	if r == nil || err != nil {
		return nil, nil
	}
	out := &answer6{DHCPv6: r, mac: mac, kind: r.Type().String(), client: client6Of(a.Message).String()}
	if a.relay != nil {
		if out.DHCPv6, err = dhcpv6.NewRelayReplFromRelayForw(a.relay, r); err != nil {
			return nil, fmt.Errorf("make a DHCPv6 reply for a relay: %w", err)
		}
	}
	return out, nil
}

// failed counts a request that cannot be answered, and logs it unless many are.
func (s *Server6) failed(mac string, machine netboot.Machine, err error) {
	s.cfg.Metrics.DHCPDropped("error")
	if s.mayLog(mac, machine) {
		s.cfg.Log.Error("DHCPv6 request not answered", "mac", mac, "node", machine.UUID, "error", err)
	}
}

// mayLog reports whether what came in a machine's name may be a line of the log: anyone can send it.
func (s *Server6) mayLog(mac string, machine netboot.Machine) bool {
	if machine.UUID == "" {
		return s.lines.OfStranger()
	}
	return s.lines.OfMachine(mac)
}

// reply is the answer to a client's message; nil for none. Which messages name a server and a client is RFC 8415's, section 16.
func (s *Server6) reply(a asked, machine netboot.Machine, mac string, n int) (*dhcpv6.Message, error) {
	server, client := a.Options.ServerID(), a.Options.ClientID()
	mine := server != nil && server.Equal(s.id)
	switch a.Type() {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		if client == nil || server != nil {
			return nil, nil
		}
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline:
		if client == nil || server == nil {
			return nil, nil
		}
		if !mine {
			s.overhear(a, machine, mac, n)
			return nil, nil
		}
	case dhcpv6.MessageTypeInformationRequest:
		if server != nil && !mine || len(a.Options.IANA()) > 0 {
			return nil, nil
		}
		s.cfg.Journal.Seen(mac, netboot.PhaseDHCP, fmt.Sprintf("no address, for %s", client6Of(a.Message)))
		return s.make(a, dhcpv6.MessageTypeReply, machine, mac), nil
	default:
		return nil, nil
	}
	if s.cfg.Mode == Proxy {
		return nil, nil
	}
	p := s.pools[n]
	switch a.Type() {
	case dhcpv6.MessageTypeSolicit:
		return s.solicit(a, machine, mac, p)
	case dhcpv6.MessageTypeRequest:
		return s.grant(a, machine, mac, p)
	case dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind:
		return s.extend(a, machine, mac, p), nil
	case dhcpv6.MessageTypeConfirm:
		return s.confirm(a, machine, mac, p), nil
	case dhcpv6.MessageTypeDecline:
		for _, at := range wishes(a) {
			if s.mayLog(mac, machine) {
				s.cfg.Log.Warn("DHCPv6 address is in use by another host", "address", at.String(), "mac", mac)
			}
			p.decline(mac, at)
		}
	}
	// A release frees nothing: nothing shows who sent it, and the machine is given the same address again.
	return s.status(a, machine, mac, iana.StatusSuccess, "done"), nil
}

// solicit offers an address, or gives it where the client asks for that (section 18.3.1).
func (s *Server6) solicit(a asked, machine netboot.Machine, mac string, p *pool) (*dhcpv6.Message, error) {
	if len(a.Options.IANA()) == 0 {
		return s.make(a, dhcpv6.MessageTypeAdvertise, machine, mac), nil
	}
	at, err := p.offer(mac, wish(a))
	if err != nil {
		return nil, err
	}
	if a.GetOneOption(dhcpv6.OptionRapidCommit) != nil && p.take(mac, at, false) == granted {
		return s.give(a, machine, mac, at, dhcpv6.WithRapidCommit), nil
	}
	return s.make(a, dhcpv6.MessageTypeAdvertise, machine, mac, s.addresses(a, at)...), nil
}

// grant gives the address that the client asks for, or another where that is not to be had.
func (s *Server6) grant(a asked, machine netboot.Machine, mac string, p *pool) (*dhcpv6.Message, error) {
	if len(a.Options.IANA()) == 0 {
		return s.make(a, dhcpv6.MessageTypeReply, machine, mac), nil
	}
	at := wish(a)
	if !at.IsValid() || p.take(mac, at, false) != granted {
		var err error
		if at, err = p.offer(mac, at); err != nil {
			return nil, err
		}
		if p.take(mac, at, false) != granted {
			return nil, fmt.Errorf("%s was offered and is not to be had", at)
		}
	}
	return s.give(a, machine, mac, at), nil
}

// give tells the client of the address that it has now.
func (s *Server6) give(a asked, machine netboot.Machine, mac string, at netip.Addr, more ...dhcpv6.Modifier) *dhcpv6.Message {
	kind := client6Of(a.Message)
	s.cfg.Journal.Leased(mac, at, netboot.PhaseDHCP, fmt.Sprintf("%s for %s", at, kind))
	if s.mayLog(mac, machine) {
		s.cfg.Log.Info("DHCPv6 lease", "mac", mac, "node", machine.UUID, "address", at.String(), "client", kind.String())
	}
	return s.make(a, dhcpv6.MessageTypeReply, machine, mac, append(s.addresses(a, at), more...)...)
}

// extend lets a client go on with the address that it uses, also with one of another rackd of the network that has
// gone. What it cannot have it is told to give up (section 18.3.4).
func (s *Server6) extend(a asked, machine netboot.Machine, mac string, p *pool) *dhcpv6.Message {
	at, given := wish(a), netip.Addr{}
	if at.IsValid() && p.take(mac, at, true) == granted {
		s.cfg.Journal.Leased(mac, at, "", "")
		given = at
	} else if at.IsValid() && s.mayLog(mac, machine) {
		s.cfg.Log.Info("DHCPv6 address refused", "mac", mac, "node", machine.UUID, "address", at.String())
	}
	return s.make(a, dhcpv6.MessageTypeReply, machine, mac, s.addresses(a, given)...)
}

// confirm says whether addresses are of the client's network (section 18.3.3).
func (s *Server6) confirm(a asked, machine netboot.Machine, mac string, p *pool) *dhcpv6.Message {
	list := wishes(a)
	if len(list) == 0 {
		return nil
	}
	for _, at := range list {
		if !p.subnet.Contains(at) {
			return s.status(a, machine, mac, iana.StatusNotOnLink, "that address is of another network")
		}
	}
	return s.status(a, machine, mac, iana.StatusSuccess, "that address is of this network")
}

// overhear notes the address that a machine takes of another server.
func (s *Server6) overhear(a asked, machine netboot.Machine, mac string, n int) {
	at := wish(a)
	if !at.IsValid() || a.Type() != dhcpv6.MessageTypeRequest && a.Type() != dhcpv6.MessageTypeRenew {
		return
	}
	if s.cfg.Mode == Proxy {
		if s.cfg.Subnets[n].Prefix.Contains(at) && s.others.at(mac, s.cfg.Now()) != at && s.others.learn(mac, machine, at, s.cfg.Now()) {
			s.cfg.Journal.Leased(mac, at, "", "")
		}
		return
	}
	ours, ok := s.pools[n].learn(mac, at)
	if !ok {
		s.cfg.Metrics.DHCPDropped("address")
		return
	}
	s.cfg.Journal.Leased(mac, at, "", "") // that server tells the history
	if ours.IsValid() {
		s.cfg.Journal.Leased(mac, ours, "", "") // again: what anyone can say takes the place of no lease
	}
}

// wish is the address that the client has, or would have; zero where it names none.
func wish(a asked) netip.Addr {
	if list := wishes(a); len(list) > 0 {
		return list[0]
	}
	return netip.Addr{}
}

func wishes(a asked) (list []netip.Addr) {
	for _, ia := range a.Options.IANA() {
		for _, o := range ia.Options.Addresses() {
			if at := addr6(o.IPv6Addr); at.IsValid() {
				list = append(list, at)
			}
		}
	}
	return list
}

// addresses answers each of the client's identity associations: the first has the address, which is the only one of a
// machine. Other addresses that it names end. at is zero where it has none.
func (s *Server6) addresses(a asked, at netip.Addr) (mods []dhcpv6.Modifier) {
	for i, asks := range a.Options.IANA() {
		ia := &dhcpv6.OptIANA{IaId: asks.IaId}
		if i == 0 && at.IsValid() {
			ia.T1, ia.T2 = s.cfg.LeaseTime/2, s.cfg.LeaseTime/8*7
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: at.AsSlice(), PreferredLifetime: s.cfg.LeaseTime, ValidLifetime: s.cfg.LeaseTime})
		}
		for _, o := range asks.Options.Addresses() {
			if had := addr6(o.IPv6Addr); had.IsValid() && (i > 0 || had != at) && a.Type() != dhcpv6.MessageTypeSolicit {
				ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: had.AsSlice()}) // its lifetimes are zero
			}
		}
		if len(ia.Options.Options) == 0 {
			ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail, StatusMessage: "a machine has one address here"})
		}
		mods = append(mods, func(r dhcpv6.DHCPv6) { r.AddOption(ia) }) // WithOption would replace the one before
	}
	return mods
}

// status is a reply that says how it went.
func (s *Server6) status(a asked, machine netboot.Machine, mac string, code iana.StatusCode, text string) *dhcpv6.Message {
	return s.make(a, dhcpv6.MessageTypeReply, machine, mac, dhcpv6.WithOption(&dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: text}))
}

// make makes an answer of type t with what all of them have, and the boot options that fit the client.
func (s *Server6) make(a asked, t dhcpv6.MessageType, machine netboot.Machine, mac string, mods ...dhcpv6.Modifier) *dhcpv6.Message {
	r := &dhcpv6.Message{MessageType: t, TransactionID: a.TransactionID}
	if id := a.GetOneOption(dhcpv6.OptionClientID); id != nil {
		r.AddOption(id)
	}
	r.AddOption(dhcpv6.OptServerID(s.id))
	if t == dhcpv6.MessageTypeAdvertise {
		// A client that boots does not wait for other offers then (section 18.2.1).
		r.AddOption(dhcpv6.OptPreference(mostPreferred))
	}
	if len(s.cfg.DNS) > 0 {
		var list []net.IP
		for _, d := range s.cfg.DNS {
			list = append(list, d.AsSlice())
		}
		r.AddOption(dhcpv6.OptDNS(list...))
	}
	for _, mod := range append(mods, s.bootOptions(a, machine, mac)...) {
		mod(r)
	}
	return r
}

const mostPreferred = 255
