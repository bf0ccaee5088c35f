package netboot_test

import (
	"net"
	"os"
	"strings"
	"testing"
)

// bootedBy begins what iPXE says of a network card that it drives by the firmware's own UNDI, as undionly.kpxe does.
const bootedBy = "using undionly"

// TestFirmwareLoadsUNDI boots BIOS machines whose card loads undionly.kpxe by TFTP. That loads a kernel by the
// card's UNDI, and the kernel speaks.
func TestFirmwareLoadsUNDI(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots machines in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	kernel := debianKernel(t)
	if !inNamespace(t) {
		return
	}
	t.Run("from QEMU's ROM, whose marks of iPXE are hidden", func(t *testing.T) {
		loadsUNDI(t, kernel, func(w *world, c net.PacketConn) net.PacketConn {
			return plain{c, func() bool { return !w.has("tftp: undionly.kpxe") }}
		}, biosCard)
	})
	t.Run("from a ROM that is no iPXE", func(t *testing.T) {
		card, rom, ok := strings.Cut(os.Getenv("IRONYARD_PXE_ROM"), ":")
		if !ok {
			t.Skip("NOT RUN: Debian has no such ROM: set IRONYARD_PXE_ROM to CARD:FILE, a card of QEMU's and a ROM for it, such as i82559er and Etherboot's")
		}
		loadsUNDI(t, kernel, nil, card+",netdev=n,mac="+mac+",romfile="+rom+",bootindex=0")
	})
}

// loadsUNDI boots a machine with a card. Its ROM is told of the program alone, and the program of the script.
func loadsUNDI(t *testing.T, kernel string, wrap func(*world, net.PacketConn) net.PacketConn, card string) {
	w := worldWith(t, ramdiskMachine, kernel, func(s *setting) { s.wrap = wrap })
	w.boot("-device", card)
	w.phases("dhcp: 10.78.0.", "tftp: undionly.kpxe", "dhcp: 10.78.0.", "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
	w.says(bootedBy)
	w.says("Linux version")
	w.says("BOOTIF=01-52-54-00-12-34-56")
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, _, _ := strings.Cut(strings.Join(w.seen, "\n"), "tftp: undionly.kpxe"); strings.Contains(before, "script") {
		t.Errorf("the card's ROM got the script by itself:\n%s", strings.Join(w.seen, "\n"))
	}
}
