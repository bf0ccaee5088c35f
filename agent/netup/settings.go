package netup

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// settings are what a lease says about an interface.
type settings struct {
	addr   netip.Prefix
	routes []route
	mtu    int // 0: leave it
	dns    []string
	domain string
	// renew, rebind and expire count from when the lease was given: when its server is
	// asked to go on with it, when any server is, and when it ends.
	renew, rebind, expire time.Duration
}

type route struct {
	to  netip.Prefix // 0.0.0.0/0: default
	via netip.Addr   // zero: on the link
}

// minLease is the shortest lease that is believed. Tests that wait for leases to end have shorter ones.
var minLease = 10 * time.Second

const (
	defaultLease = time.Hour
	minMTU       = 576 // RFC 791: what every host must take
	maxMTU       = 65535
)

// read turns an acknowledgement into settings, refusing what cannot be used.
func read(ack *dhcpv4.DHCPv4) (settings, error) {
	ip, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
		return settings{}, fmt.Errorf("the lease has no usable address (%v)", ack.YourIPAddr)
	}
	bits := 32
	if m := ack.SubnetMask(); m != nil {
		ones, size := m.Size()
		if size != 32 {
			return settings{}, errors.New("the lease has a netmask with holes")
		}
		bits = ones
	} else if m := ack.YourIPAddr.DefaultMask(); m != nil {
		bits, _ = m.Size()
	}
	s := settings{addr: netip.PrefixFrom(ip, bits), domain: ack.DomainName()}
	// RFC 3442: classless routes, if given, replace the router option.
	if classless := ack.ClasslessStaticRoute(); len(classless) > 0 {
		for _, r := range classless {
			to, ok1 := netip.AddrFromSlice(r.Dest.IP.To4())
			via, ok2 := netip.AddrFromSlice(r.Router.To4())
			ones, _ := r.Dest.Mask.Size()
			if !ok1 || !ok2 {
				continue
			}
			if via.IsUnspecified() {
				via = netip.Addr{}
			}
			s.routes = append(s.routes, route{netip.PrefixFrom(to, ones).Masked(), via})
		}
	} else if routers := ack.Router(); len(routers) > 0 {
		if via, ok := netip.AddrFromSlice(routers[0].To4()); ok {
			s.routes = append(s.routes, route{netip.PrefixFrom(netip.IPv4Unspecified(), 0), via})
		}
	}
	if raw := ack.Options.Get(dhcpv4.OptionInterfaceMTU); len(raw) == 2 {
		if mtu := int(raw[0])<<8 | int(raw[1]); mtu >= minMTU && mtu <= maxMTU {
			s.mtu = mtu
		}
	}
	for _, d := range ack.DNS() {
		if d.To4() != nil && !d.IsUnspecified() {
			s.dns = append(s.dns, d.String())
		}
	}
	s.expire = max(ack.IPAddressLeaseTime(defaultLease), minLease)
	s.renew = ack.IPAddressRenewalTime(s.expire / 2)
	if s.renew <= 0 || s.renew >= s.expire {
		s.renew = s.expire / 2
	}
	s.rebind = ack.IPAddressRebindingTime(s.expire / 8 * 7)
	if s.rebind <= s.renew || s.rebind >= s.expire {
		s.rebind = s.renew + (s.expire-s.renew)*3/4
	}
	return s, nil
}

// with are the settings of a lease with what network_data says beside it: further routes, and the MTU, if it says one.
func (s settings) with(beside settings) settings {
	s.routes = slices.Concat(s.routes, beside.routes)
	if beside.mtu != 0 {
		s.mtu = beside.mtu
	}
	return s
}

// resolvConf is the resolver's configuration file.
func (s settings) resolvConf() string {
	var b strings.Builder
	// The domain goes into a file of lines: a server must not add lines of its own.
	if s.domain != "" && !strings.ContainsAny(s.domain, "\n\r\t #;") {
		fmt.Fprintf(&b, "search %s\n", s.domain)
	}
	for _, d := range s.dns {
		fmt.Fprintf(&b, "nameserver %s\n", d)
	}
	return b.String()
}

func toNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
