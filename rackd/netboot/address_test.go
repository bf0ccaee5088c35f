package netboot_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// addressed is a rack with one machine, which knows it by the addresses that DHCP has given.
type addressed struct {
	t       *testing.T
	machine netboot.Machine
	dhcp    *dhcp.Server
	scripts *bootscript.Scripts
	url     string
	log     bytes.Buffer

	mu    sync.Mutex
	given []netip.Addr // as another rackd's DHCP may have, too
	told  []string
}

func (a *addressed) known() netboot.Machine {
	m := a.machine
	a.mu.Lock()
	m.Addresses = append(m.Addresses, a.given...)
	a.mu.Unlock()
	if at, ok := a.dhcp.Address(mac); ok {
		m.Addresses = append(m.Addresses, at)
	}
	m.Hears = a.dhcp.Hears()
	return m
}

func (a *addressed) ByMAC(m string) (netboot.Machine, bool)  { return a.known(), m == mac }
func (a *addressed) ByUUID(u string) (netboot.Machine, bool) { return a.known(), u == a.machine.UUID }
func (a *addressed) Seen(_, phase, _ string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, phase)
}

func (a *addressed) Leased(_ string, at netip.Addr, _, _ string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, "leased "+at.String())
}

// newAddressed serves the machine's scripts on loopback, all of whose addresses a test may call from.
func newAddressed(t *testing.T, mode dhcp.Mode) *addressed {
	dir := t.TempDir()
	for _, name := range []string{"k", "r", "undionly.kpxe"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootfiles.New(dir, bootfiles.Paths{Kernel: filepath.Join(dir, "k"), Ramdisk: filepath.Join(dir, "r")})
	if err != nil {
		t.Fatal(err)
	}
	a := &addressed{t: t, machine: ramdiskMachine}
	a.machine.BootID = "s3cret-id"
	log := slog.New(slog.NewTextHandler(&a.log, nil))
	if a.dhcp, err = dhcp.New(dhcp.Config{Mode: mode, ServerIP: netip.MustParseAddr("127.84.0.1"), From: netip.MustParseAddr("127.84.0.10"), To: netip.MustParseAddr("127.84.0.19"),
		Mask: net.CIDRMask(24, 32), HTTP: "http://127.84.0.1:8080", Directory: a, Journal: a, Log: log}); err != nil {
		t.Fatal(err)
	}
	a.scripts = &bootscript.Scripts{Directory: a, Journal: a, Log: log, Ramdisk: func(netboot.Machine) ipxescript.Ramdisk {
		return ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://127.84.0.1:8080", TFTP: "tftp://127.84.0.1"}, Kernel: "kernel", Initramfs: "ramdisk", Doors: []string{"https://127.84.0.1:6386"}}
	}}
	web := httptest.NewServer(bootweb.Handler(bootweb.Config{Journal: a, Files: files, Scripts: a.scripts, Log: log}))
	t.Cleanup(web.Close)
	a.url = web.URL
	return a
}

// get asks for the script from an address of its own.
func (a *addressed) get(from netip.Addr, query string) string {
	a.t.Helper()
	tr := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}).DialContext, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Get(a.url + "/boot/script?" + query)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.HasPrefix(body, []byte("#!ipxe\n")) {
		a.t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	return string(body)
}

// speak has the machine send a DHCP message.
func (a *addressed) speak(kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	a.t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		a.t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind)}, mods...)...)
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := a.dhcp.Answer(m)
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

func wants(at netip.Addr) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(at.AsSlice()))
}

// secrets reports whether a script tells anything of the node.
func (a *addressed) secrets(script string) bool {
	return strings.Contains(script, a.machine.BootID) || strings.Contains(script, a.machine.Name+" ") || strings.Contains(script, string(a.machine.State)) ||
		strings.Contains(script, "kernel http")
}

// A script is for the address that DHCP gave the machine: here, by another rackd, or, beside a proxy, by
// another server. Before any is known the machine is told to speak DHCP and to ask again.
func TestScriptIsForTheMachinesAddress(t *testing.T) {
	hers, stranger := netip.MustParseAddr("127.84.0.15"), netip.MustParseAddr("127.66.6.6")
	queries := []string{"mac=" + mac, "uuid=" + ramdiskMachine.UUID}
	for name, learn := range map[string]struct {
		mode dhcp.Mode
		by   func(a *addressed)
	}{
		"serve": {dhcp.Serve, func(a *addressed) {
			a.speak(dhcpv4.MessageTypeDiscover, wants(hers))
			if m := a.known(); len(m.Addresses) != 0 {
				t.Errorf("a mere offer counts: %v", m.Addresses)
			}
			a.speak(dhcpv4.MessageTypeRequest, wants(hers))
		}},
		"another rackd of the network": {dhcp.Serve, func(a *addressed) {
			a.speak(dhcpv4.MessageTypeRequest, wants(hers), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(127, 84, 0, 2))))
		}},
		"a proxy overhears": {dhcp.Proxy, func(a *addressed) { a.speak(dhcpv4.MessageTypeRequest, wants(hers)) }},
		"told by another rackd": {dhcp.Serve, func(a *addressed) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.given = []netip.Addr{hers}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAddressed(t, learn.mode)
			for _, q := range queries {
				for _, from := range []netip.Addr{hers, stranger} {
					if got := a.get(from, q); a.secrets(got) || !strings.Contains(got, "dhcp netX ||\nchain --replace http://127.84.0.1:8080/boot/script?") {
						t.Errorf("before an address is known, %s from %s:\n%s", q, from, got)
					}
				}
			}
			learn.by(a)
			for _, q := range queries {
				if got := a.get(hers, q); !strings.Contains(got, "ipa-api-url=https://127.84.0.1:6386/boot/s3cret-id ") {
					t.Errorf("%s from the machine's address:\n%s", q, got)
				}
				if got := a.get(stranger, q); a.secrets(got) || !strings.Contains(got, "not the address that DHCP gave") {
					t.Errorf("%s from another address:\n%s", q, got)
				}
			}
			for range 500 {
				a.get(stranger, queries[0])
			}
			if n := strings.Count(a.log.String(), "\n"); n > 50 {
				t.Errorf("500 refused requests made %d lines of log", n)
			}
		})
	}
}

// Without DHCP no address is judged; and a machine that boots its disk does so whatever is known of it.
func TestScriptWhereNoAddressIsKnown(t *testing.T) {
	stranger := netip.MustParseAddr("127.66.6.6")
	a := newAddressed(t, dhcp.Off)
	if got := a.get(stranger, "mac="+mac); !strings.Contains(got, "s3cret-id") {
		t.Errorf("with DHCP off:\n%s", got)
	}
	a = newAddressed(t, dhcp.Serve)
	a.machine.Order, a.machine.State = bootorder.LocalDisk(), "active"
	if got := a.get(stranger, "mac="+mac); !strings.Contains(got, "exit 1\n") || strings.Contains(got, a.machine.Name+" ") || strings.Contains(got, a.machine.UUID) {
		t.Errorf("a machine that boots its disk:\n%s", got)
	}
}

// What is asked of central comes from anybody: it is the way to the rack's own script and no more, unless it comes
// from the machine's address. It is no sign of the machine either.
func TestScriptForCentral(t *testing.T) {
	hers, stranger := netip.MustParseAddr("127.84.0.15"), netip.MustParseAddr("127.66.6.6")
	a := newAddressed(t, dhcp.Serve)
	a.speak(dhcpv4.MessageTypeRequest, wants(hers))
	a.told = nil
	for _, from := range []netip.Addr{stranger, {}} {
		byMAC, err := a.scripts.ForCentral(a.machine.UUID, mac, from)
		if err != nil || a.secrets(byMAC) || strings.Contains(byMAC, a.machine.UUID) || !strings.Contains(byMAC, "chain --replace http://127.84.0.1:8080/boot/script?mac=52%3A54") {
			t.Errorf("by MAC from %s: %v\n%s", from, err, byMAC)
		}
		byUUID, err := a.scripts.ForCentral(a.machine.UUID, "", from)
		if err != nil || a.secrets(byUUID) || !strings.Contains(byUUID, "/boot/script?uuid="+a.machine.UUID) {
			t.Errorf("by UUID from %s: %v\n%s", from, err, byUUID)
		}
	}
	if len(a.told) != 0 {
		t.Errorf("the journal was told %v of requests at central", a.told)
	}
	if got, err := a.scripts.ForCentral(a.machine.UUID, mac, hers); err != nil || !strings.Contains(got, "/boot/s3cret-id") {
		t.Errorf("from the machine's address: %v\n%s", err, got)
	}
}
