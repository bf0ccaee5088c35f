package dhcp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Subnet6 returns the subnet with the range that follows from a rackd's address: no two rackds of a network have
// the same, so that none has to be told a range. prefix has 64 bits at most.
func Subnet6(self netip.Addr, bits int) Subnet {
	id := uuid.NewSHA1(namespace6, self.AsSlice())
	b := netip.PrefixFrom(self, bits).Masked().Addr().As16()
	// The first byte is one that addresses made from a MAC address or by people seldom begin with.
	b[8] = 0xd6
	copy(b[9:14], id[:5])
	from := netip.AddrFrom16(b)
	return Subnet{Prefix: netip.PrefixFrom(self, bits).Masked(), From: from, To: address(from, maxRange-1)}
}

// namespace6 is that of the UUIDs which follow from rackds' addresses.
var namespace6 = uuid.MustParse("6e0c9f7e-5d8e-4f4b-9a53-7f6f3d0e2b61")

// Config6 is Config for IPv6.
type Config6 struct {
	// Mode is Serve: addresses and boot files; Proxy: boot files for clients that ask for no address, as those do that
	// have one of a router's prefix; Off.
	Mode     Mode
	ServerIP netip.Addr
	// Subnets are served. The first is ServerIP's own; machines of the others are reached through relays.
	Subnets []Subnet
	DNS     []netip.Addr
	// LeaseTime is how long an address is given; 0: one hour.
	LeaseTime time.Duration
	// LeaseFile keeps the leases of the first subnet, others beside it those of the others; empty: memory only.
	LeaseFile string
	// HTTP and TFTP are base URLs as in Config, with ServerIP in brackets. Firmware that boots by PXE loads from TFTP.
	HTTP, TFTP string
	// HTTPS is as in Config.
	HTTPS     string
	Programs  Programs
	Discovery bool
	Directory netboot.Directory
	Journal   netboot.Journal
	Metrics   *netboot.Metrics // nil: nothing is counted
	Serves    func(program string) bool
	// Neighbour returns the MAC address of a host of the interface's network; nil: those whose address and DUID do not
	// tell it are strangers.
	Neighbour func(netip.Addr) (mac string, ok bool)
	Strangers *strangers.Gate
	Log       *slog.Logger
	Now       func() time.Time // nil: time.Now
}

// Server6 answers DHCPv6 (RFC 8415). Safe for concurrent use.
//
// A machine has one address of a subnet, whatever DUID and IAID it shows: its firmware, its boot program and its
// ramdisk have a DUID each. So the MAC address is what an address belongs to.
type Server6 struct {
	cfg        Config6
	id         *dhcpv6.DUIDUUID
	pools      []*pool // of Subnets; none in proxy mode
	auto       heard   // addresses that machines make of a prefix and their MAC address
	others     heard   // addresses that another server gives, in proxy mode
	lines      *strangers.LineCount
	foreignLog rate.Sometimes
	senderLog  rate.Sometimes
	programLog rate.Sometimes
	looks      *rate.Limiter // of Neighbour: strangers may ask as often as they like
}

// looksPerSecond bounds the questions to the kernel's table of neighbours.
const looksPerSecond = 50

// New6 returns a server with the leases it had before.
func New6(c Config6) (*Server6, error) {
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
	s := &Server6{cfg: c, id: &dhcpv6.DUIDUUID{UUID: uuid.NewSHA1(namespace6, c.ServerIP.AsSlice())}, lines: c.Strangers.Lines("DHCPv6"),
		foreignLog: rate.Sometimes{First: 1, Interval: foreignEvery}, senderLog: rate.Sometimes{First: 1, Interval: foreignEvery}, programLog: rate.Sometimes{First: 5, Interval: foreignEvery},
		looks: rate.NewLimiter(looksPerSecond, looksPerSecond)}
	switch {
	case c.Mode == Off:
		return s, nil
	case c.Mode != Serve && c.Mode != Proxy:
		return nil, fmt.Errorf("DHCPv6 mode is %q: give serve, proxy or off", c.Mode)
	case !c.ServerIP.Is6() || c.HTTP == "" || c.TFTP == "":
		return nil, fmt.Errorf("DHCPv6 needs this rackd's IPv6 address and where it serves files; it has %q, %q and %q", c.ServerIP, c.HTTP, c.TFTP)
	case len(c.Subnets) == 0 || !c.Subnets[0].Prefix.Contains(c.ServerIP):
		return nil, fmt.Errorf("DHCPv6 needs the network of this rackd's address %s as its first", c.ServerIP)
	}
	for i, n := range c.Subnets {
		for _, other := range c.Subnets[:i] {
			if other.Prefix.Overlaps(n.Prefix) {
				return nil, fmt.Errorf("DHCPv6 networks %s and %s overlap: give each network one range", other.Prefix, n.Prefix)
			}
		}
		if c.Mode == Proxy {
			continue
		}
		if !n.From.Is6() || !n.To.Is6() {
			return nil, fmt.Errorf("DHCPv6 range %s-%s is not a range of IPv6 addresses: give the first and the last", n.From, n.To)
		}
		file := c.LeaseFile
		if file != "" && i > 0 {
			end := filepath.Ext(file)
			file = strings.TrimSuffix(file, end) + "-" + strings.ReplaceAll(n.Prefix.Addr().String(), ":", "_") + end
		}
		p, err := openPool(Config{ServerIP: c.ServerIP, From: n.From, To: n.To, Mask: net.CIDRMask(n.Prefix.Bits(), 128), DNS: c.DNS, LeaseTime: c.LeaseTime, LeaseFile: file,
			Discovery: c.Discovery, Directory: c.Directory, Strangers: c.Strangers, Log: c.Log, Now: c.Now})
		if err != nil {
			return nil, err
		}
		if p.subnet != n.Prefix.Masked() {
			return nil, fmt.Errorf("DHCPv6 range %s-%s is not inside %s", n.From, n.To, n.Prefix)
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

// Hears reports whether machines that boot speak DHCPv6 with this server.
func (s *Server6) Hears() bool { return s.cfg.Mode != Off }

// MACOf returns the machine that has an address by this server; of a proxy, the one that was last overheard to ask for it.
func (s *Server6) MACOf(ip net.IP) (string, bool) {
	a := addr6(ip)
	if mac, ok := s.others.macOf(a, s.cfg.Now()); ok {
		return mac, true
	}
	for _, p := range s.pools {
		if mac, ok := p.macOf(a); ok {
			return mac, true
		}
	}
	if mac, ok := macIn(a); ok && slices.Contains(s.Addresses(mac), a) {
		return mac, true
	}
	return "", false
}

// Addresses returns the addresses that a machine is known to have: leases, the one that it makes of the prefix and its
// MAC address, or one of another server.
func (s *Server6) Addresses(mac string) (list []netip.Addr) {
	for _, p := range s.pools {
		if l, ok := p.leaseOf(mac); ok {
			list = append(list, l.Address)
		}
	}
	for _, a := range []netip.Addr{s.others.at(mac, s.cfg.Now()), s.auto.at(mac, s.cfg.Now())} {
		if a.IsValid() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// addr6 returns ip as an IPv6 address, zero when it is none or unspecified.
func addr6(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is6() || a.Is4In6() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
