package dhcp

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

const self6 = "fd00:77::1"

var linkLocal6 = netip.MustParseAddr("fe80::5054:ff:fe00:1") // of known

func newServer6(t testing.TB, change func(*Config6)) *Server6 {
	c := Config6{Mode: Serve, ServerIP: netip.MustParseAddr(self6), HTTP: "http://[" + self6 + "]:8080", TFTP: "tftp://[" + self6 + "]",
		Subnets:   []Subnet{{Prefix: netip.MustParsePrefix("fd00:77::/64"), From: netip.MustParseAddr("fd00:77::100"), To: netip.MustParseAddr("fd00:77::103")}},
		Directory: directory{}, Journal: directory{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&c)
	}
	s, err := New6(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var uuidDUID = &dhcpv6.DUIDUUID{UUID: [16]byte{1, 2, 3}} // as firmware has: it tells no MAC address

func message6(kind dhcpv6.MessageType, mods ...dhcpv6.Modifier) *dhcpv6.Message {
	m := &dhcpv6.Message{MessageType: kind, TransactionID: dhcpv6.TransactionID{1, 2, 3}}
	for _, mod := range append([]dhcpv6.Modifier{dhcpv6.WithClientID(uuidDUID)}, mods...) {
		mod(m)
	}
	return m
}

func asks(addresses ...string) dhcpv6.Modifier {
	var list []dhcpv6.OptIAAddress
	for _, a := range addresses {
		list = append(list, dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a)})
	}
	return dhcpv6.WithIANA(list...)
}

// Answer is answer for tests, which look at the message alone.
func (s *Server6) Answer(m dhcpv6.DHCPv6, from netip.Addr) (dhcpv6.DHCPv6, error) {
	r, err := s.answer(m, from)
	if r == nil || err != nil {
		return nil, err
	}
	return r.DHCPv6, nil
}

func answer6To(t testing.TB, s *Server6, m dhcpv6.DHCPv6, from netip.Addr) *dhcpv6.Message {
	t.Helper()
	r, err := s.Answer(m, from)
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		return nil
	}
	again, err := dhcpv6.FromBytes(r.ToBytes())
	if err != nil {
		t.Fatalf("the answer is unreadable: %v", err)
	}
	inner, err := again.GetInnerMessage()
	if err != nil {
		t.Fatal(err)
	}
	return inner
}

// given is the address of a reply.
func given(t testing.TB, m *dhcpv6.Message) netip.Addr {
	t.Helper()
	if m == nil || m.Options.OneIANA() == nil || m.Options.OneIANA().Options.OneAddress() == nil {
		t.Fatalf("no address in %v", m)
	}
	o := m.Options.OneIANA().Options.OneAddress()
	a, _ := netip.AddrFromSlice(o.IPv6Addr)
	if o.ValidLifetime == 0 {
		return netip.Addr{}
	}
	return a
}

// lease6 has a machine take an address.
func lease6(t testing.TB, s *Server6, from netip.Addr) netip.Addr {
	t.Helper()
	adv := answer6To(t, s, message6(dhcpv6.MessageTypeSolicit, asks()), from)
	if adv == nil || adv.Type() != dhcpv6.MessageTypeAdvertise || adv.Options.Preference() != 255 {
		t.Fatalf("to a solicit: %v", adv)
	}
	at := given(t, adv)
	r := answer6To(t, s, message6(dhcpv6.MessageTypeRequest, dhcpv6.WithServerID(s.id), asks(at.String())), from)
	if given(t, r) != at || r.Type() != dhcpv6.MessageTypeReply {
		t.Fatalf("offered %s, to the request: %v", at, r)
	}
	return at
}

func pxe6(arch iana.Arch, class string) []dhcpv6.Modifier {
	return []dhcpv6.Modifier{dhcpv6.WithArchType(arch), dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte(class)}})}
}

func TestEachClientGetsItsBootURL(t *testing.T) {
	s := newServer6(t, nil)
	script := "http://[fd00:77::1]:8080/boot/script?mac=52%3A54%3A00%3A00%3A00%3A01"
	for _, c := range []struct {
		name string
		mods []dhcpv6.Modifier
		want string
	}{
		{"UEFI x64", pxe6(iana.EFI_X86_64, "PXEClient:Arch:00007:UNDI:003016"), "tftp://[fd00:77::1]/snponly.efi"},
		{"UEFI arm64", pxe6(iana.EFI_ARM64, "PXEClient:Arch:00011:UNDI:003016"), "tftp://[fd00:77::1]/snponly-arm64.efi"},
		{"UEFI HTTP", pxe6(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016:UNDI:003016"), "http://[fd00:77::1]:8080/files/snponly.efi"},
		{"iPXE", append(pxe6(iana.EFI_X86_64, "PXEClient:Arch:00007"), dhcpv6.WithUserClass([]byte("iPXE"))), script},
		{"a ramdisk's agent", []dhcpv6.Modifier{dhcpv6.WithOption(&dhcpv6.OptVendorClass{Data: [][]byte{[]byte("IronyardAgent")}})}, "http://[fd00:77::1]:8080/boot/parameters?mac=52%3A54%3A00%3A00%3A00%3A01"},
		{"32-bit UEFI", pxe6(iana.EFI_IA32, "PXEClient:Arch:00006"), ""},
		{"Linux", nil, ""},
	} {
		for _, kind := range []dhcpv6.MessageType{dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeInformationRequest} {
			r := answer6To(t, s, message6(kind, c.mods...), linkLocal6)
			if r == nil || r.Options.BootFileURL() != c.want {
				t.Errorf("%s, %s: %v, want %q", c.name, kind, r, c.want)
			}
			if http := r.Options.VendorClass(enterprisePXE); (len(http) == 1 && string(http[0]) == "HTTPClient") != (c.name == "UEFI HTTP") {
				t.Errorf("%s: vendor class %q", c.name, http)
			}
		}
	}
}

// Firmware of a machine that is to start the ramdisk as one program is named that of its architecture, by TLS where it loads by HTTP.
func TestFirmwareIsNamedItsProgramByIPv6(t *testing.T) {
	const tls = "https://[fd00:77::1]:8443"
	program := direct{order: bootorder.Ramdisk(bootorder.Load{})}
	for _, c := range []struct {
		name string
		of   netboot.Directory
		mods []dhcpv6.Modifier
		want string
	}{
		{"UEFI", program, pxe6(iana.EFI_X86_64, "PXEClient:Arch:00007"), "tftp://[fd00:77::1]/ramdisk.efi"},
		{"arm64", program, pxe6(iana.EFI_ARM64, "PXEClient:Arch:00011"), "tftp://[fd00:77::1]/ramdisk-arm64.efi"},
		{"HTTP", program, pxe6(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), tls + "/boot/program/52-54-00-00-00-01/ramdisk.efi"},
		{"HTTP of arm64", program, pxe6(iana.EFI_ARM64_HTTP, "HTTPClient:Arch:00019"), tls + "/boot/program/52-54-00-00-00-01/ramdisk-arm64.efi"},
		{"HTTP, by iPXE", directory{}, pxe6(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), tls + "/files/snponly.efi"},
	} {
		s := newServer6(t, func(cfg *Config6) {
			cfg.Directory, cfg.HTTPS, cfg.Serves = c.of, tls, func(string) bool { return true }
		})
		if r := answer6To(t, s, message6(dhcpv6.MessageTypeSolicit, c.mods...), linkLocal6); r == nil || r.Options.BootFileURL() != c.want {
			t.Errorf("%s: %v, want %q", c.name, r, c.want)
		}
	}
}

// The MAC address of a client comes from its relay, its link-local address, the link or its DUID.
func TestWhoAClientIs(t *testing.T) {
	hidden := netip.MustParseAddr("fe80::1234:5678:9abc:def0")
	duid := func(mac string) dhcpv6.Modifier {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		return dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: hw})
	}
	llt := dhcpv6.WithClientID(&dhcpv6.DUIDLLT{HWType: iana.HWTypeEthernet, Time: 1, LinkLayerAddr: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 7}})
	for _, c := range []struct {
		name      string
		from      netip.Addr
		mods      []dhcpv6.Modifier
		neighbour string
		want      string
	}{
		{"link-local address", linkLocal6, nil, "", known},
		{"before the DUID", linkLocal6, []dhcpv6.Modifier{duid("52:54:00:00:00:07")}, "", known},
		{"DUID-LL", hidden, []dhcpv6.Modifier{duid("52:54:00:00:00:07")}, "", "52:54:00:00:00:07"},
		{"DUID-LLT", hidden, []dhcpv6.Modifier{llt}, "", "52:54:00:00:00:07"},
		{"neighbour", hidden, nil, "52:54:00:00:00:08", "52:54:00:00:00:08"},
		{"a card that is no port, DUID of one that is", netip.MustParseAddr("fe80::ff:fe00:1"), []dhcpv6.Modifier{llt}, "", ""},
		{"the same, the card by its neighbours", hidden, []dhcpv6.Modifier{llt}, "02:00:00:00:00:01", ""},
		{"another port, DUID of the first", hidden, []dhcpv6.Modifier{llt}, "52:54:00:00:00:08", "52:54:00:00:00:08"},
		{"stranger", hidden, []dhcpv6.Modifier{duid("02:00:00:00:00:01")}, "02:00:00:00:00:01", ""},
		{"nothing tells", hidden, nil, "", ""},
	} {
		s := newServer6(t, func(cfg *Config6) {
			cfg.Neighbour = func(a netip.Addr) (string, bool) { return c.neighbour, c.neighbour != "" && a == hidden }
		})
		mods := append([]dhcpv6.Modifier{dhcpv6.WithClientID(uuidDUID)}, c.mods...)
		m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeSolicit}
		for _, mod := range append(mods[len(mods)-1:], asks()) {
			mod(m)
		}
		_, mac, ok := s.client(asked{Message: m, peer: c.from})
		if ok != (c.want != "") || mac != c.want {
			t.Errorf("%s: %q, want %q", c.name, mac, c.want)
		}
		if r := answer6To(t, s, m, c.from); (r != nil) != ok {
			t.Errorf("%s: answered with %v", c.name, r)
		}
	}
}

// A machine has one address for its firmware and for its ramdisk, and has it again after a restart of the server.
func TestLeaseLife6(t *testing.T) {
	now := time.Now()
	file := filepath.Join(t.TempDir(), "dhcp6-leases.json")
	j := &journal{}
	set := func(c *Config6) { c.Now, c.LeaseFile, c.Journal = func() time.Time { return now }, file, j }
	s := newServer6(t, set)
	at := lease6(t, s, linkLocal6)
	for _, p := range s.pools {
		p.flush()
	}
	if got := s.Addresses(known); len(got) != 2 || got[0] != at || got[1].String() != "fd00:77::5054:ff:fe00:1" {
		t.Errorf("the machine is known at %v", got)
	}
	for _, a := range s.Addresses(known) {
		if mac, ok := s.MACOf(a.AsSlice()); !ok || mac != known {
			t.Errorf("%s is %q's", a, mac)
		}
	}
	if told := j.told(); len(told) != 2 || told[1] != at {
		t.Errorf("the journal was told %v", told)
	}
	again := newServer6(t, set)
	adv := message6(dhcpv6.MessageTypeSolicit, asks())
	adv.UpdateOption(dhcpv6.OptClientID(&dhcpv6.DUIDUUID{UUID: [16]byte{9}}))
	if got := given(t, answer6To(t, again, adv, linkLocal6)); got != at {
		t.Errorf("after a restart, to another DUID: %s, before %s", got, at)
	}
	for _, kind := range []dhcpv6.MessageType{dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind} {
		m := message6(kind, asks(at.String()))
		if kind == dhcpv6.MessageTypeRenew {
			m.AddOption(dhcpv6.OptServerID(s.id))
		}
		if got := given(t, answer6To(t, again, m, linkLocal6)); got != at {
			t.Errorf("%s: %s", kind, got)
		}
		wrong := message6(kind, asks("fd00:99::5"))
		if kind == dhcpv6.MessageTypeRenew {
			wrong.AddOption(dhcpv6.OptServerID(s.id))
		}
		if got := given(t, answer6To(t, again, wrong, linkLocal6)); got.IsValid() {
			t.Errorf("%s of another network's address: %s", kind, got)
		}
	}
	// Nothing that a stranger can say takes it away.
	for _, kind := range []dhcpv6.MessageType{dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline} {
		r := answer6To(t, again, message6(kind, dhcpv6.WithServerID(s.id), asks(at.String())), linkLocal6)
		if r == nil || r.Options.Status() == nil || r.Options.Status().StatusCode != iana.StatusSuccess {
			t.Errorf("%s: %v", kind, r)
		}
		if kind == dhcpv6.MessageTypeRelease {
			if mac, ok := again.MACOf(at.AsSlice()); !ok || mac != known {
				t.Errorf("after a release it is %q's", mac)
			}
		}
	}
	if got := given(t, answer6To(t, again, message6(dhcpv6.MessageTypeSolicit, asks()), linkLocal6)); got == at {
		t.Error("the address that was declined is offered again")
	}
}

func TestRapidCommitAndConfirm(t *testing.T) {
	s := newServer6(t, nil)
	r := answer6To(t, s, message6(dhcpv6.MessageTypeSolicit, asks(), dhcpv6.WithRapidCommit), linkLocal6)
	at := given(t, r)
	if r.Type() != dhcpv6.MessageTypeReply || r.GetOneOption(dhcpv6.OptionRapidCommit) == nil || s.Addresses(known)[0] != at {
		t.Errorf("rapid commit: %v", r)
	}
	for a, want := range map[string]iana.StatusCode{at.String(): iana.StatusSuccess, "fd00:99::1": iana.StatusNotOnLink} {
		if r := answer6To(t, s, message6(dhcpv6.MessageTypeConfirm, asks(a)), linkLocal6); r == nil || r.Options.Status().StatusCode != want {
			t.Errorf("confirm %s: %v", a, r)
		}
	}
	if r := answer6To(t, s, message6(dhcpv6.MessageTypeConfirm, asks()), linkLocal6); r != nil {
		t.Errorf("confirm of nothing: %v", r)
	}
	// Of two identity associations one has the address.
	m := message6(dhcpv6.MessageTypeSolicit, asks())
	m.AddOption(&dhcpv6.OptIANA{IaId: [4]byte{7}})
	list := answer6To(t, s, m, linkLocal6).Options.IANA()
	if len(list) != 2 || list[0].Options.OneAddress() == nil || list[1].Options.Status().StatusCode != iana.StatusNoAddrsAvail {
		t.Errorf("two associations: %v", list)
	}
}

// Messages that name a server which they should not, or none where they should, or another, get no answer. What a
// machine takes of another server is remembered, and given to no other machine.
func TestOtherServers6(t *testing.T) {
	s := newServer6(t, nil)
	other := dhcpv6.WithServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{5}})
	for name, m := range map[string]*dhcpv6.Message{
		"solicit":     message6(dhcpv6.MessageTypeSolicit, other, asks()),
		"rebind":      message6(dhcpv6.MessageTypeRebind, dhcpv6.WithServerID(s.id), asks("fd00:77::100")),
		"renew":       message6(dhcpv6.MessageTypeRenew, asks("fd00:77::100")),
		"request":     message6(dhcpv6.MessageTypeRequest, other, asks("fd00:77::101")),
		"information": message6(dhcpv6.MessageTypeInformationRequest, other),
		"a reply":     message6(dhcpv6.MessageTypeReply, asks()),
	} {
		if r := answer6To(t, s, m, linkLocal6); r != nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	if got := s.Addresses(known); len(got) == 0 || got[0].String() != "fd00:77::101" {
		t.Errorf("the machine has %v", got)
	}
	if got := lease6(t, s, netip.MustParseAddr("fe80::5054:ff:fe00:2")); got.String() == "fd00:77::101" {
		t.Error("another machine was given it")
	}
	// One that another server gave, which does not answer any more, it keeps.
	if got := given(t, answer6To(t, s, message6(dhcpv6.MessageTypeRebind, asks("fd00:77::5000")), linkLocal6)); got.String() != "fd00:77::5000" {
		t.Errorf("the machine rebinds %s", got)
	}
	proxy := newServer6(t, func(c *Config6) { c.Mode = Proxy })
	answer6To(t, proxy, message6(dhcpv6.MessageTypeRequest, other, asks("fd00:77::201")), linkLocal6)
	answer6To(t, proxy, message6(dhcpv6.MessageTypeRequest, other, asks("fd00:99::201")), linkLocal6)
	if got := proxy.Addresses(known); len(got) != 2 || got[0].String() != "fd00:77::201" {
		t.Errorf("a proxy knows it at %v", got)
	}
	if r := answer6To(t, proxy, message6(dhcpv6.MessageTypeSolicit, asks()), linkLocal6); r != nil {
		t.Errorf("a proxy offers: %v", r)
	}
}

// Relays of networks that are served are answered: switches, whose network is the server's own, and routers of networks
// with a range. The answer goes back the same way.
func TestRelays6(t *testing.T) {
	s := newServer6(t, func(c *Config6) {
		c.Subnets = append(c.Subnets, Subnet{Prefix: netip.MustParsePrefix("fd00:88::/64"), From: netip.MustParseAddr("fd00:88::10"), To: netip.MustParseAddr("fd00:88::1f")})
	})
	relay := func(m dhcpv6.DHCPv6, link, peer string) *dhcpv6.RelayMessage {
		r, err := dhcpv6.EncapsulateRelay(m, dhcpv6.MessageTypeRelayForward, net.ParseIP(link), net.ParseIP(peer))
		if err != nil {
			t.Fatal(err)
		}
		r.AddOption(dhcpv6.OptInterfaceID([]byte("port 7")))
		return r
	}
	solicit := message6(dhcpv6.MessageTypeSolicit, asks())
	router := relay(solicit, "fd00:88::1", "fe80::1")
	router.AddOption(dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 5}))
	for name, c := range map[string]struct {
		m       *dhcpv6.RelayMessage
		from    string
		in, mac string // empty: no answer
	}{
		"a switch":                          {relay(solicit, "::", "fe80::5054:ff:fe00:1"), "fe80::1", "fd00:77::/64", known},
		"a router that tells the MAC":       {router, "fd00:55::1", "fd00:88::/64", "52:54:00:00:00:05"},
		"a switch behind a router":          {relay(relay(solicit, "::", "fe80::5054:ff:fe00:6"), "fd00:88::1", "fe80::5054:ff:fe00:6"), "fd00:88::1", "fd00:88::/64", "52:54:00:00:00:06"},
		"a router of another network":       {relay(solicit, "fd00:99::1", "fe80::5054:ff:fe00:1"), "fd00:77::9", "", ""},
		"own network, from another network": {relay(solicit, "fd00:77::9", "fe80::5054:ff:fe00:1"), "fd00:55::1", "", ""},
	} {
		from := netip.MustParseAddr(c.from)
		if !s.heeds(c.m, from) {
			if c.in != "" {
				t.Errorf("%s: not heeded", name)
			}
			continue
		}
		r, err := s.Answer(c.m, from)
		if err != nil || (r == nil) != (c.in == "") {
			t.Errorf("%s: %v, %v", name, r, err)
			continue
		}
		if r == nil {
			continue
		}
		out, is := r.(*dhcpv6.RelayMessage)
		if !is || out.Type() != dhcpv6.MessageTypeRelayReply || !out.LinkAddr.Equal(c.m.LinkAddr) || !out.PeerAddr.Equal(c.m.PeerAddr) || string(out.Options.InterfaceID()) != "port 7" || out.HopCount != c.m.HopCount {
			t.Errorf("%s: the way back is %v", name, r)
		}
		inner, err := r.GetInnerMessage()
		if err != nil {
			t.Fatal(err)
		}
		at := given(t, inner)
		if !netip.MustParsePrefix(c.in).Contains(at) {
			t.Errorf("%s: %s", name, at)
		}
	}
	// A host that sends straight from an address that a router passes on is not heeded.
	if s.heeds(solicit, netip.MustParseAddr("fd00:77::50")) {
		t.Error("a host that does not send from its link is heeded")
	}
	deep := dhcpv6.DHCPv6(solicit)
	for range maxHops + 1 {
		deep = relay(deep, "::", "fe80::5054:ff:fe00:1")
	}
	if r, err := s.Answer(deep, linkLocal6); r != nil || err != nil {
		t.Errorf("through %d relays: %v, %v", maxHops+1, r, err)
	}
}

// Strangers get nothing, and with discovery their part of the range.
func TestStrangers6(t *testing.T) {
	stranger := func(n byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: 0, 11: 0xff, 12: 0xfe, 15: n})
	}
	if r := answer6To(t, newServer6(t, nil), message6(dhcpv6.MessageTypeSolicit, asks()), stranger(1)); r != nil {
		t.Errorf("a stranger was answered: %v", r)
	}
	s := newServer6(t, func(c *Config6) { c.Discovery = true })
	lease6(t, s, stranger(1))
	lease6(t, s, stranger(2))
	if r := answer6To(t, s, message6(dhcpv6.MessageTypeSolicit, asks()), stranger(3)); r != nil {
		t.Errorf("a third stranger got %v of four addresses", r)
	}
	lease6(t, s, linkLocal6)
}

// Packets that are not answered take no room from answers that wait for the disk; what was overheard is made to last.
func TestSilenceTakesNoAnswersPlace(t *testing.T) {
	s := newServer6(t, func(c *Config6) { c.LeaseFile = filepath.Join(t.TempDir(), "dhcp6-leases.json") })
	waiting, peer := make(chan outgoing, 2), &net.UDPAddr{IP: linkLocal6.AsSlice(), Port: dhcpv6.DefaultClientPort}
	other := dhcpv6.WithServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{5}})
	for range 3 {
		s.take(message6(dhcpv6.MessageTypeSolicit, other, asks()).ToBytes(), peer, waiting)
	}
	s.take(message6(dhcpv6.MessageTypeSolicit, asks()).ToBytes(), peer, waiting)
	if len(waiting) != 1 || (<-waiting).packet == nil {
		t.Error("packets without an answer wait in the place of answers")
	}
	s.take(message6(dhcpv6.MessageTypeRequest, other, asks("fd00:77::101")).ToBytes(), peer, waiting)
	if len(waiting) != 1 || (<-waiting).packet != nil {
		t.Error("what was overheard does not wait for the disk")
	}
}

func TestConfig6(t *testing.T) {
	base := Config6{Mode: Serve, ServerIP: netip.MustParseAddr(self6), HTTP: "h", TFTP: "t", Subnets: []Subnet{Subnet6(netip.MustParseAddr(self6), 64)}, Log: slog.New(slog.DiscardHandler)}
	if _, err := New6(base); err != nil {
		t.Errorf("the range that follows from the address: %v", err)
	}
	if a, b := Subnet6(netip.MustParseAddr("fd00:77::1"), 64), Subnet6(netip.MustParseAddr("fd00:77::2"), 64); a.Prefix != b.Prefix || a.From == b.From {
		t.Errorf("two rackds have %v and %v", a, b)
	}
	for want, change := range map[string]func(*Config6){
		"mode":         func(c *Config6) { c.Mode = "x" },
		"IPv6 address": func(c *Config6) { c.ServerIP = netip.MustParseAddr("10.0.0.1") },
		"its first":    func(c *Config6) { c.ServerIP = netip.MustParseAddr("fd00:99::1") },
		"overlap":      func(c *Config6) { c.Subnets = append(c.Subnets, c.Subnets[0]) },
		"at most":      func(c *Config6) { c.Subnets[0].To = c.Subnets[0].To.Next() },
		"range of IPv6": func(c *Config6) {
			c.Subnets[0].From, c.Subnets[0].To = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		},
		"is not inside": func(c *Config6) {
			c.Subnets[0].From, c.Subnets[0].To = netip.MustParseAddr("fd00:99::1"), netip.MustParseAddr("fd00:99::2")
		},
	} {
		c := base
		c.Subnets = append([]Subnet{}, base.Subnets...)
		change(&c)
		if _, err := New6(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// machines6 has a machine with another order for each address.
type machines6 struct {
	directory
	m netboot.Machine
}

func (d machines6) ByMAC(string) (netboot.Machine, bool) { return d.m, true }

// FuzzAnswer6 has the server take packets of strangers, with discovery on.
func FuzzAnswer6(f *testing.F) {
	for _, m := range []dhcpv6.DHCPv6{
		message6(dhcpv6.MessageTypeSolicit, append(pxe6(iana.EFI_X86_64, "PXEClient:Arch:00007"), asks("fd00:77::100"), dhcpv6.WithRapidCommit)...),
		message6(dhcpv6.MessageTypeInformationRequest, dhcpv6.WithUserClass([]byte("iPXE"))),
		message6(dhcpv6.MessageTypeRebind, asks("fd00:77::100", "fd00:99::1")),
	} {
		f.Add(m.ToBytes())
		if r, err := dhcpv6.EncapsulateRelay(m, dhcpv6.MessageTypeRelayForward, net.ParseIP("fd00:77::9"), net.ParseIP("fe80::5054:ff:fe00:1")); err == nil {
			f.Add(r.ToBytes())
		}
	}
	s := newServer6(f, func(c *Config6) { c.Discovery, c.Directory = true, machines6{} })
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := dhcpv6.FromBytes(packet)
		if err != nil || !s.heeds(m, linkLocal6) {
			return
		}
		r, err := s.Answer(m, linkLocal6)
		if err != nil || r == nil {
			return
		}
		if _, err := dhcpv6.FromBytes(r.ToBytes()); err != nil {
			t.Errorf("%x is answered with what cannot be read: %v", packet, err)
		}
		var here int
		has := map[string]int{} // by machine, what it has or has had of other servers
		for at, l := range s.pools[0].byAddr {
			if s.pools[0].givable(at) {
				here++
			} else if has[l.MAC]++; has[l.MAC] > 1+mostAside {
				t.Errorf("%s has %d addresses of other servers", l.MAC, has[l.MAC])
			}
		}
		if here > 4 {
			t.Errorf("%d addresses of four are taken", here)
		}
	})
}

// A stranger declines, in a machine's name, one address of the network after the other, which it has said to use or to be given by
// another server. That costs a few leases, and the machine has its address.
func TestDeclinesOfOtherServersAddresses(t *testing.T) {
	s := newServer6(t, func(c *Config6) { c.Directory = machines6{} })
	forge := func(i int, kinds ...dhcpv6.MessageType) {
		for _, kind := range kinds {
			m := message6(kind, asks(fmt.Sprintf("fd00:77::1:%x", i)))
			switch kind {
			case dhcpv6.MessageTypeDecline:
				m.AddOption(dhcpv6.OptServerID(s.id))
			case dhcpv6.MessageTypeRenew:
				m.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{9}}))
			}
			if _, err := s.Answer(m, linkLocal6); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 200 {
		forge(1+i, dhcpv6.MessageTypeRebind, dhcpv6.MessageTypeDecline)
	}
	for i := range 200 {
		forge(201+i, dhcpv6.MessageTypeRenew)
	}
	p := s.pools[0]
	if n := p.taken(); n > 8 || len(p.aside) > 1 {
		t.Errorf("%d addresses are taken, of %d machines some are set aside", n, len(p.aside))
	}
	r, err := s.Answer(message6(dhcpv6.MessageTypeSolicit, asks("fd00:77::100"), dhcpv6.WithRapidCommit), linkLocal6)
	if err != nil || r == nil || r.Type() != dhcpv6.MessageTypeReply {
		t.Errorf("the machine is answered %v, %v", r, err)
	}
	for a := range p.byAddr {
		p.drop(a)
	}
	if len(p.aside) != 0 || len(p.byMAC) != 0 {
		t.Errorf("when all is forgotten, %v and %v are left", p.aside, p.byMAC)
	}
}
