package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"golang.org/x/net/ipv6"

	"github.com/ironyard/ironyard/rackd/netboot/relisten"
)

// groups6 are those of DHCPv6 servers: on a link, where clients send, and of a site, where relays do (RFC 8415, section 7.1).
var groups6 = []net.IP{net.ParseIP("ff02::1:2"), net.ParseIP("ff05::1:3")}

// Listen6 opens a connection for Server6.Serve. The interface has an IPv6 address. It may be made again.
func Listen6(name string, log *slog.Logger) (net.PacketConn, error) {
	return relisten.Packets(name, log, listen6)
}

func listen6(name string) (net.PacketConn, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	conn, err := server6.NewIPv6UDPConn(name, &net.UDPAddr{IP: net.IPv6unspecified, Port: dhcpv6.DefaultServerPort})
	if err != nil {
		return nil, err
	}
	for _, group := range groups6 {
		if err := ipv6.NewPacketConn(conn).JoinGroup(i, &net.UDPAddr{IP: group}); err != nil {
			conn.Close()
			return nil, fmt.Errorf("join %s: %w", group, err)
		}
	}
	return conn, nil
}

// Serve answers what comes in on conn, which it closes, until ctx ends. conn must be bound to port 547 on the
// interface of the machines and have joined groups6, as one of Listen6 has. Errors of conn are logged and waited out.
func (s *Server6) Serve(ctx context.Context, conn net.PacketConn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	waiting, sent := make(chan outgoing, maxWaiting), make(chan struct{})
	go func() {
		defer close(sent)
		send(ctx, conn, waiting, post{pools: s.pools, metrics: s.cfg.Metrics, lines: s.lines, log: s.cfg.Log})
	}()
	defer func() {
		close(waiting)
		<-sent
		for _, p := range s.pools {
			p.flush()
			p.log.close()
		}
	}()
	buf := make([]byte, 4096) // longer packets are cut, and then unreadable
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			s.cfg.Log.Error("DHCPv6 read failed, trying again", "on", conn.LocalAddr().String(), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		peer, ok := from.(*net.UDPAddr)
		if !ok {
			continue
		}
		s.take(buf[:n], peer, waiting)
	}
}

// take takes in a packet, and has its answer sent.
func (s *Server6) take(packet []byte, peer *net.UDPAddr, waiting chan<- outgoing) {
	m, err := dhcpv6.FromBytes(packet)
	if err != nil {
		s.cfg.Metrics.DHCPDropped("unreadable")
		s.cfg.Log.Debug("DHCPv6 packet is unreadable", "from", peer.String(), "error", err)
		return
	}
	at, _ := netip.AddrFromSlice(peer.IP)
	if !s.heeds(m, at) {
		return
	}
	r, err := s.answer(m, at)
	taken := 0
	for _, p := range s.pools {
		taken += p.taken()
	}
	s.cfg.Metrics.Leases6(taken)
	var o outgoing
	switch {
	case err != nil:
		s.cfg.Metrics.DHCPDropped("error")
		s.cfg.Log.Debug("DHCPv6 request not answered", "from", peer.String(), "error", err)
		return
	case r != nil:
		o = outgoing{packet: r.ToBytes(), to: returnTo(m, peer), mac: r.mac, kind: r.kind, client: r.client}
	default:
		s.cfg.Metrics.DHCPDropped("silent")
		if !slices.ContainsFunc(s.pools, (*pool).pending) { // strangers' packets take no answer's place
			return
		}
	}
	select {
	case waiting <- o: // also without an answer: what was overheard is to last, too
	default: // who waits makes all last
		if o.packet != nil {
			s.cfg.Metrics.DHCPDropped("busy")
		}
	}
}

// returnTo is where an answer goes: to the port of clients or of relays, at the sender's address.
func returnTo(m dhcpv6.DHCPv6, peer *net.UDPAddr) net.Addr {
	to := &net.UDPAddr{IP: peer.IP, Zone: peer.Zone, Port: dhcpv6.DefaultClientPort}
	if m.IsRelay() {
		to.Port = dhcpv6.DefaultServerPort
	}
	return to
}
