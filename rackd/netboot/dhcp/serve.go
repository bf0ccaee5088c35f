package dhcp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"github.com/ironyard/ironyard/rackd/netboot/relisten"
)

// BootPort is where PXE clients ask a boot server for its program (PXE 2.1,
// section 2.2.4); only the proxy mode needs it.
const BootPort = 4011

// Listen opens a connection for Server.Serve: port 67 of an interface, which may be made again.
func Listen(name string, log *slog.Logger) (net.PacketConn, error) {
	return relisten.Packets(name, log, func(name string) (net.PacketConn, error) {
		return server4.NewIPv4UDPConn(name, &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort})
	})
}

// pause after a failed read: an interface that goes down and comes back fails reads
// in between, and the server must outlive that.
const pause = time.Second

// Serve answers what comes in on conn, which it closes, until ctx ends. conn must
// be bound to port 67 on the interface of the machines and allow broadcast, as one of
// Listen is and does. Errors of conn are logged and waited out.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	scouting := make(chan struct{})
	scouts, stop := context.WithCancel(ctx)
	go func() {
		defer close(scouting)
		if s.pool != nil && s.cfg.Probe != nil {
			s.scout(scouts)
		}
	}()
	defer func() { stop(); <-scouting }()
	err := s.serve(ctx, conn, func(m *dhcpv4.DHCPv4, from net.Addr) (*dhcpv4.DHCPv4, net.Addr, error) {
		at := s.forRequest(m, from)
		if !(at != s && s.near(from)) && !at.heeds(m, from) { // relays send from their own side, or from ours
			return nil, nil, nil
		}
		r, err := at.Answer(m)
		if r == nil || err != nil {
			return nil, nil, err
		}
		return r, destination(m, r), nil
	})
	for _, p := range s.pools() {
		p.flush()
		p.log.close()
	}
	return err
}

// ServeBoot is Serve for BootPort: it answers the sender itself.
func (s *Server) ServeBoot(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, func(m *dhcpv4.DHCPv4, from net.Addr) (*dhcpv4.DHCPv4, net.Addr, error) {
		if !s.near(from) {
			return nil, nil, nil
		}
		r, err := s.AnswerBoot(m)
		return r, from, err
	})
}

// near reports whether a sender is of a network that is served.
func (s *Server) near(from net.Addr) bool {
	u, ok := from.(*net.UDPAddr)
	if !ok {
		return false
	}
	a := addr(u.IP)
	return a.IsValid() && s.served(a)
}

func (s *Server) serve(ctx context.Context, conn net.PacketConn,
	answer func(*dhcpv4.DHCPv4, net.Addr) (*dhcpv4.DHCPv4, net.Addr, error)) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	waiting := make(chan outgoing, maxWaiting)
	probes, stopProbing := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() { defer close(sent); send(ctx, conn, waiting, s.posted()) }()
	var probing sync.WaitGroup
	defer func() { stopProbing(); probing.Wait(); close(waiting); <-sent }()
	buf := make([]byte, 4096) // longer packets are cut, and then unreadable
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			s.cfg.Log.Error("DHCP read failed, trying again", "on", conn.LocalAddr().String(), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		m, err := dhcpv4.FromBytes(buf[:n])
		if err != nil {
			s.cfg.Metrics.DHCPDropped("unreadable")
			s.cfg.Log.Debug("DHCP packet is unreadable", "from", from.String(), "error", err)
			continue
		}
		reply, to, err := answer(m, from)
		if s.pool != nil {
			s.cfg.Metrics.Leases(s.cfg.ServerIP, s.taken())
		}
		if mac := m.ClientHWAddr.String(); errors.Is(err, errUnprobed) {
			if s.probing.begin(mac) {
				probing.Go(func() {
					defer s.probing.end(mac)
					s.later(probes, m, waiting)
				})
			} else {
				s.cfg.Metrics.DHCPDropped("busy")
			}
			continue
		}
		if err != nil {
			s.failed(m, err)
			continue
		}
		if reply == nil {
			s.cfg.Metrics.DHCPDropped("silent")
			if !slices.ContainsFunc(s.pools(), (*pool).pending) {
				continue
			}
			to = nil // what was overheard is to last, too
		}
		select {
		case waiting <- letter(m, reply, to):
		default: // who waits makes all last
			if reply == nil {
				continue
			}
			s.cfg.Metrics.DHCPDropped("busy")
		}
	}
}

// letter is a reply as send takes it, also one that is none.
func letter(m, reply *dhcpv4.DHCPv4, to net.Addr) outgoing {
	if reply == nil {
		return outgoing{}
	}
	return outgoing{packet: reply.ToBytes(), to: to, mac: m.ClientHWAddr.String(), kind: reply.MessageType().String(), client: clientOf(m).String()}
}

// posted is what becomes of the replies of the server, and of those for its further subnets.
func (s *Server) posted() post {
	return post{pools: s.pools(), metrics: s.cfg.Metrics, lines: s.lines, log: s.cfg.Log}
}

// later answers a machine whose address has to be probed first.
func (s *Server) later(ctx context.Context, m *dhcpv4.DHCPv4, waiting chan<- outgoing) {
	reply, err := s.afterProbe(ctx, m)
	switch {
	case err != nil:
		s.failed(m, err)
	case reply != nil:
		select {
		case waiting <- letter(m, reply, destination(m, reply)):
		case <-ctx.Done():
		}
	}
}

// failed counts a request that cannot be answered, and logs it unless many are.
func (s *Server) failed(m *dhcpv4.DHCPv4, err error) {
	s.cfg.Metrics.DHCPDropped("error")
	machine, _ := s.cfg.Directory.ByMAC(m.ClientHWAddr.String())
	if s.mayLog(m.ClientHWAddr.String(), machine) {
		s.cfg.Log.Error("DHCP request not answered", "mac", m.ClientHWAddr.String(), "type", m.MessageType().String(), "error", err)
	}
}

// destination follows RFC 2131, section 4.1: to the relay, to the client's address
// when it has one, else by broadcast. Clients that allow a unicast to the address
// they are about to get are sent a broadcast too: the kernel has no neighbour entry
// for them, and every client takes it.
func destination(m, reply *dhcpv4.DHCPv4) net.Addr {
	switch {
	case !m.GatewayIPAddr.IsUnspecified():
		return &net.UDPAddr{IP: m.GatewayIPAddr, Port: dhcpv4.ServerPort}
	case !m.ClientIPAddr.IsUnspecified() && reply.MessageType() != dhcpv4.MessageTypeNak:
		return &net.UDPAddr{IP: m.ClientIPAddr, Port: dhcpv4.ClientPort}
	}
	return &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
}
