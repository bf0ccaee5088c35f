package netup

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func ack(t *testing.T, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithYourIP(net.IPv4(10, 1, 2, 3)), dhcpv4.WithNetmask(net.CIDRMask(24, 32))}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRead(t *testing.T) {
	s, err := read(ack(t, dhcpv4.WithRouter(net.IPv4(10, 1, 2, 1)), dhcpv4.WithDNS(net.IPv4(9, 9, 9, 9)), dhcpv4.WithLeaseTime(600),
		dhcpv4.WithOption(dhcpv4.OptDomainName("rack.example")), dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x23, 0x28})))
	if err != nil {
		t.Fatal(err)
	}
	if s.addr.String() != "10.1.2.3/24" || s.mtu != 9000 || s.expire != 10*time.Minute || s.renew != 5*time.Minute {
		t.Errorf("%+v", s)
	}
	if len(s.routes) != 1 || s.routes[0].to.Bits() != 0 || s.routes[0].via.String() != "10.1.2.1" {
		t.Errorf("routes %v", s.routes)
	}
	if got := s.resolvConf(); got != "search rack.example\nnameserver 9.9.9.9\n" {
		t.Errorf("resolv.conf %q", got)
	}
}

func TestClasslessRoutesReplaceTheRouter(t *testing.T) {
	dest := &net.IPNet{IP: net.IPv4(172, 16, 0, 0).To4(), Mask: net.CIDRMask(12, 32)}
	s, err := read(ack(t, dhcpv4.WithRouter(net.IPv4(10, 1, 2, 1)),
		dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: dest, Router: net.IPv4(10, 1, 2, 9)}, &dhcpv4.Route{Dest: dest, Router: net.IPv4zero}))))
	if err != nil || len(s.routes) != 2 || s.routes[0].to.String() != "172.16.0.0/12" || s.routes[1].via.IsValid() {
		t.Errorf("%+v, %v", s.routes, err)
	}
}

func TestOddLeases(t *testing.T) {
	if _, err := read(ack(t, dhcpv4.WithYourIP(net.IPv4zero))); err == nil {
		t.Error("no address accepted")
	}
	s, err := read(ack(t, dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 10}), dhcpv4.WithLeaseTime(0), dhcpv4.WithOption(dhcpv4.OptDomainName("a\nnameserver 6.6.6.6"))))
	if err != nil || s.mtu != 0 || s.expire != minLease || s.renew >= s.expire || s.resolvConf() != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzRead(f *testing.F) {
	p, err := dhcpv4.New(dhcpv4.WithYourIP(net.IPv4(10, 1, 2, 3)), dhcpv4.WithLeaseTime(60))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.ToBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := dhcpv4.FromBytes(b)
		if err != nil {
			return
		}
		if s, err := read(p); err == nil && (s.renew <= 0 || s.renew >= s.expire || !s.addr.IsValid()) {
			t.Errorf("%+v", s)
		}
	})
}
