// Package dhcp is rackd's DHCP server: addresses for the machines it knows, and
// the boot program that fits each kind of client. In proxy mode it adds the boot
// program beside an existing server that gives the addresses. Server speaks IPv4, Server6 speaks DHCPv6: they
// have the pool of addresses in common, the kinds of clients and what strangers may do.
//
// It may import rackd/netboot and rackd/strangers. Machines without a port get no answer, unless
// discovery is on, so it can share a network with others. With discovery they get a part of the range. A server serves the
// subnet of its interface, and those that relays bring it, each with a range of its own (subnet.go, six.go); a proxy and a Server6
// also the networks that they are told of. It needs no authentication, see rackd/netboot: what anyone can forge takes
// no machine's address away. A release is not believed. A request from another network is not heeded,
// and an address that another server gives is believed of a network that is served only.
//
// Invariants: no two machines have the same address from one server; two servers of
// one segment agree as far as each hears the other's clients, and never give the same
// where their ranges are apart; a machine whose server has gone keeps its address
// with another; what was acknowledged is in the lease file by then.
package dhcp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Mode says what the server does.
type Mode string

// The modes.
const (
	Serve Mode = "serve" // addresses and boot programs
	Proxy Mode = "proxy" // boot programs only, beside another server
	Off   Mode = "off"
)

// Programs are the boot programs that firmware loads first, by TFTP or UEFI HTTP
// boot; each must be one of the boot files.
type Programs struct {
	BIOS   string // empty: undionly.kpxe
	UEFI64 string // empty: snponly.efi
	ARM64  string // empty: snponly-arm64.efi
}

// Config of a server.
type Config struct {
	Mode     Mode
	ServerIP netip.Addr
	From, To netip.Addr // both are given to machines; of the same subnet, by Mask
	// Relays are the networks besides ServerIP's whose relays and machines a proxy answers.
	Relays []netip.Prefix
	// Subnets are further networks, which relays bring here; in serve mode only.
	Subnets []Subnet
	Mask    net.IPMask
	Router  netip.Addr // zero: none
	DNS     []netip.Addr
	// LeaseTime is how long an address is given; 0: one hour.
	LeaseTime time.Duration
	// LeaseFile keeps the leases; empty: memory only.
	LeaseFile string
	// HTTP is the base URL of the boot web, without a slash at the end.
	HTTP string
	// HTTPS is the same by TLS, for firmware that boots by HTTP; empty: it is told HTTP.
	HTTPS string
	// TFTP is the base URL of a TFTP server that generates scripts, for machines
	// whose boot interface is pxe; empty: they get theirs by HTTP too.
	TFTP     string
	Programs Programs
	// Loaders: machines whose boot interface is pxe get GRUB behind shim, or pxelinux, in place of iPXE. They are boot files.
	Loaders bool
	// Discovery: strangers are served like machines that are known.
	Discovery bool
	Directory netboot.Directory
	Journal   netboot.Journal
	Metrics   *netboot.Metrics // nil: nothing is counted
	// Probe is asked before an address is offered; nil: addresses are offered without.
	Probe Probe
	// Serves says whether a boot program is there; nil: all are.
	Serves func(program string) bool
	// Strangers bounds what is logged of them, and their part of the range; nil: by the defaults.
	Strangers *strangers.Gate
	Log       *slog.Logger
	Now       func() time.Time // nil: time.Now
}

// Server answers DHCP. Safe for concurrent use.
type Server struct {
	cfg         Config
	pool        *pool
	foreignSaid atomic.Pointer[time.Time]
	heard       heard     // in proxy mode
	relayed     []*Server // of the subnets
	probing     probing
	probeLog    rate.Sometimes
	programLog  rate.Sometimes
	senderLog   rate.Sometimes
	addressLog  rate.Sometimes
	lines       *strangers.LineCount
}

// New returns a server with the leases it had before.
func New(c Config) (*Server, error) {
	if c.LeaseTime == 0 {
		c.LeaseTime = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Strangers == nil {
		c.Strangers = strangers.New(strangers.Budget{}, nil, c.Log)
	}
	c.Programs = c.Programs.orDefault()
	c.HTTPS = cmp.Or(c.HTTPS, c.HTTP)
	s := &Server{cfg: c, lines: c.Strangers.Lines("DHCP"), probeLog: rate.Sometimes{First: 1, Interval: foreignEvery}, programLog: rate.Sometimes{First: 5, Interval: foreignEvery},
		senderLog: rate.Sometimes{First: 1, Interval: foreignEvery}, addressLog: rate.Sometimes{First: 1, Interval: foreignEvery}}
	switch c.Mode {
	case Off:
		return s, nil
	case Serve, Proxy:
	default:
		return nil, fmt.Errorf("DHCP mode is %q: give serve, proxy or off", c.Mode)
	}
	if !c.ServerIP.Is4() || c.HTTP == "" {
		return nil, fmt.Errorf("DHCP needs this rackd's IPv4 address and boot web; it has %q and %q", c.ServerIP, c.HTTP)
	}
	if _, bits := c.Mask.Size(); bits != 32 {
		return nil, fmt.Errorf("DHCP network mask %v is no IPv4 mask", c.Mask)
	}
	if c.Mode == Proxy {
		return s, nil
	}
	if !c.From.Is4() || !c.To.Is4() {
		return nil, fmt.Errorf("DHCP range %s-%s is not a range of IPv4 addresses: give the first and the last", c.From, c.To)
	}
	p, err := openPool(c)
	if err != nil {
		return nil, err
	}
	s.pool = p
	return s, s.addSubnets()
}

func (p Programs) orDefault() Programs {
	for name, fallback := range map[*string]string{&p.BIOS: "undionly.kpxe", &p.UEFI64: "snponly.efi", &p.ARM64: "snponly-arm64.efi"} {
		if *name == "" {
			*name = fallback
		}
	}
	return p
}

// MACOf returns the machine that has an address by this server; of a proxy, the one that was last overheard to ask for it.
func (s *Server) MACOf(ip net.IP) (string, bool) {
	a := addr(ip)
	switch {
	case !a.IsValid():
		return "", false
	case s.pool == nil:
		return s.heard.macOf(a, s.cfg.Now())
	}
	return s.forAddress(a).pool.macOf(a)
}

// reply makes an answer of type t with the boot options that fit the client.
func (s *Server) reply(m *dhcpv4.DHCPv4, machine netboot.Machine, t dhcpv4.MessageType, mods ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	self := net.IP(s.cfg.ServerIP.AsSlice())
	all := append([]dhcpv4.Modifier{dhcpv4.WithMessageType(t), dhcpv4.WithServerIP(self),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(self))}, mods...)
	r, err := dhcpv4.NewReplyFromRequest(m, append(all, s.boot(m, machine)...)...)
	if err != nil {
		return nil, fmt.Errorf("make a DHCP %s: %w", t, err)
	}
	return r, nil
}
