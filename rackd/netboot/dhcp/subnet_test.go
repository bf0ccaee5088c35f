package dhcp

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

func subnet(t testing.TB, text string) Subnet {
	t.Helper()
	n, err := ParseSubnet(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ask is what the server answers to a request from an address, as Serve does it; nil: nothing.
func ask(t *testing.T, s *Server, m *dhcpv4.DHCPv4, from string) *dhcpv4.DHCPv4 {
	t.Helper()
	at := s.forRequest(m, &net.UDPAddr{IP: net.ParseIP(from), Port: 68})
	if u := (&net.UDPAddr{IP: net.ParseIP(from)}); !(at != s && s.near(u)) && !at.heeds(m, u) {
		return nil
	}
	return answer(t, at, m)
}

// A relay's address chooses the range, the router and the lease file. A machine that moves is known by its newest address; one that
// renews by unicast keeps the address of its subnet.
func TestRelayedSubnets(t *testing.T) {
	file, now := filepath.Join(t.TempDir(), "leases"), time.Now()
	set := func(c *Config) {
		c.LeaseFile, c.Now = file, func() time.Time { return now }
		c.Subnets = []Subnet{subnet(t, "10.2.0.0/24 10.2.0.100-10.2.0.101 10.2.0.1"), subnet(t, "10.3.0.0/22 10.3.1.0-10.3.1.9 10.3.0.1")}
	}
	s := newServer(t, set)
	lease := func(s *Server, relay, from string) *dhcpv4.DHCPv4 {
		t.Helper()
		by := dhcpv4.WithGatewayIP(net.ParseIP(relay).To4())
		offer := ask(t, s, message(t, known, dhcpv4.MessageTypeDiscover, by), from)
		if offer == nil {
			return nil
		}
		s.Answer(message(t, "52:54:00:00:00:77", dhcpv4.MessageTypeDiscover))
		return ask(t, s, message(t, known, dhcpv4.MessageTypeRequest, by, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))), from)
	}
	for _, c := range []struct{ relay, from, prefix, router, mask string }{
		{"10.2.0.1", "10.2.0.1", "10.2.0.10", "10.2.0.1", "ffffff00"},
		{"10.3.0.1", "10.77.0.254", "10.3.1.", "10.3.0.1", "fffffc00"}, // the relay sends from its side of the server's network
		{"0.0.0.0", "0.0.0.0", "10.77.0.10", "", "ffffff00"},
	} {
		now = now.Add(time.Second)
		ack := lease(s, c.relay, c.from)
		if ack == nil || ack.MessageType() != dhcpv4.MessageTypeAck || !strings.HasPrefix(ack.YourIPAddr.String(), c.prefix) || ack.SubnetMask().String() != c.mask {
			t.Fatalf("relay %s: %v", c.relay, ack)
		}
		if r := ack.Router(); (len(r) == 0) != (c.router == "") || len(r) > 0 && r[0].String() != c.router {
			t.Errorf("relay %s: router %v, want %q", c.relay, r, c.router)
		}
		if got, ok := s.Address(known); !ok || got.String() != ack.YourIPAddr.String() {
			t.Errorf("relay %s: the machine's address is %s", c.relay, got)
		}
		if mac, ok := s.MACOf(ack.YourIPAddr); !ok || mac != known {
			t.Errorf("relay %s: %s is %q's", c.relay, ack.YourIPAddr, mac)
		}
		if c.relay == "10.2.0.1" {
			now = now.Add(time.Second)
			renewal := message(t, known, dhcpv4.MessageTypeRequest)
			renewal.ClientIPAddr = ack.YourIPAddr
			if r := ask(t, s, renewal, ack.YourIPAddr.String()); r == nil || r.MessageType() != dhcpv4.MessageTypeAck || !r.YourIPAddr.Equal(ack.YourIPAddr) {
				t.Errorf("a renewal by unicast: %v", r)
			}
		}
	}
	for relay, from := range map[string]string{"10.9.0.1": "10.9.0.1", "10.2.0.1": "192.0.2.9"} {
		if r := ask(t, s, message(t, known, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.ParseIP(relay).To4())), from); r != nil {
			t.Errorf("relay %s from %s is answered with %s", relay, from, r.YourIPAddr)
		}
	}
	if n := len(s.posted().pools); n != 3 {
		t.Errorf("replies wait until %d files hold their leases, want that of each network", n)
	}
	before, _ := s.Address(known)
	for _, p := range s.pools() {
		p.flush()
	}
	if after, ok := newServer(t, set).Address(known); !ok || after != before {
		t.Errorf("after a restart the machine's address is %s, before %s", after, before)
	}
}

func TestSubnetsThatCannotBeServed(t *testing.T) {
	for _, text := range []string{"", "10.2.0.0/24", "10.2.0.0/24 10.2.0.1-10.2.0.9", "10.2.0.5/24 10.2.0.1-10.2.0.9 10.2.0.1", "10.2.0.0/24 10.2.0.1 10.2.0.1", "10.2.0.0/31 10.2.0.0-10.2.0.1 10.2.0.1", "fd00::/64 fd00::1-fd00::9 fd00::1"} {
		if n, err := ParseSubnet(text); err == nil {
			t.Errorf("%q is read as %+v", text, n)
		}
	}
	for what, texts := range map[string][]string{"its own network": {"10.77.0.0/25 10.77.0.2-10.77.0.9 10.77.0.1"}, "two that overlap": {"10.2.0.0/24 10.2.0.2-10.2.0.9 10.2.0.1", "10.2.0.128/25 10.2.0.130-10.2.0.140 10.2.0.129"},
		"a range elsewhere": {"10.2.0.0/24 10.4.0.2-10.4.0.9 10.2.0.1"}, "a router elsewhere": {"10.2.0.0/24 10.2.0.2-10.2.0.9 10.4.0.1"}} {
		c := newServer(t, nil).cfg
		for _, text := range texts {
			c.Subnets = append(c.Subnets, subnet(t, text))
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s is served", what)
		}
	}
}

// Firmware that reads option 150 finds the TFTP server's address there.
func TestOption150(t *testing.T) {
	r := answer(t, newServer(t, nil), message(t, known, dhcpv4.MessageTypeDiscover, pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")...))
	want := netip.MustParseAddr("10.77.0.1").AsSlice()
	if got := r.Options.Get(dhcpv4.OptionTFTPServerAddress); string(got) != string(want) || r.TFTPServerName() != "10.77.0.1" {
		t.Errorf("option 150 is %v, 66 %q", got, r.TFTPServerName())
	}
}
