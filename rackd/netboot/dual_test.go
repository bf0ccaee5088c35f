package netboot_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// mute is a connection of DHCP on which requests come and no reply goes out, as where the way back is cut.
type mute struct{ net.PacketConn }

func (mute) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }

// dualWorld is a network in which rackd serves IPv4 and IPv6 side by side. With silent4 its answers by DHCP of IPv4 are lost.
func dualWorld(t *testing.T, m netboot.Machine, kernel string, silent4 bool) *world {
	t.Helper()
	w, files := bareWorld(t, m, kernel, setting{})
	four := ipxescript.Server{HTTP: "http://" + self.String() + ":8080", TFTP: "tftp://" + self.String()}
	d, err := dhcp.New(dhcp.Config{Mode: dhcp.Serve, ServerIP: self, From: self, To: netip.MustParseAddr("10.78.0.20"), Mask: net.CIDRMask(24, 32),
		HTTP: four.HTTP, TFTP: four.TFTP, LeaseFile: filepath.Join(filepath.Dir(w.kernel), "leases4"), Directory: w, Journal: w, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	w.dhcp = d
	on67, err := server4.NewIPv4UDPConn(bridge, &net.UDPAddr{IP: net.IPv4zero, Port: 67})
	if err != nil {
		t.Fatal(err)
	}
	var asks net.PacketConn = on67
	if silent4 {
		asks = mute{on67}
	}
	w.serve(files, self, four, d.MACOf, func(ctx context.Context) error { return d.Serve(ctx, asks) })
	w.serve6(files)
	return w
}

// TestFirmwareOnDualStack boots UEFI firmware where rackd serves both versions of IP. It boots by IPv4, which it tries first. Where no
// answer comes by IPv4 it boots by IPv6. BIOS machines boot by iPXE, which has both configured at once.
func TestFirmwareOnDualStack(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots machines in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	if !inNamespace(t) {
		return
	}
	const four, six = "dhcp: 10.78.0.", "dhcp: fd00:78:"
	const uefi, bios = "/usr/lib/ipxe/ipxe.efi", "/usr/lib/ipxe/ipxe.lkrn"
	t.Run("UEFI by IPv4 first", func(t *testing.T) {
		w := dualWorld(t, ramdiskMachine, uefi, false)
		w.timed(t, "the firmware's program", "tftp: snponly.efi", ovmf(t)...)
		w.phases(four, "tftp: snponly.efi", "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
		w.saw(t, "UEFI x64 firmware", four, six)
		w.says("Start PXE over IPv4")
	})
	t.Run("UEFI by IPv6 where IPv4 is silent", func(t *testing.T) {
		w := dualWorld(t, ramdiskMachine, uefi, true)
		w.timed(t, "the firmware's program", "tftp: snponly.efi", ovmf(t)...)
		w.phases(six, "tftp: snponly.efi", "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
		w.saw(t, "UEFI x64 firmware", six, four)
		w.says("Start PXE over IPv6")
	})
	t.Run("BIOS", func(t *testing.T) {
		w := dualWorld(t, ramdiskMachine, bios, false)
		w.timed(t, "the script", "script", "-device", biosCard)
		w.phases("script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
	})
	t.Run("BIOS where IPv4 is silent", func(t *testing.T) {
		w := dualWorld(t, ramdiskMachine, bios, true)
		w.timed(t, "the script", "script", "-device", biosCard)
		w.phases(six, "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
	})
}

// timed boots a machine and says how long it took to a phase.
func (w *world) timed(t *testing.T, what, phase string, args ...string) {
	t.Helper()
	began := time.Now()
	w.boot(args...)
	w.phases(phase)
	t.Logf("%s after %.1f s", what, time.Since(began).Seconds())
}

// saw requires that a kind of client was given an address that begins with one of two beginnings, and none with the other.
func (w *world) saw(t *testing.T, kind, with, without string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var given, other bool
	for _, s := range w.seen {
		given = given || strings.HasPrefix(s, with) && strings.Contains(s, kind)
		other = other || strings.HasPrefix(s, without) && strings.Contains(s, kind)
	}
	if !given || other {
		t.Errorf("%s was given an address with %q: %t, and one with %q: %t\n%s", kind, with, given, without, other, strings.Join(w.seen, "\n"))
	}
}
