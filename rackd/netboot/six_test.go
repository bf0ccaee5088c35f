package netboot_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/netboot/routeradv"
)

// newWorld6 is newWorld for a network without IPv4.
func newWorld6(t *testing.T, m netboot.Machine, kernel string) *world {
	w, files := bareWorld(t, m, kernel, setting{})
	w.serve6(files)
	return w
}

// serve6 serves files, scripts, DHCPv6 and router advertisements.
func (w *world) serve6(files *bootfiles.Files) {
	t := w.t
	t.Helper()
	at := ipxescript.Server{HTTP: "http://[" + self6.String() + "]:8080", TFTP: "tftp://[" + self6.String() + "]"}
	network := dhcp.Subnet6(self6, 64)
	d, err := dhcp.New6(dhcp.Config6{Mode: dhcp.Serve, ServerIP: self6, Subnets: []dhcp.Subnet{network}, HTTP: at.HTTP, TFTP: at.TFTP,
		LeaseFile: filepath.Join(filepath.Dir(w.kernel), "leases"), Directory: w, Journal: w, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w.dhcp6 = d
	on547, err := dhcp.Listen6(bridge, quiet)
	if err != nil {
		t.Fatal(err)
	}
	link, err := routeradv.Listen(bridge, quiet)
	if err != nil {
		t.Fatal(err)
	}
	advertises := routeradv.New(link, w, routeradv.DHCP{Prefix: network.Prefix}, nil, quiet)
	w.serve(files, self6, at, d.MACOf, func(ctx context.Context) error { return d.Serve(ctx, on547) }, advertises.Serve)
}

// TestFirmwareBootsByIPv6 boots machines in a network without IPv4: one by iPXE, which its network card brings. With
// IRONYARD_HARDWARE=1 it also boots over TFTP, and by OVMF's own PXE and HTTP clients, which takes minutes.
func TestFirmwareBootsByIPv6(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots machines in QEMU; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	t.Run("iPXE over HTTP", func(t *testing.T) {
		w := newWorld6(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.lkrn")
		w.boot("-device", biosCard)
		w.phases("dhcp: fd00:78:", "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
		w.says("Ironyard: node m1 (11111111-1111-4111-8111-111111111111) boots the ramdisk")
	})
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		return
	}
	t.Run("iPXE over TFTP, once its address is known", func(t *testing.T) {
		m := ramdiskMachine
		m.Order.OverTFTP = true
		w := newWorld6(t, m, "/usr/lib/ipxe/ipxe.lkrn")
		w.mu.Lock()
		w.unheard = true
		w.mu.Unlock()
		w.boot("-device", biosCard)
		w.says("no rackd has seen which address this machine was given")
		w.phases("dhcp: fd00:78:", "dhcp: fd00:78:", "script: ramdisk, state wait call-back, by TFTP", "kernel: by TFTP", "ramdisk: by TFTP")
		w.mu.Lock()
		defer w.mu.Unlock()
		if all := strings.Join(w.seen, "\n"); strings.Contains(all, "HTTP") {
			t.Errorf("something came by HTTP:\n%s", all)
		}
	})
	without := func(kinds ...string) (args []string) {
		for _, k := range kinds {
			args = append(args, "-fw_cfg", "name=opt/org.tianocore/"+k+",string=no")
		}
		return args
	}
	t.Run("OVMF by PXE", func(t *testing.T) {
		w := newWorld6(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.efi")
		w.boot(append(ovmf(t), without("IPv4PXESupport")...)...)
		w.phases("dhcp: fd00:78:", "tftp: snponly.efi", "dhcp: fd00:78:", "script: ramdisk", "kernel", "ramdisk")
		w.asked("UEFI x64 firmware")
	})
	t.Run("OVMF by HTTP", func(t *testing.T) {
		w := newWorld6(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.efi")
		w.boot(append(ovmf(t), without("IPv4PXESupport", "IPv6PXESupport")...)...)
		w.phases("dhcp: fd00:78:", "dhcp: fd00:78:", "script: ramdisk", "kernel", "ramdisk")
		w.asked("UEFI HTTP boot")
	})
}

// asked requires that a kind of client has spoken DHCP. Firmware may first ask as a host does: an advertisement sends all hosts there.
func (w *world) asked(kind string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := strings.Join(w.seen, "\n"); !strings.Contains(all, kind) {
		w.t.Errorf("no %s has asked:\n%s", kind, all)
	}
}

// What a machine was given by one version of IP says nothing of its address by the other.
func TestJudgeByVersionOfIP(t *testing.T) {
	addr := netip.MustParseAddr
	for _, c := range []struct {
		known []string
		hears bool
		peer  string
		want  netboot.Trust
	}{
		{[]string{"10.0.0.7", "fd00::7"}, true, "fd00::7", netboot.Proven},
		{[]string{"10.0.0.7"}, true, "::ffff:10.0.0.7", netboot.Proven},
		{[]string{"10.0.0.7", "fd00::7"}, true, "fd00::8", netboot.Foreign},
		{[]string{"10.0.0.7"}, true, "fd00::7", netboot.Unheard},
		{[]string{"10.0.0.7"}, false, "fd00::7", netboot.Unjudged},
		{[]string{"fd00::7"}, false, "10.0.0.7", netboot.Unjudged},
	} {
		m := netboot.Machine{Hears: c.hears}
		for _, a := range c.known {
			m.Addresses = append(m.Addresses, addr(a))
		}
		if got := m.Judge(addr(c.peer)); got != c.want {
			t.Errorf("known at %v, hears %t: %s is judged %d, want %d", c.known, c.hears, c.peer, got, c.want)
		}
	}
}

// knows returns what DHCP has given the machine.
func (w *world) knows() (list []netip.Addr) {
	if w.dhcp6 != nil {
		return w.dhcp6.Addresses(mac)
	}
	if at, ok := w.dhcp.Address(mac); ok {
		list = append(list, at)
	}
	return list
}
