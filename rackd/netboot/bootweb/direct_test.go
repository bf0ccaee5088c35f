package bootweb

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// Firmware gets the program that its machine is to start now, and none when there is nothing to start.
func TestProgramOfTheMoment(t *testing.T) {
	r, h := newRack(t, func(c *Config) {
		dir := t.TempDir()
		for name, text := range map[string]string{"k": "k", "r": "r", "one": "the program", "rescue": "the rescue's", "arm": "for arm64", "snponly.efi": "s"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if c.Files, err = bootfiles.New(dir, bootfiles.Paths{Kernel: filepath.Join(dir, "k"), Ramdisk: filepath.Join(dir, "r"),
			UKI: filepath.Join(dir, "one"), RescueUKI: filepath.Join(dir, "rescue"), UKIARM64: filepath.Join(dir, "arm")}); err != nil {
			t.Fatal(err)
		}
	})
	at := "/boot/program/52-54-00-00-00-01/ramdisk.efi"
	direct := func(o bootorder.Order) bootorder.Order { o.Direct = true; return o }
	for _, c := range []struct {
		order  bootorder.Order
		at     string
		status int
		body   string
	}{
		{direct(bootorder.Ramdisk(bootorder.Load{})), at, http.StatusOK, "the program"},
		{direct(bootorder.Ramdisk(bootorder.Load{Rescue: true})), at, http.StatusOK, "the rescue's"},
		{direct(bootorder.Ramdisk(bootorder.Load{})), "/boot/program/52-54-00-00-00-01/ramdisk-arm64.efi", http.StatusOK, "for arm64"},
		{direct(bootorder.Ramdisk(bootorder.Load{Rescue: true})), "/boot/program/52-54-00-00-00-01/ramdisk-arm64.efi", http.StatusNotFound, "404"},
		{direct(bootorder.LocalDisk()), at, http.StatusNotFound, "nothing to load"},
		{direct(bootorder.Later("bus")), at, http.StatusNotFound, "nothing to load"},
		{bootorder.Ramdisk(bootorder.Load{}), at, http.StatusNotFound, "nothing to load"}, // its boot interface is another
		{direct(bootorder.Ramdisk(bootorder.Load{})), "/boot/program/52-54-00-00-00-02/ramdisk.efi", http.StatusNotFound, "no node"},
		{direct(bootorder.Ramdisk(bootorder.Load{})), "/boot/program/x/ramdisk.efi", http.StatusBadRequest, "six bytes"},
	} {
		r.machine.Order = c.order
		w := ask(h, http.MethodGet, c.at)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%+v at %s: %d %q, want %d %q", c.order, c.at, w.Code, w.Body, c.status, c.body)
		}
		if kind := w.Header().Get("Content-Type"); w.Code == http.StatusOK && kind != "application/efi" {
			t.Errorf("firmware is told that the program is %q", kind)
		}
	}
	if !slices.Contains(r.seen, mac+" program") {
		t.Errorf("the journal: %q", r.seen)
	}
}

// An agent is told the parameters of its boot as its kernel would have been, and only from its machine's address.
func TestParametersOfABoot(t *testing.T) {
	r, h := newRack(t, func(c *Config) {
		c.Scripts.Ramdisk = func(netboot.Machine) ipxescript.Ramdisk {
			return ipxescript.Ramdisk{Params: []string{"quiet"}, Fingerprint: strings.Repeat("ab", 32), Doors: []string{"https://192.0.2.9:6386"}}
		}
	})
	at := "/boot/parameters?mac=" + mac
	r.machine.BootID, r.machine.Order.Direct = "boot1", true
	peer := netip.MustParseAddr("192.0.2.1") // httptest's
	r.machine.Addresses = []netip.Addr{peer}
	w := ask(h, http.MethodGet, at)
	words := strings.Fields(w.Body.String())
	for _, want := range []string{"quiet", agentapi.ParamNode + "=" + id, agentapi.ParamBootMAC + "=01-" + strings.ReplaceAll(mac, ":", "-"),
		agentapi.ParamAPIURL + "=https://192.0.2.9:6386/boot/boot1", agentapi.ParamAPIFingerprint + "=" + strings.Repeat("ab", 32)} {
		if w.Code != http.StatusOK || !slices.Contains(words, want) {
			t.Errorf("%d %q, without %q", w.Code, words, want)
		}
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("a proxy may keep the parameters of a boot")
	}
	for name, c := range map[string]struct {
		change func()
		status int
	}{
		"another address":     {func() { r.machine.Addresses = []netip.Addr{peer.Next()} }, http.StatusForbidden},
		"no known address":    {func() { r.machine.Addresses, r.machine.Hears = nil, true }, http.StatusServiceUnavailable},
		"another rackd knows": {func() { r.machine.Order = bootorder.Later("bus") }, http.StatusServiceUnavailable},
		"nothing to load":     {func() { r.machine.Order = bootorder.LocalDisk() }, http.StatusNotFound},
	} {
		before := r.machine
		c.change()
		if w := ask(h, http.MethodGet, at); w.Code != c.status || strings.Contains(w.Body.String(), "boot1") || strings.Contains(w.Body.String(), id) {
			t.Errorf("%s: %d %q, want %d and nothing of the node", name, w.Code, w.Body, c.status)
		}
		r.machine = before
	}
	if w := ask(h, http.MethodGet, "/boot/parameters?mac=52:54:00:00:00:02"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown machine: %d", w.Code)
	}
}
