package dhcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// A stranger who forges a release, with the right address or a wrong one, takes no machine's
// address away.
func TestReleaseFreesNothing(t *testing.T) {
	s := newServer(t, nil)
	offer := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover))
	had := offer.YourIPAddr
	ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(had))
	answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, ask))
	for _, ciaddr := range []net.IP{net.IPv4zero, had, net.IPv4(10, 77, 0, 101)} {
		if r := answer(t, s, message(t, known, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(ciaddr))); r != nil {
			t.Errorf("a release was answered: %s", r.Summary())
		}
		if mac, ok := s.MACOf(had); !ok || mac != known {
			t.Errorf("after a release from %s the address is %q's", ciaddr, mac)
		}
		if r := answer(t, s, message(t, other, dhcpv4.MessageTypeRequest, ask)); r == nil || r.MessageType() != dhcpv4.MessageTypeNak {
			t.Errorf("after a release from %s another machine asked for the address and got %v", ciaddr, r)
		}
	}
}

// A stranger who forges a decline takes no address from a machine that uses it, and has no other machine be given it
// while the lease lasts.
func TestDeclineOfAnAddressThatIsUsed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newServer(t, func(c *Config) { c.To, c.Now = c.From, func() time.Time { return now } }) // one address
	had := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover)).YourIPAddr
	ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(had))
	answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, ask))
	answer(t, s, message(t, known, dhcpv4.MessageTypeDecline, ask))
	now = now.Add(declineTime + time.Minute)
	if r := answer(t, s, message(t, other, dhcpv4.MessageTypeRequest, ask)); r != nil && r.MessageType() == dhcpv4.MessageTypeAck {
		t.Error("another machine was given the address while the first has its lease")
	}
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(had))); r == nil || r.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("the machine renewed the address that it uses and got %v", r)
	}
	if mac, ok := s.MACOf(had); !ok || mac != known {
		t.Errorf("the address is %q's", mac)
	}
}

// A stranger who takes addresses in one machine's name and declines them leaves the others some.
func TestDeclinesLeaveAddresses(t *testing.T) {
	s := newServer(t, nil)
	for range 10 {
		offer := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover))
		ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))
		answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, ask))
		answer(t, s, message(t, known, dhcpv4.MessageTypeDecline, ask))
	}
	offer, err := s.Answer(message(t, other, dhcpv4.MessageTypeDiscover))
	if err != nil || offer == nil {
		t.Fatalf("no address is left for another machine: %v", err)
	}
	ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))
	if r := answer(t, s, message(t, other, dhcpv4.MessageTypeRequest, ask)); r == nil || r.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("another machine asked for what it was offered and got %v", r)
	}
}

// journal is what was told of leases.
type journal struct {
	directory
	mu sync.Mutex
	at []netip.Addr
}

func (j *journal) Leased(_ string, at netip.Addr, _, _ string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at = append(j.at, at)
}

func (j *journal) told() []netip.Addr {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.at)
}

// leased has the machine get an address of s.
func leased(t *testing.T, s *Server, mac string) netip.Addr {
	t.Helper()
	got := answer(t, s, message(t, mac, dhcpv4.MessageTypeDiscover)).YourIPAddr
	if r := answer(t, s, message(t, mac, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(got)))); r == nil || r.MessageType() != dhcpv4.MessageTypeAck {
		t.Fatalf("no lease for %s: %v", mac, r)
	}
	return addr(got)
}

// takes is a request that takes what the server at by offers.
func takes(t *testing.T, mac string, wanted, by netip.Addr) *dhcpv4.DHCPv4 {
	return message(t, mac, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(wanted.AsSlice())), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(by.AsSlice())))
}

// A request in a machine's name from a host of another network is not heeded, whatever it says: its lease stays, no other machine is
// offered the address, and the journal is told of no other.
func TestRequestFromAnotherNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		s := newServer(t, func(c *Config) { c.Journal, c.To = j, c.From }) // one address, so that there is no doubt
		had := leased(t, s, known)
		w := newWire()
		w.from = &net.UDPAddr{IP: net.IPv4(203, 0, 113, 66), Port: dhcpv4.ClientPort}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, w) }()
		for _, wanted := range []string{"203.0.113.66", "10.77.0.7", had.String()} {
			w.in <- takes(t, known, netip.MustParseAddr(wanted), netip.MustParseAddr("203.0.113.66")).ToBytes()
		}
		w.in <- message(t, known, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.IPv4(10, 77, 0, 254))).ToBytes()
		synctest.Wait()
		if len(w.out) != 0 {
			t.Errorf("it was answered: %v", <-w.out)
		}
		if a, ok := s.Address(known); !ok || a != had {
			t.Errorf("the machine's lease is gone: %v %v", a, ok)
		}
		if list := j.told(); len(list) != 1 {
			t.Errorf("told of leases: %v", list)
		}
		if r, err := s.Answer(message(t, other, dhcpv4.MessageTypeDiscover)); err == nil && r != nil {
			t.Errorf("another machine is offered %s, which the machine uses", r.YourIPAddr)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Who is heeded: machines without an address, those that renew by unicast, relays of the network; of those that a proxy was told
// of also where they send from an address on their way.
func TestWhoIsHeeded(t *testing.T) {
	relays := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	for _, c := range []struct {
		mode        Mode
		from, relay string
		want        bool
	}{
		{Serve, "0.0.0.0", "0.0.0.0", true}, {Serve, "10.77.0.100", "0.0.0.0", true}, {Serve, "10.77.0.254", "10.77.0.254", true},
		{Serve, "192.0.2.7", "0.0.0.0", false}, {Serve, "192.0.2.7", "10.77.0.254", false}, {Serve, "127.0.0.1", "0.0.0.0", false}, {Serve, "10.9.0.1", "10.9.0.1", false},
		{Proxy, "0.0.0.0", "0.0.0.0", true}, {Proxy, "10.77.0.100", "0.0.0.0", true}, {Proxy, "10.9.0.7", "0.0.0.0", true}, {Proxy, "10.9.0.1", "10.9.0.1", true},
		{Proxy, "192.0.2.7", "10.9.0.1", true}, {Proxy, "192.0.2.7", "10.77.0.254", false}, {Proxy, "192.0.2.7", "0.0.0.0", false},
	} {
		s := newServer(t, func(cfg *Config) { cfg.Mode, cfg.Relays = c.mode, relays })
		m := message(t, known, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.ParseIP(c.relay).To4()))
		if got := s.heeds(m, &net.UDPAddr{IP: net.ParseIP(c.from), Port: 68}); got != c.want {
			t.Errorf("%s, from %s, relay %s: %t, want %t", c.mode, c.from, c.relay, got, c.want)
		}
	}
}

// What a request says that another server gave ends no lease of ours: its machine is still known by it, and
// goes on with it. An address of another network, and another machine's, are not believed.
func TestAnotherServersAddressEndsNoLease(t *testing.T) {
	j := &journal{}
	s := newServer(t, func(c *Config) { c.Journal = j })
	had, others, server := leased(t, s, known), leased(t, s, other), netip.MustParseAddr("10.77.0.2")
	for _, wanted := range []string{"203.0.113.66", "10.77.0.0", "10.77.0.1", others.String()} {
		answer(t, s, takes(t, known, netip.MustParseAddr(wanted), server))
	}
	if list := j.told(); !slices.Equal(list, []netip.Addr{had, others}) {
		t.Errorf("told of leases: %v", list)
	}
	for i := range 20 {
		answer(t, s, takes(t, known, netip.AddrFrom4([4]byte{10, 77, 0, byte(20 + i)}), server))
	}
	answer(t, s, takes(t, known, had, server))
	for i := range 4 { // the range
		answer(t, s, takes(t, known, netip.AddrFrom4([4]byte{10, 77, 0, byte(100 + i)}), server))
	}
	if a, ok := s.Address(known); !ok || a != had {
		t.Errorf("the machine has %v, %t; it was given %v", a, ok, had)
	}
	if list := j.told(); list[len(list)-1] != had || !slices.Contains(list, netip.MustParseAddr("10.77.0.39")) {
		t.Errorf("told %v: want what was heard, and after it what the machine was given", list)
	}
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(had.AsSlice()))); r == nil || r.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("the machine renewed its address and got %v", r)
	}
	if r := answer(t, s, message(t, "52:54:00:00:00:03", dhcpv4.MessageTypeDiscover)); r == nil || addr(r.YourIPAddr) == had || addr(r.YourIPAddr) == others {
		t.Errorf("a third machine was offered %v", r)
	}
}

// A machine that does take another server's address while it has a lease here goes on with that.
func TestMachineThatTookAnotherServersAddress(t *testing.T) {
	theirs := netip.MustParseAddr("10.77.0.20")
	uses := dhcpv4.WithClientIP(theirs.AsSlice())
	remembers := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(theirs.AsSlice()))
	for name, order := range map[string][]dhcpv4.Modifier{"uses, then remembers": {uses, remembers}, "remembers, then uses": {remembers, uses}} {
		s := newServer(t, nil)
		leased(t, s, known)
		answer(t, s, takes(t, known, theirs, netip.MustParseAddr("10.77.0.2")))
		for _, how := range order {
			r := answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, how))
			if r == nil || r.MessageType() != dhcpv4.MessageTypeAck || addr(r.YourIPAddr) != theirs {
				t.Errorf("a machine that %s %s got %v", name, theirs, r)
			}
			if a, ok := s.Address(known); !ok || a != theirs {
				t.Errorf("it %s %s and is known by %v", name, theirs, a)
			}
		}
	}
}

// A proxy believes an address of the networks that it serves only.
func TestProxyBelievesItsOwnNetworks(t *testing.T) {
	j := &journal{}
	s := newServer(t, func(c *Config) {
		c.Mode, c.Journal, c.Relays = Proxy, j, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	})
	for _, wanted := range []string{"10.77.0.100", "203.0.113.66", "127.0.0.1", "10.9.1.1"} {
		answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(wanted).To4()))))
	}
	if a, ok := s.Address(known); !ok || a.String() != "10.77.0.100" || len(j.told()) != 1 {
		t.Errorf("told %v; the machine's address is now %v", j.told(), a)
	}
	relayed := netip.MustParseAddr("10.9.0.7")
	answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithGatewayIP(net.IPv4(10, 9, 0, 1)), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(relayed.AsSlice()))))
	if a, ok := s.Address(known); !ok || a != relayed {
		t.Errorf("behind a relay that was named the machine has %v, want %v", a, relayed)
	}
}

// other is another machine that is known.
const other = "52:54:00:00:00:02"

// A proxy answers relays of its own subnet and of those that it was told of: any other
// address would be one that a stranger has it send packets to.
func TestProxyAnswersItsOwnRelays(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Mode, c.Relays = Proxy, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")} })
	boots := pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")
	for relay, want := range map[string]bool{"0.0.0.0": true, "10.77.0.254": true, "10.9.0.1": true, "10.9.1.1": false, "192.0.2.7": false, "127.0.0.1": false, "255.255.255.255": false} {
		m := message(t, known, dhcpv4.MessageTypeDiscover, append(boots, dhcpv4.WithGatewayIP(net.ParseIP(relay).To4()))...)
		if r := answer(t, s, m); (r != nil) != want {
			t.Errorf("relay %s: answered %v, want %v", relay, r != nil, want)
		}
		if r, err := s.AnswerBoot(m); err != nil || (r != nil) != want {
			t.Errorf("relay %s at the boot port: answered %v, %v, want %v", relay, r != nil, err, want)
		}
	}
	for from, want := range map[string]bool{"10.77.0.100": true, "10.9.0.7": true, "192.0.2.7": false} {
		if got := s.near(&net.UDPAddr{IP: net.ParseIP(from), Port: 68}); got != want {
			t.Errorf("a sender at %s: %v, want %v", from, got, want)
		}
	}
}

// wideRange is a range of a whole rack row, kept in a file.
func wideRange(t testing.TB, now func() time.Time) Config {
	return Config{Mode: Serve, HTTP: "http://10.0.0.1:8080", From: netip.MustParseAddr("10.0.0.10"), To: netip.MustParseAddr("10.0.63.250"), Mask: net.CIDRMask(18, 32),
		LeaseTime: time.Hour, LeaseFile: filepath.Join(t.TempDir(), "leases"), ServerIP: netip.MustParseAddr("10.0.0.1"), Now: now,
		Directory: directory{}, Journal: directory{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// Leases of a clock that was years ahead end when leases do.
func TestLeasesOfAClockThatWasAhead(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := wideRange(t, func() time.Time { return now })
	c.To = netip.MustParseAddr("10.0.0.12")
	const ahead = 3 * 365 * 24 * time.Hour
	now = now.Add(ahead)
	p, err := openPool(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mac := fmt.Sprintf("52:54:00:00:00:%02x", i)
		a, err := p.offer(mac, netip.Addr{})
		if err != nil || p.take(mac, a, false) != granted {
			t.Fatalf("%s: %s, %v", mac, a, err)
		}
	}
	p.flush()
	now = now.Add(-ahead)
	if p, err = openPool(c); err != nil {
		t.Fatal(err)
	}
	if _, err := p.offer("52:54:00:00:00:aa", netip.Addr{}); err == nil {
		t.Error("the leases are forgotten")
	}
	now = now.Add(time.Hour + time.Second)
	if _, err := p.offer("52:54:00:00:00:aa", netip.Addr{}); err != nil {
		t.Errorf("after the time of a lease: %v", err)
	}
}

// An acknowledgement costs one line of the file, however many leases there are, and what was
// acknowledged is there after a crash: an end in the middle of a line costs that line.
func TestLeaseFileGrowsByLines(t *testing.T) {
	c := wideRange(t, time.Now)
	p, err := openPool(c)
	if err != nil {
		t.Fatal(err)
	}
	const machines = 2000
	had := map[string]netip.Addr{}
	for i := range machines {
		mac := fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255)
		a, err := p.offer(mac, netip.Addr{})
		if err != nil || p.take(mac, a, false) != granted {
			t.Fatalf("%s: %s, %v", mac, a, err)
		}
		had[mac] = a
		if i%100 == 0 {
			p.flush()
		}
	}
	p.flush()
	before := size(t, c.LeaseFile)
	p.take("52:54:00:00:00:00", had["52:54:00:00:00:00"], true)
	p.flush()
	if grown := size(t, c.LeaseFile) - before; grown <= 0 || grown > 200 {
		t.Errorf("one renewal among %d leases added %d bytes", machines, grown)
	}
	for range 3 * machines { // a stranger asks again and again
		p.take("52:54:00:00:00:00", had["52:54:00:00:00:00"], true)
		p.flush()
	}
	if now := size(t, c.LeaseFile); now > 4*before {
		t.Errorf("the file has %d bytes for %d leases, first it had %d", now, machines, before)
	}
	f, err := os.OpenFile(c.LeaseFile, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"mac":"52:54:00:00:ff:ff","addr`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if p, err = openPool(c); err != nil {
		t.Fatal(err)
	}
	for mac, a := range had {
		if got, ok := p.macOf(a); !ok || got != mac {
			t.Fatalf("after a crash %s is %q's, it was given to %s", a, got, mac)
		}
	}
	if _, err := os.Stat(c.LeaseFile + ".unreadable"); err == nil {
		t.Error("the whole file was set aside")
	}
}

// The file of an older rackd, one list, is read.
func TestLeaseFileOfAnOlderRackd(t *testing.T) {
	c := wideRange(t, time.Now)
	text := fmt.Sprintf(`[{"mac":%q,"address":"10.0.0.77","until":%q}]`, known, time.Now().Add(time.Minute).Format(time.RFC3339))
	if err := os.WriteFile(c.LeaseFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openPool(c)
	if err != nil {
		t.Fatal(err)
	}
	if mac, ok := p.macOf(netip.MustParseAddr("10.0.0.77")); !ok || mac != known {
		t.Errorf("the address is %q's", mac)
	}
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// What is acknowledged over the network is in the file by then.
func TestAcknowledgedIsWritten(t *testing.T) {
	c := wideRange(t, time.Now)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	conn := newWire()
	conn.from = &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ClientPort} // it has no address yet
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	conn.in <- message(t, known, dhcpv4.MessageTypeDiscover).ToBytes()
	offer, err := dhcpv4.FromBytes((<-conn.out).packet)
	if err != nil {
		t.Fatal(err)
	}
	conn.in <- message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))).ToBytes()
	<-conn.out
	again, err := openPool(c)
	if err != nil {
		t.Fatal(err)
	}
	if mac, ok := again.macOf(addr(offer.YourIPAddr)); !ok || mac != known {
		t.Errorf("acknowledged and not written: the address is %q's", mac)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What comes in a machine's name costs the log a few lines a minute. So does what strangers send.
func TestForgedRequestsCostFewLines(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"a machine that is known": func(*Config) {},
		"discovery":               func(c *Config) { c.Discovery, c.Directory = true, noMachines{} },
		"a range that is full":    func(c *Config) { c.To, c.Router = c.From, c.From },
	} {
		var log bytes.Buffer
		s := newServer(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)); change(c) })
		for i := range 1000 {
			mac, wanted := known, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IPv4(10, 1, byte(i>>8), byte(i))))
			if s.cfg.Discovery {
				mac = fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, byte(i))
			}
			for _, kind := range []dhcpv4.MessageType{dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeDecline} {
				m := message(t, mac, kind, wanted)
				if _, err := s.Answer(m); err != nil {
					s.failed(m, err)
				}
			}
		}
		if n := strings.Count(log.String(), "\n"); n == 0 || n > strangers.DefaultLines {
			t.Errorf("%s: 3000 packets made %d lines of log", name, n)
		}
	}
}

// noMachines is a directory without machines.
type noMachines struct{ directory }

func (noMachines) ByMAC(string) (netboot.Machine, bool) { return netboot.Machine{}, false }

// With discovery strangers have a part of the range: a machine that is enrolled finds an address, whatever they ask for. One that
// was enrolled meanwhile counts as a stranger no more.
func TestStrangersLeaveAddressesToMachines(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	kept := 0
	file := filepath.Join(t.TempDir(), "leases")
	var enrolled string
	config := func(c *Config) {
		c.To, c.Discovery, c.LeaseFile, c.Now = netip.MustParseAddr("10.77.0.107"), true, file, func() time.Time { return now } // eight
		c.Strangers = strangers.New(strangers.Budget{}, func(strangers.Part) { kept++ }, nil)
		c.Directory = enrolling{also: &enrolled}
	}
	s := newServer(t, config)
	stranger := func(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i) }
	for i := range 8 {
		at := address(s.cfg.From, uint32(i))
		ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(at.AsSlice()))
		s.Answer(message(t, stranger(i), dhcpv4.MessageTypeDiscover, ask))
		s.Answer(message(t, stranger(i), dhcpv4.MessageTypeRequest, ask))
		s.Answer(message(t, stranger(100+i), dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(at.AsSlice())))
		s.Answer(takes(t, stranger(50+i), at, netip.MustParseAddr("10.77.0.2")))
		s.Answer(takes(t, stranger(0), at, netip.MustParseAddr("10.77.0.2")))
		s.Answer(message(t, stranger(i), dhcpv4.MessageTypeDecline, ask))
	}
	s.pool.flush()
	for range 2 {
		if n := s.pool.theirs; n != 4 || kept == 0 {
			t.Errorf("strangers have %d of 8 addresses, and %d requests for more are counted", n, kept)
		}
		for i := range 4 {
			if got := leased(t, s, fmt.Sprintf("52:54:00:00:00:%02x", i)); !s.pool.givable(got) {
				t.Errorf("an enrolled machine got %s", got)
			}
		}
		s.pool.flush()
		s = newServer(t, config) // restarted
	}
	now = now.Add(2 * time.Hour)
	s.pool.flush() // all leases have ended
	enrolled = stranger(1)
	for i := range 5 {
		r, err := s.Answer(message(t, stranger(i), dhcpv4.MessageTypeDiscover))
		if err != nil || r == nil {
			t.Errorf("stranger %d of five, one of which is enrolled: %v", i, err)
		}
	}
	if _, err := s.Answer(message(t, stranger(6), dhcpv4.MessageTypeDiscover)); !errors.Is(err, errStrangersFull) {
		t.Errorf("a fifth stranger: %v", err)
	}
}

// With discovery strangers can make a proxy, and a server of IPv6, remember addresses of as many of them as they like: there is room
// for those of enrolled machines, whose boots would be held back else.
func TestStrangersLeaveRoomToRememberMachines(t *testing.T) {
	now := time.Now()
	proxy := newServer(t, func(c *Config) { c.Mode, c.Discovery, c.Now = Proxy, true, func() time.Time { return now } })
	six := newServer6(t, func(c *Config6) { c.Mode, c.Discovery, c.Now = Proxy, true, func() time.Time { return now } })
	flood := func(day byte) {
		for i := range maxRange + 1 {
			mac := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", day, i>>16, byte(i>>8), byte(i))
			for _, h := range []*heard{&proxy.heard, &six.auto, &six.others} {
				h.learn(mac, netboot.Machine{}, netip.MustParseAddr("10.77.0.50"), now)
			}
		}
	}
	flood(1)
	wanted, by := netip.MustParseAddr("10.77.0.60"), netip.MustParseAddr("10.77.0.2")
	answer(t, proxy, takes(t, known, wanted, by))
	answer6To(t, six, message6(dhcpv6.MessageTypeRequest, dhcpv6.WithServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{5}}), asks("fd00:77::201")), linkLocal6)
	if got, _ := proxy.Address(known); got != wanted {
		t.Errorf("a proxy knows the machine at %s", got)
	}
	if got := six.Addresses(known); len(got) != 2 {
		t.Errorf("by IPv6 it is known at %v", got)
	}
	for _, s := range []struct {
		macOf   func(net.IP) (string, bool)
		at, not string
	}{{proxy.MACOf, "10.77.0.60", "10.77.0.61"}, {six.MACOf, "fd00:77::201", "fd00:77::202"}} {
		if mac, ok := s.macOf(net.ParseIP(s.at)); !ok || mac != known {
			t.Errorf("at %s is %q", s.at, mac)
		}
		if mac, ok := s.macOf(net.ParseIP(s.not)); ok {
			t.Errorf("at %s, which nobody has asked for, is %s", s.not, mac)
		}
	}
	// The machine moves.
	answer(t, proxy, takes(t, known, netip.MustParseAddr("10.77.0.62"), by))
	if mac, ok := proxy.MACOf(net.ParseIP("10.77.0.60")); ok {
		t.Errorf("at the address that it had before is %s", mac)
	}
	// What they have said ends, and others find room.
	now = now.Add(heardFor + time.Second)
	if mac, ok := proxy.MACOf(net.ParseIP("10.77.0.62")); ok {
		t.Errorf("after a day without a word %s is still at its address", mac)
	}
	flood(2)
	if got := proxy.heard.at("02:00:02:00:00:07", now); !got.IsValid() {
		t.Error("strangers of yesterday keep the room of those of today")
	}
}

// enrolling is a directory of the machines that are known, and of another.
type enrolling struct {
	directory
	also *string
}

func (e enrolling) ByMAC(mac string) (netboot.Machine, bool) {
	if mac == *e.also {
		return netboot.Machine{UUID: "u"}, true
	}
	return e.directory.ByMAC(mac)
}
