package bootweb

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/strangers"
)

const (
	mac = "52:54:00:00:00:01"
	id  = "11111111-1111-4111-8111-11111111111a"
)

// rack knows one machine and keeps a journal.
type rack struct {
	machine netboot.Machine
	mu      sync.Mutex
	seen    []string
}

func (r *rack) ByMAC(m string) (netboot.Machine, bool)                { return r.machine, m == mac }
func (r *rack) ByUUID(u string) (netboot.Machine, bool)               { return r.machine, u == id }
func (r *rack) Leased(mac string, _ netip.Addr, phase, detail string) { r.Seen(mac, phase, detail) }
func (r *rack) Seen(mac, phase, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, mac+" "+phase)
}

func newRack(t testing.TB, change func(*Config)) (*rack, http.Handler) {
	dir := t.TempDir()
	for _, name := range []string{"k", "r", "snponly.efi"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("content of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootfiles.New(dir, bootfiles.Paths{Kernel: filepath.Join(dir, "k"), Ramdisk: filepath.Join(dir, "r")})
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{machine: netboot.Machine{UUID: id, Name: "m1", State: "wait call-back", Group: "racks", Order: bootorder.Ramdisk(bootorder.Load{}), BootMode: "uefi"}}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	c := Config{Journal: r, Files: files, Log: log, Scripts: &bootscript.Scripts{Directory: r, Journal: r, Log: log, Group: "strangers",
		Ramdisk: func(m netboot.Machine) ipxescript.Ramdisk {
			return ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://h", TFTP: "tftp://h"}, Kernel: "kernel", Initramfs: "ramdisk", Params: []string{"group=" + m.Group}}
		}}}
	if change != nil {
		change(&c)
	}
	return r, Handler(c)
}

func ask(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func TestScript(t *testing.T) {
	r, h := newRack(t, nil)
	for _, c := range []struct {
		target string
		status int
		has    string
	}{
		{"/boot/script?mac=" + mac, 200, "kernel http://h/files/kernel"},
		{"/boot/script?mac=" + mac, 200, "group=racks"},
		{"/boot/script?mac=52-54-00-00-00-01", 200, "BOOTIF=01-52-54-00-00-00-01"},
		{"/boot/script?mac=52%3A54%3A00%3A00%3A00%3A01", 200, "#!ipxe"},
		{"/boot/script?uuid=" + id, 200, "${netX/mac:hexhyp}"},
		{"/boot/script?uuid=" + strings.ToUpper(id), 200, "#!ipxe"},
		{"/boot/script?mac=00:11:22:33:44:55", 200, "Reason: the address 00:11:22:33:44:55 is of no node"},
		{"/boot/script?uuid=22222222-1111-4111-8111-111111111111", 200, "Reason: the UUID 22222222-1111-4111-8111-111111111111 is of no node"},
		{"/boot/script", 400, "?mac="},
		{"/boot/script?mac=x", 400, "?mac="},
		{"/boot/script?mac=00:11:22:33:44:55:66:77", 400, "?mac="},
		{"/boot/script?uuid=../../etc", 400, "?uuid="},
	} {
		if w := ask(h, "GET", c.target); w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: %d %q, want %d and %q", c.target, w.Code, w.Body, c.status, c.has)
		}
	}
	if len(r.seen) == 0 || r.seen[0] != mac+" script" {
		t.Errorf("journal: %q", r.seen)
	}
	if w := ask(h, "POST", "/boot/script?mac="+mac); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if got := ask(h, "GET", "/boot/script?mac="+mac).Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("a script may be cached: %q", got)
	}
}

// The script follows the node's state from one request to the next.
func TestScriptIsMadeForEachRequest(t *testing.T) {
	r, h := newRack(t, nil)
	for want, order := range map[string]bootorder.Order{"initrd": bootorder.Ramdisk(bootorder.Load{}), "boots from its disk": bootorder.LocalDisk(), "Reason: because": bootorder.Refuse("because")} {
		r.machine.Order = order
		if w := ask(h, "GET", "/boot/script?mac="+mac); !strings.Contains(w.Body.String(), want) {
			t.Errorf("order %s: no %q in %q", order.Name, want, w.Body)
		}
	}
}

func TestDiscoveryGivesStrangersTheRamdisk(t *testing.T) {
	_, h := newRack(t, func(c *Config) { c.Scripts.Discovery = true })
	w := ask(h, "GET", "/boot/script?mac=00:11:22:33:44:55")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "an unknown machine boots the ramdisk") || !strings.Contains(w.Body.String(), "group=strangers") || strings.Contains(w.Body.String(), "ironyard-node") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/boot/script?uuid=22222222-1111-4111-8111-111111111111"); !strings.Contains(w.Body.String(), "is of no node") {
		t.Errorf("an unknown UUID: %d %q", w.Code, w.Body)
	}
}

func TestFiles(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r, h := newRack(t, func(c *Config) { c.Metrics = netboot.NewMetrics(reg) })
	for _, c := range []struct {
		method, target, part string
		status               int
		body                 string
	}{
		{"GET", "/files/kernel?mac=" + mac, "", 200, "content of k"},
		{"GET", "/files/ramdisk?mac=" + mac, "", 200, "content of r"},
		{"GET", "/files/ramdisk?mac=" + mac, "bytes=11-", 206, "r"},
		{"HEAD", "/files/kernel?mac=" + mac, "", 200, ""},
		{"GET", "/files/snponly.efi", "", 200, "content of snponly.efi"},
		{"GET", "/files/k", "", 404, ""},
		{"GET", "/files/..%2fk", "", 404, ""},
		{"GET", "/files/", "", 404, ""},
	} {
		w := ask(h, c.method, c.target, "Range", c.part)
		if w.Code != c.status || c.status != 404 && w.Body.String() != c.body {
			t.Errorf("%s %s %s: %d %q, want %d %q", c.method, c.target, c.part, w.Code, w.Body, c.status, c.body)
		}
	}
	if want := mac + " kernel," + mac + " ramdisk"; strings.Join(r.seen, ",") != want {
		t.Errorf("journal %q, want %q", r.seen, want)
	}
	if got := ask(h, "HEAD", "/files/snponly.efi").Header().Get("Content-Type"); got != "application/efi" {
		t.Errorf("UEFI HTTP boot is told that the program is %q", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		// The two whole files, one byte of the ramdisk, and the program.
		if got := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "ironyard_rackd_boot_file_bytes_total" && got != 12+12+1+22 {
			t.Errorf("%v bytes counted", got)
		}
	}
}

func FuzzScriptQuery(f *testing.F) {
	for _, q := range []string{"mac=" + mac, "uuid=" + id, "mac=%zz", "mac=a&mac=b&uuid=;", "uuid={" + id + "}", "mac=5254.0000.0001"} {
		f.Add(q)
	}
	_, h := newRack(f, nil)
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/boot/script", nil)
		r.URL = &url.URL{Path: "/boot/script", RawQuery: query}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200:
			if !strings.HasPrefix(w.Body.String(), "#!ipxe\n") {
				t.Errorf("query %q: %q", query, w.Body)
			}
		case 400:
		default:
			t.Errorf("query %q: %d", query, w.Code)
		}
	})
}

// Strangers ask for files that are not there as often as they like, by names as long as they like. That costs the log little.
func TestMissingFilesCostFewLines(t *testing.T) {
	var log bytes.Buffer
	_, h := newRack(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	name := strings.Repeat("%22", 20_000)
	for range 200 {
		if w := ask(h, "GET", "/files/"+name); w.Code != http.StatusNotFound {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "\n"); n == 0 || n > strangers.DefaultLines || log.Len() > n*1000 {
		t.Errorf("200 requests made %d lines, %d bytes of log", n, log.Len())
	}
}

// A machine says, beside its name, that it could not boot its volume. The journal is told what to look at. A stranger who says so, or a
// machine whose instance is no volume, gets a script as ever, and the journal is not told of a volume.
func TestAfterAVolume(t *testing.T) {
	const says = "/boot/script?mac=" + mac + "&after=volume"
	r, h := newRack(t, nil)
	ramdisk := r.machine.Order
	volume := bootorder.FromVolumes(bootorder.Volumes{Initiator: "iqn.2026-11.org.example:m1",
		List: []bootorder.Volume{{Name: "v", URIs: []string{"iscsi:h::3260:1:iqn.v"}, User: "user", Secret: "its secret"}}})
	for _, c := range []struct {
		order bootorder.Order
		given string // to the machine by DHCP
		want  string
	}{
		{volume, "", mac + " volume," + mac + " script"},
		{volume, "192.0.2.1", mac + " volume," + mac + " script"}, // httptest's caller
		{volume, "192.0.2.2", ""},
		{ramdisk, "", mac + " script"},
	} {
		r.seen, r.machine.Order, r.machine.Addresses = nil, c.order, nil
		if c.given != "" {
			r.machine.Addresses = []netip.Addr{netip.MustParseAddr(c.given)}
		}
		if w := ask(h, "GET", says); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "#!ipxe") {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		if got := strings.Join(r.seen, ","); got != c.want {
			t.Errorf("of a machine that has %s and was given %q the journal says %q, want %q", c.order.Name, c.given, got, c.want)
		}
	}
	if w := ask(h, "GET", "/boot/script?mac=x&after=volume"); w.Code != http.StatusBadRequest {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}
