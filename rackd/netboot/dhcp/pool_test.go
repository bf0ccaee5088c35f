package dhcp

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func wide(c *Config) {
	c.From, c.To = netip.MustParseAddr("10.77.0.0"), netip.MustParseAddr("10.77.0.31")
	c.Mask = net.CIDRMask(27, 32)
	c.Router = netip.MustParseAddr("10.77.0.2")
	c.DNS = []netip.Addr{netip.MustParseAddr("10.77.0.3")}
}

func TestAddressesOfTheNetworkItselfAreNeverGiven(t *testing.T) {
	s := newServer(t, wide)
	given := map[string]bool{}
	for i := range 27 { // 32 less network, broadcast, server, router and DNS
		given[answer(t, s, message(t, fmt.Sprintf("52:54:00:00:00:%02x", i), dhcpv4.MessageTypeDiscover)).YourIPAddr.String()] = true
	}
	for _, a := range []string{"10.77.0.0", "10.77.0.31", "10.77.0.1", "10.77.0.2", "10.77.0.3"} {
		if given[a] {
			t.Errorf("%s was given to a machine", a)
		}
	}
	if len(given) != 27 {
		t.Errorf("27 machines got %d addresses", len(given))
	}
	if _, err := s.Answer(message(t, "52:54:00:00:01:00", dhcpv4.MessageTypeDiscover)); err == nil {
		t.Error("a 28th machine got an address")
	}
}

// Two rackds on one segment share nothing but what they hear.
func TestTwoServersAgree(t *testing.T) {
	one := newServer(t, wide)
	two := newServer(t, func(c *Config) { wide(c); c.ServerIP = netip.MustParseAddr("10.77.0.4") })
	for _, s := range []*Server{one, two} {
		s.pool.reserved[one.cfg.ServerIP], s.pool.reserved[two.cfg.ServerIP] = true, true
	}
	random := rand.New(rand.NewPCG(1, 2))
	owner := map[string]string{}
	for i := range 26 {
		mac := fmt.Sprintf("52:54:00:00:00:%02x", i)
		discover := message(t, mac, dhcpv4.MessageTypeDiscover)
		offers := []*dhcpv4.DHCPv4{answer(t, one, discover), answer(t, two, discover)}
		chosen := offers[random.IntN(2)]
		request, err := dhcpv4.NewRequestFromOffer(chosen)
		if err != nil {
			t.Fatal(err)
		}
		acks := 0
		for _, s := range []*Server{one, two} {
			if r := answer(t, s, request); r != nil {
				acks++
				if r.MessageType() != dhcpv4.MessageTypeAck {
					t.Errorf("%s: %s for %s", mac, r.MessageType(), chosen.YourIPAddr)
				}
			}
		}
		if acks != 1 {
			t.Errorf("%s: %d servers answered the request", mac, acks)
		}
		if other, taken := owner[chosen.YourIPAddr.String()]; taken {
			t.Errorf("%s and %s both have %s", other, mac, chosen.YourIPAddr)
		}
		owner[chosen.YourIPAddr.String()] = mac
	}
	// The first rackd is gone; its machines renew with the second.
	for a, mac := range owner {
		r := answer(t, two, message(t, mac, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(net.ParseIP(a).To4())))
		if r == nil || r.MessageType() != dhcpv4.MessageTypeAck || r.YourIPAddr.String() != a {
			t.Errorf("%s asked the other rackd to keep %s and got %v", mac, a, r)
		}
	}
}

// Two rackds with ranges of their own. The machines' addresses survive their server,
// also with a rackd that has never heard of them.
func TestServersWithRangesOfTheirOwn(t *testing.T) {
	ranges := func(last string, from, to string) func(*Config) {
		return func(c *Config) {
			c.ServerIP, c.From, c.To = netip.MustParseAddr("10.77.0."+last), netip.MustParseAddr("10.77.0."+from), netip.MustParseAddr("10.77.0."+to)
		}
	}
	one, two := newServer(t, ranges("1", "100", "119")), newServer(t, ranges("2", "120", "139"))
	request, err := dhcpv4.NewRequestFromOffer(answer(t, one, message(t, known, dhcpv4.MessageTypeDiscover)))
	if err != nil {
		t.Fatal(err)
	}
	ack := answer(t, one, request)
	if r := answer(t, two, request); r != nil {
		t.Errorf("the other server answered a request that was not for it: %s", r.Summary())
	}
	had := ack.YourIPAddr
	remembers := message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(had)))
	uses := message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(had))
	thief := message(t, "52:54:00:00:00:02", dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(had))
	stranger := newServer(t, ranges("3", "140", "159")) // started a moment ago
	for _, c := range []struct {
		what   string
		server *Server
		asks   *dhcpv4.DHCPv4
		want   string // type of the answer; empty: none
	}{
		{"the heir, which overheard it, and a machine that remembers its address", two, remembers, "ACK"},
		{"the heir and a machine that uses its address", two, uses, "ACK"},
		{"the heir and another machine with that address", two, thief, "NAK"},
		{"a stranger and a machine that remembers an address", stranger, remembers, ""},
		{"a stranger and a machine that uses an address", stranger, uses, "ACK"},
		{"a stranger that now knows", stranger, thief, "NAK"},
	} {
		got := ""
		if r := answer(t, c.server, c.asks); r != nil {
			got = r.MessageType().String()
			if got == "ACK" && !r.YourIPAddr.Equal(had) {
				t.Errorf("%s: given %s, had %s", c.what, r.YourIPAddr, had)
			}
		}
		if got != c.want {
			t.Errorf("%s: answer %q, want %q", c.what, got, c.want)
		}
	}
	if r := answer(t, two, message(t, known, dhcpv4.MessageTypeDiscover)); !r.YourIPAddr.Equal(had) {
		t.Errorf("the heir offers %s to a machine that has %s", r.YourIPAddr, had)
	}
}

// An offer that nobody has taken gives way to what another server really gave.
func TestOfferGivesWayToALease(t *testing.T) {
	s := newServer(t, nil)
	offered := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover)).YourIPAddr
	answer(t, s, message(t, "52:54:00:00:00:02", dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offered)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 77, 0, 2)))))
	late := message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offered)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 77, 0, 1))))
	if r := answer(t, s, late); r == nil || r.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("the machine that was offered %s first got %v, although another has it", offered, r)
	}
}

func TestAddressOfAnotherRackdIsKept(t *testing.T) {
	s := newServer(t, nil)
	derived := answer(t, newServer(t, nil), message(t, known, dhcpv4.MessageTypeDiscover)).YourIPAddr
	had := net.IPv4(10, 77, 0, 100).To4()
	if had.Equal(derived) {
		had = net.IPv4(10, 77, 0, 101).To4()
	}
	r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(had))))
	if !r.YourIPAddr.Equal(had) {
		t.Errorf("the machine asked for %s, which is free, and was offered %s", had, r.YourIPAddr)
	}
	if r = answer(t, s, message(t, "52:54:00:00:00:02", dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(had))); r.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("a second machine was given %s as well", had)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"range backwards": func(c *Config) { c.From, c.To = c.To, c.From },
		"IPv6":            func(c *Config) { c.From = netip.MustParseAddr("fd00::1") },
		"whole Internet":  func(c *Config) { c.From, c.To = netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255") },
		"two subnets":     func(c *Config) { c.To = netip.MustParseAddr("10.77.1.1") },
		"mode":            func(c *Config) { c.Mode = "maybe" },
		"no boot web":     func(c *Config) { c.HTTP = "" },
		"no mask":         func(c *Config) { c.Mask = nil },
	} {
		c := newServer(t, nil).cfg
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLeaseFileTroubleDoesNotStopDHCP(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "leases.json")
	if err := os.WriteFile(file, []byte("{half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(c *Config) { c.LeaseFile = file })
	if _, err := os.Stat(file + ".unreadable"); err != nil {
		t.Errorf("the unreadable file was not kept: %v", err)
	}
	s.pool.log.path = filepath.Join(dir, "missing", "leases.json") // cannot be written
	offer := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover))
	ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, ask)); r == nil || r.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("with a disk that takes nothing the machine got %v", r)
	}
}

// Whatever clients do, in whatever order, no address has two machines.
func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 17, 40, 99, 130, 200, 255, 4, 4, 4})
	f.Fuzz(func(t *testing.T, moves []byte) {
		now := time.Unix(0, 0)
		p, err := openPool(Config{From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.4"), Mask: net.CIDRMask(24, 32),
			LeaseTime: time.Hour, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for _, move := range moves {
			mac, a := string(rune('a'+move>>3&3)), address(p.from, uint32(move>>5&7))
			switch move & 7 {
			case 0:
				p.offer(mac, a)
			case 1:
				p.take(mac, a, move>>7 == 1)
			case 2:
				before := maps.Clone(p.byAddr)
				p.learn(mac, a)
				for at, l := range before {
					if !l.offered && l.Until.After(now) && p.byAddr[at].MAC != l.MAC {
						t.Fatalf("what was heard ended a lease: %+v", l)
					}
				}
			case 3:
				p.flush()
			case 4:
				p.decline(mac, a)
			default:
				now = now.Add(time.Duration(move) * 10 * time.Second)
			}
			for mac, a := range p.byMAC {
				if l := p.byAddr[a]; l.MAC != mac || l.Declined || !p.usable(a) {
					t.Fatalf("%s has %s, whose lease is %+v", mac, a, l)
				}
			}
			held := 0
			for _, l := range p.byAddr {
				if !l.Declined {
					held++
				}
			}
			if held != len(p.byMAC) {
				t.Fatalf("%d leases for %d machines", held, len(p.byMAC))
			}
		}
	})
}
