// Package routeradv answers the IPv6 router solicitations of machines that boot the ramdisk, where no router does.
// iPXE configures IPv4 and IPv6 side by side, and waits some 16 s for a router advertisement before it goes on.
//
// It may import protocol and rackd/netboot. The answer names no default router: it has lifetime 0 (RFC 4861, section
// 6.2.3). Without DHCPv6 it only ends the wait. With it, it sends the machine there, and names the network's prefix. The
// server answers only the machine that asked. Where a router advertises itself the
// server is silent.
package routeradv

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/rackd/netboot"
)

const (
	// askedWithin is how long a router has to answer the server's own solicitation. Routers answer within 0.5 s
	// (MAX_RA_DELAY_TIME).
	askedWithin = 700 * time.Millisecond
	// listensFirst is how long the server only listens after its start: a router that has just answered another
	// host answers the next solicitation up to 3 s later (MIN_DELAY_BETWEEN_RAS).
	listensFirst = 4 * time.Second
	// askedFor is how long "nobody has answered" counts.
	askedFor = time.Minute
	// heardFor bounds how long an advertisement counts: a router that gives its lifetime as 0, or as hours, is
	// asked for again after that.
	heardAtLeast, heardAtMost = 10 * time.Second, 30 * time.Minute
	// mostWaiting bounds the machines that wait for the server to learn whether there is a router.
	mostWaiting = 256
	// answersAtOnce and answersPerSecond bound the answers, whoever asks.
	answersAtOnce, answersPerSecond = 100, 100
)

// Link sends and receives Ethernet frames that hold ICMPv6 router messages. Its Close ends Receive with net.ErrClosed.
type Link interface {
	MAC() net.HardwareAddr
	Receive(frame []byte) (n int, err error)
	Send(frame []byte) error
	Close() error
}

// Server answers on one link. Make it with New, and use it once.
type Server struct {
	link      Link
	directory netboot.Directory
	metrics   *netboot.Metrics
	log       *slog.Logger
	pace      *rate.Limiter
	prefix    netip.Prefix // of the network where rackd serves DHCPv6; invalid: it does not
	discovery bool

	routerUntil time.Time          // until then a router is known
	asked       time.Time          // when the server asked for routers last
	waiting     map[string]message // by MAC: what is answered once askedWithin is over and no router was heard
}

// DHCP is what machines are told of DHCPv6.
type DHCP struct {
	// Prefix is the network in which rackd serves it; invalid: it does not.
	Prefix netip.Prefix
	// Discovery: strangers are sent there too.
	Discovery bool
}

// New returns a server that Serve runs. The directory says which machines boot the ramdisk.
func New(link Link, directory netboot.Directory, dhcp DHCP, metrics *netboot.Metrics, log *slog.Logger) *Server {
	return &Server{link: link, directory: directory, metrics: metrics, log: log, pace: rate.NewLimiter(answersPerSecond, answersAtOnce), waiting: map[string]message{},
		prefix: dhcp.Prefix, discovery: dhcp.Discovery && dhcp.Prefix.IsValid()}
}

// Serve answers until ctx ends; then it closes the link and returns nil.
func (s *Server) Serve(ctx context.Context) error {
	heard, failed := make(chan message), make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { s.link.Close() })
	defer stop()
	go func() { failed <- s.listen(ctx, heard) }()
	ready := time.NewTimer(listensFirst)
	defer ready.Stop()
	s.ask()
	for listening := true; ; {
		select {
		case <-ctx.Done():
			<-failed
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			s.link.Close()
			return err
		case m := <-heard:
			if m.advertises {
				s.router(m)
				continue
			}
			if !s.boots(m) || time.Now().Before(s.routerUntil) {
				continue
			}
			if !listening && len(s.waiting) == 0 && time.Since(s.asked) < askedFor {
				s.answer(m)
				continue
			}
			if len(s.waiting) < mostWaiting {
				s.waiting[m.from.String()] = m
			}
			if !listening {
				s.ask()
				ready.Reset(askedWithin)
				listening = true
			}
		case <-ready.C:
			listening = false
			for _, m := range s.waiting {
				if !time.Now().Before(s.routerUntil) {
					s.answer(m)
				}
			}
			clear(s.waiting)
		}
	}
}

// pause after a failed read: an interface that goes down fails one, and the link works again once it comes back.
const pause = time.Second

// listen reads frames until the link is closed.
func (s *Server) listen(ctx context.Context, heard chan<- message) error {
	for buf := make([]byte, 1514); ; {
		n, err := s.link.Receive(buf)
		if err != nil && (ctx.Err() != nil || errors.Is(err, net.ErrClosed)) {
			return err
		}
		if err != nil {
			s.log.Warn("router messages cannot be read, trying again", "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			continue
		}
		m, ok := read(buf[:n], s.link.MAC())
		if !ok {
			continue
		}
		select {
		case heard <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// boots reports whether a message is of a machine that loads something over the network.
func (s *Server) boots(m message) bool {
	machine, ok := s.directory.ByMAC(m.from.String())
	if !ok {
		return s.discovery
	}
	return machine.Order.Boots()
}

// router notes that a router is there.
func (s *Server) router(m message) {
	now := time.Now()
	if now.After(s.routerUntil) {
		s.log.Info("an IPv6 router advertises itself, so machines that boot are left to it", "router", m.source.String(), "mac", m.from.String(), "lifetime", m.lifetime)
		if s.prefix.IsValid() && !m.dhcp {
			s.log.Warn("an IPv6 router sends no host to DHCPv6, so machines do not boot by IPv6", "router", m.source.String(), "mac", m.from.String(),
				"todo", "have it set the flag M or O in its advertisements, for other configuration (RFC 4861, section 4.2)")
		}
	}
	s.routerUntil = now.Add(min(max(m.lifetime, heardAtLeast), heardAtMost))
}

// ask solicits routers, as a host that has no address yet: all hear the answer then.
func (s *Server) ask() {
	s.asked = time.Now()
	if err := s.link.Send(solicitation(s.link.MAC())); err != nil {
		s.metrics.RouterAnswer("failed")
		s.log.Debug("router solicitation not sent", "error", err)
	}
}

// answer tells a machine that there is no router.
func (s *Server) answer(m message) {
	if !s.pace.Allow() {
		s.metrics.RouterAnswer("busy")
		return
	}
	if err := s.link.Send(advertisement(s.link.MAC(), m, s.prefix)); err != nil {
		s.metrics.RouterAnswer("failed")
		s.log.Debug("router solicitation not answered", "mac", m.from.String(), "error", err)
		return
	}
	s.metrics.RouterAnswer("sent")
}
