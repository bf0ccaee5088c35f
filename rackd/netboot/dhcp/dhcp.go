// Package dhcp is rackd's DHCP server: addresses for the machines it knows, and
// the boot program that fits each kind of client. In proxy mode it adds the boot
// program beside an existing server that gives the addresses.
//
// It may import rackd/netboot. Machines without a port get no answer, unless
// discovery is on, so it can share a network with others. One server serves one
// interface. It needs no authentication, see rackd/netboot.
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// Mode says what the server does.
type Mode string

// The modes.
const (
	Serve Mode = "serve" // addresses and boot programs
	Proxy Mode = "proxy" // boot programs only, beside another server
	Off   Mode = "off"
)

// Config of a server.
type Config struct {
	Mode     Mode
	ServerIP netip.Addr
	From, To netip.Addr
	Mask     net.IPMask
	Router   netip.Addr // zero: none
	DNS      []netip.Addr
	// LeaseTime is how long an address is given; 0: one hour.
	LeaseTime time.Duration
	// LeaseFile keeps the leases; empty: memory only.
	LeaseFile string
	// HTTP is the base URL of the boot web, without a slash at the end.
	HTTP      string
	Discovery bool
	Directory netboot.Directory
	Journal   netboot.Journal
	Log       *slog.Logger
	Now       func() time.Time // nil: time.Now
}

// Server answers DHCP. Safe for concurrent use.
type Server struct {
	cfg  Config
	pool *pool
}

// New returns a server with the leases it had before.
func New(c Config) (*Server, error) {
	if c.LeaseTime == 0 {
		c.LeaseTime = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{cfg: c}
	if c.Mode == Serve {
		p, err := openPool(c.LeaseFile, c.From, c.To, c.LeaseTime, c.Now)
		if err != nil {
			return nil, err
		}
		s.pool = p
	}
	return s, nil
}

// MACOf returns the machine that has an address by this server.
func (s *Server) MACOf(ip net.IP) (string, bool) {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || s.pool == nil {
		return "", false
	}
	return s.pool.macOf(a)
}

// Serve answers what comes in on conn, which it closes, until ctx ends. conn must
// be bound to the interface of the machines and allow broadcast.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("read DHCP on %s: %w", conn.LocalAddr(), err)
		}
		m, err := dhcpv4.FromBytes(buf[:n])
		if err != nil {
			s.cfg.Log.Debug("unreadable DHCP packet", "error", err)
			continue
		}
		reply, err := s.Answer(m)
		if err != nil {
			s.cfg.Log.Error("DHCP request not answered", "mac", m.ClientHWAddr.String(), "error", err)
			continue
		}
		if reply == nil {
			continue
		}
		if _, err := conn.WriteTo(reply.ToBytes(), destination(m, reply)); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("DHCP reply not sent", "mac", m.ClientHWAddr.String(), "error", err)
		}
	}
}

// destination follows RFC 2131, section 4.1: to the relay, to the client's address
// when it has one, else by broadcast.
func destination(m, reply *dhcpv4.DHCPv4) net.Addr {
	switch {
	case !m.GatewayIPAddr.IsUnspecified():
		return &net.UDPAddr{IP: m.GatewayIPAddr, Port: dhcpv4.ServerPort}
	case !m.ClientIPAddr.IsUnspecified() && reply.MessageType() != dhcpv4.MessageTypeNak:
		return &net.UDPAddr{IP: m.ClientIPAddr, Port: dhcpv4.ClientPort}
	}
	return &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
}

// Answer returns the reply to m, nil for none.
func (s *Server) Answer(m *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	if m.OpCode != dhcpv4.OpcodeBootRequest || len(m.ClientHWAddr) != 6 || s.cfg.Mode == Off {
		return nil, nil
	}
	mac := m.ClientHWAddr.String()
	machine, known := s.cfg.Directory.ByMAC(mac)
	if !known && !s.cfg.Discovery {
		return nil, nil
	}
	if s.cfg.Mode == Proxy {
		return s.proxy(m, machine)
	}
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		a, err := s.pool.offer(mac, false)
		if err != nil {
			return nil, err
		}
		return s.grant(m, machine, a, dhcpv4.MessageTypeOffer)
	case dhcpv4.MessageTypeRequest:
		return s.request(m, machine, mac)
	case dhcpv4.MessageTypeInform:
		return s.grant(m, machine, netip.Addr{}, dhcpv4.MessageTypeAck)
	case dhcpv4.MessageTypeRelease:
		return nil, s.pool.release(mac)
	case dhcpv4.MessageTypeDecline:
		if a, ok := netip.AddrFromSlice(m.RequestedIPAddress().To4()); ok {
			return nil, s.pool.decline(mac, a)
		}
	}
	return nil, nil
}

// request answers a client that takes an offer or renews; one that asks for an
// address that is not its own is told so, and starts anew.
func (s *Server) request(m *dhcpv4.DHCPv4, machine netboot.Machine, mac string) (*dhcpv4.DHCPv4, error) {
	if id := m.ServerIdentifier(); id != nil && !id.IsUnspecified() && !id.Equal(s.cfg.ServerIP.AsSlice()) {
		return nil, nil // it took another server's offer
	}
	a, err := s.pool.offer(mac, true)
	if err != nil {
		return nil, err
	}
	wanted := m.RequestedIPAddress()
	if wanted == nil || wanted.IsUnspecified() {
		wanted = m.ClientIPAddr
	}
	if !wanted.Equal(a.AsSlice()) {
		return dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithServerIP(net.IPv4zero),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(s.cfg.ServerIP.AsSlice())))
	}
	kind := clientOf(m)
	s.cfg.Journal.Seen(mac, netboot.PhaseDHCP, fmt.Sprintf("%s for %s", a, kind))
	s.cfg.Log.Info("DHCP lease", "mac", mac, "node", machine.UUID, "address", a.String(), "client", kind.String())
	return s.grant(m, machine, a, dhcpv4.MessageTypeAck)
}

func (s *Server) grant(m *dhcpv4.DHCPv4, machine netboot.Machine, a netip.Addr, t dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	self := net.IP(s.cfg.ServerIP.AsSlice())
	mods := []dhcpv4.Modifier{dhcpv4.WithMessageType(t), dhcpv4.WithServerIP(self),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(self)), dhcpv4.WithNetmask(s.cfg.Mask)}
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
	reply, err := dhcpv4.NewReplyFromRequest(m, append(mods, s.boot(m, machine)...)...)
	if err != nil {
		return nil, err
	}
	if info := m.RelayAgentInfo(); info != nil {
		reply.UpdateOption(dhcpv4.Option{Code: dhcpv4.OptionRelayAgentInformation, Value: info}) // RFC 3046: echo
	}
	return reply, nil
}

// proxy answers PXE clients only, with no address (PXE 2.1, section 2.2.3).
func (s *Server) proxy(m *dhcpv4.DHCPv4, machine netboot.Machine) (*dhcpv4.DHCPv4, error) {
	kind := clientOf(m)
	if kind == clientPlain {
		return nil, nil
	}
	t := dhcpv4.MessageTypeOffer
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform:
		if id := m.ServerIdentifier(); id != nil && !id.IsUnspecified() && !id.Equal(s.cfg.ServerIP.AsSlice()) {
			return nil, nil
		}
		t = dhcpv4.MessageTypeAck
	default:
		return nil, nil
	}
	self := net.IP(s.cfg.ServerIP.AsSlice())
	mods := []dhcpv4.Modifier{dhcpv4.WithMessageType(t), dhcpv4.WithServerIP(self), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(self)),
		// PXE_DISCOVERY_CONTROL 8: take the boot file of this reply, look no further.
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))}
	if kind != clientHTTP {
		mods = append(mods, dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")))
	}
	s.cfg.Journal.Seen(m.ClientHWAddr.String(), netboot.PhaseDHCP, fmt.Sprintf("proxy, for %s", kind))
	return dhcpv4.NewReplyFromRequest(m, append(mods, s.boot(m, machine)...)...)
}
