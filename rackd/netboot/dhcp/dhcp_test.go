package dhcp

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

const known = "52:54:00:00:00:01"

type directory struct{}

func (directory) ByMAC(mac string) (netboot.Machine, bool) {
	return netboot.Machine{UUID: "u", Order: bootorder.Order{OverTFTP: strings.HasSuffix(mac, "ff")}}, strings.HasPrefix(mac, "52:54:00")
}
func (directory) ByUUID(string) (netboot.Machine, bool)     { return netboot.Machine{}, false }
func (directory) Seen(string, string, string)               {}
func (directory) Leased(string, netip.Addr, string, string) {}

func newServer(t testing.TB, change func(*Config)) *Server {
	c := Config{Mode: Serve, ServerIP: netip.MustParseAddr("10.77.0.1"), From: netip.MustParseAddr("10.77.0.100"),
		To: netip.MustParseAddr("10.77.0.103"), Mask: net.CIDRMask(24, 32), HTTP: "http://10.77.0.1:8080",
		Directory: directory{}, Journal: directory{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func message(t testing.TB, mac string, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind)}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answer(t testing.TB, s *Server, m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	r, err := s.Answer(m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pxe(arch iana.Arch, vendor string) []dhcpv4.Modifier {
	return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(vendor)), dhcpv4.WithOption(dhcpv4.OptClientArch(arch))}
}

func TestEachClientGetsItsBootProgram(t *testing.T) {
	s := newServer(t, nil)
	script := "http://10.77.0.1:8080/boot/script?mac=52%3A54%3A00%3A00%3A00%3A01"
	for _, c := range []struct {
		name string
		mods []dhcpv4.Modifier
		want string
	}{
		{"BIOS", pxe(iana.INTEL_X86PC, "PXEClient:Arch:00000"), "undionly.kpxe"},
		{"UEFI x64", pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), "snponly.efi"},
		{"UEFI BC", pxe(iana.EFI_BC, "PXEClient:Arch:00009"), "snponly.efi"},
		{"UEFI arm64", pxe(iana.EFI_ARM64, "PXEClient:Arch:00011"), "snponly-arm64.efi"},
		{"UEFI HTTP", pxe(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), "http://10.77.0.1:8080/files/snponly.efi"},
		{"iPXE", append(pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), dhcpv4.WithUserClass("iPXE", false)), script},
		{"iPXE, RFC 3004", append(pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), dhcpv4.WithUserClass("iPXE", true)), script},
		{"Linux", nil, ""},
	} {
		r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, c.mods...))
		if r == nil || r.BootFileNameOption() != c.want {
			t.Errorf("%s: boot file %q, want %q", c.name, r.BootFileNameOption(), c.want)
		}
	}
}

func TestMachineThatBootsOverTFTPGetsItsScriptThatWay(t *testing.T) {
	m := message(t, "52:54:00:00:00:ff", dhcpv4.MessageTypeDiscover, dhcpv4.WithUserClass("iPXE", false))
	s := newServer(t, func(c *Config) { c.TFTP = "tftp://10.77.0.1" })
	if got, want := answer(t, s, m).BootFileNameOption(), "tftp://10.77.0.1/boot/script/52-54-00-00-00-ff"; got != want {
		t.Errorf("boot file %q, want %q", got, want)
	}
}

func TestLeaseLife(t *testing.T) {
	now := time.Now()
	file := filepath.Join(t.TempDir(), "leases.json")
	set := func(c *Config) { c.Now = func() time.Time { return now }; c.LeaseFile = file }
	s := newServer(t, set)
	offer := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover))
	ask := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))
	ack := answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, ask))
	if ack.MessageType() != dhcpv4.MessageTypeAck || !ack.YourIPAddr.Equal(offer.YourIPAddr) || ack.IPAddressLeaseTime(0) != time.Hour {
		t.Fatalf("reply to the request: %s", ack.Summary())
	}
	if mac, ok := s.MACOf(ack.YourIPAddr); !ok || mac != known {
		t.Errorf("MACOf = %q", mac)
	}
	again := newServer(t, set) // restarted
	if r := answer(t, again, message(t, known, dhcpv4.MessageTypeDiscover)); !r.YourIPAddr.Equal(ack.YourIPAddr) {
		t.Errorf("after a restart %s, before %s", r.YourIPAddr, ack.YourIPAddr)
	}
	wrong := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IPv4(10, 78, 0, 9)))
	if r := answer(t, again, message(t, known, dhcpv4.MessageTypeRequest, wrong)); r.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("request for a foreign address: %s", r.Summary())
	}
	other := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 77, 0, 2)))
	if r := answer(t, again, message(t, known, dhcpv4.MessageTypeRequest, ask, other)); r != nil {
		t.Errorf("answered a client that took another server's offer: %s", r.Summary())
	}
	if r := answer(t, again, message(t, known, dhcpv4.MessageTypeDecline, ask)); r != nil {
		t.Error("a decline got an answer")
	}
	if r := answer(t, again, message(t, known, dhcpv4.MessageTypeDiscover)); r.YourIPAddr.Equal(ack.YourIPAddr) {
		t.Error("a declined address was offered again")
	}
}

func TestRangeRunsOutAndExpires(t *testing.T) {
	now := time.Now()
	s := newServer(t, func(c *Config) { c.Now = func() time.Time { return now } })
	seen := map[string]bool{}
	for i := range 4 {
		r := answer(t, s, message(t, "52:54:00:00:01:0"+string(rune('0'+i)), dhcpv4.MessageTypeDiscover))
		seen[r.YourIPAddr.String()] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 machines got %d addresses", len(seen))
	}
	if _, err := s.Answer(message(t, "52:54:00:00:02:00", dhcpv4.MessageTypeDiscover)); err == nil {
		t.Error("a fifth machine got an address out of four")
	}
	now = now.Add(2 * time.Minute)
	answer(t, s, message(t, "52:54:00:00:02:00", dhcpv4.MessageTypeDiscover))
}

func TestStrangersGetNothing(t *testing.T) {
	stranger := "00:11:22:33:44:55"
	if r := answer(t, newServer(t, nil), message(t, stranger, dhcpv4.MessageTypeDiscover)); r != nil {
		t.Errorf("a stranger got %s", r.Summary())
	}
	if r := answer(t, newServer(t, func(c *Config) { c.Discovery = true }), message(t, stranger, dhcpv4.MessageTypeDiscover)); r == nil {
		t.Error("discovery is on and a stranger got nothing")
	}
	if r := answer(t, newServer(t, func(c *Config) { c.Mode = Off }), message(t, known, dhcpv4.MessageTypeDiscover)); r != nil {
		t.Error("a server that is off answered")
	}
}

func TestProxyGivesNoAddress(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Mode = Proxy })
	r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")...))
	if r == nil || !r.YourIPAddr.IsUnspecified() || r.BootFileNameOption() != "snponly.efi" || r.ClassIdentifier() != "PXEClient" {
		t.Errorf("proxy reply: %v", r)
	}
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover)); r != nil {
		t.Error("the proxy answered a client that does not boot")
	}
}

func TestRelay(t *testing.T) {
	s := newServer(t, nil)
	m := message(t, known, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.IPv4(10, 77, 0, 254)),
		dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(1), []byte("port7")))))
	r := answer(t, s, m)
	if got := destination(m, r).String(); got != "10.77.0.254:67" {
		t.Errorf("reply goes to %s, want the relay", got)
	}
	if !r.Options.Has(dhcpv4.OptionRelayAgentInformation) {
		t.Error("option 82 is not echoed")
	}
	m.GatewayIPAddr = net.IPv4(10, 9, 0, 1)
	if r := answer(t, s, m); r != nil {
		t.Errorf("a machine behind a relay of another subnet was given %s", r.YourIPAddr)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(message(f, known, dhcpv4.MessageTypeDiscover, pxe(iana.EFI_X86_64, "PXEClient")...).ToBytes(), false)
	f.Add(message(f, known, dhcpv4.MessageTypeRequest).ToBytes(), true)
	f.Fuzz(func(t *testing.T, packet []byte, proxy bool) {
		m, err := dhcpv4.FromBytes(packet)
		if err != nil {
			return
		}
		s := newServer(t, func(c *Config) {
			if proxy {
				c.Mode = Proxy
			}
		})
		if b, err := s.AnswerBoot(m); err == nil && b != nil && !b.YourIPAddr.IsUnspecified() {
			t.Errorf("the boot server gave %s", b.YourIPAddr)
		}
		r, err := s.Answer(m)
		if err != nil || r == nil {
			return
		}
		if a, ok := netip.AddrFromSlice(r.YourIPAddr.To4()); ok && !a.IsUnspecified() && !s.pool.givable(a) && (!r.YourIPAddr.Equal(m.ClientIPAddr) || !s.pool.usable(a)) {
			t.Errorf("gave %s, which is outside of the range and not in use", a)
		}
		if _, err := dhcpv4.FromBytes(r.ToBytes()); err != nil {
			t.Errorf("reply cannot be read: %v", err)
		}
	})
}
