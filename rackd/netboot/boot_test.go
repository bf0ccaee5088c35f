package netboot_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// The cards: SeaBIOS needs the network card's own ROM, which is iPXE; it must be
// QEMU's default, the only one whose PCI id QEMU makes fit the card. OVMF has a PXE
// client, so there the ROM is left out.
const (
	biosCard = "virtio-net-pci,netdev=n,mac=" + mac + ",bootindex=0"
	uefiCard = "virtio-net-pci,netdev=n,mac=" + mac + ",romfile=,bootindex=0"
)

var ramdiskMachine = netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Name: "m1", State: "wait call-back", Order: bootorder.Ramdisk(bootorder.Load{})}

// TestFirmwareBoots boots machines with real firmware from these servers, until
// they have loaded kernel and ramdisk. It takes a few minutes and wants root and
// QEMU: set IRONYARD_E2E=1.
func TestFirmwareBoots(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots machines in QEMU; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	t.Run("BIOS over HTTP, again after a failure", biosHTTP)
	t.Run("BIOS over TFTP", biosTFTP)
	t.Run("BIOS refused", biosRefused)
	t.Run("BIOS from its disk", biosDisk)
	t.Run("UEFI over HTTP", uefiHTTP)
}

// TestFirmwareBootsItsDisk is the part of TestFirmwareBoots that takes two minutes.
func TestFirmwareBootsItsDisk(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots a machine in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	if !inNamespace(t) {
		return
	}
	t.Run("UEFI", uefiDisk)
}

// A machine whose address a rackd does not know, since it has just started, say, speaks DHCP once more and gets
// its script from the address that it was given: with real iPXE.
func TestFirmwareSpeaksDHCPAgain(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots a machine in QEMU; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	w := newWorld(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.lkrn")
	w.mu.Lock()
	w.unheard = true
	w.mu.Unlock()
	w.boot("-device", biosCard)
	w.says("no rackd has seen which address this machine was given")
	w.phases("dhcp", "dhcp", "script: ramdisk, state wait call-back, by HTTP", "kernel", "ramdisk")
}

func biosHTTP(t *testing.T) {
	w := newWorld(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.lkrn")
	if err := os.Rename(w.kernel, w.kernel+".away"); err != nil {
		t.Fatal(err)
	}
	w.boot("-device", biosCard)
	w.says("the ramdisk did not load, asking again")
	if err := os.Rename(w.kernel+".away", w.kernel); err != nil {
		t.Fatal(err)
	}
	w.phases("dhcp", "script: ramdisk, state wait call-back, by HTTP", "script", "kernel", "ramdisk")
	w.says("Ironyard: node m1 (11111111-1111-4111-8111-111111111111) boots the ramdisk")
}

func biosTFTP(t *testing.T) {
	m := ramdiskMachine
	m.Order.OverTFTP = true
	w := newWorld(t, m, "/usr/lib/ipxe/ipxe.lkrn")
	w.boot("-device", biosCard)
	w.phases("dhcp", "script: ramdisk, state wait call-back, by TFTP", "kernel: by TFTP", "ramdisk: by TFTP")
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := strings.Join(w.seen, "\n"); strings.Contains(all, "HTTP") {
		t.Errorf("something came by HTTP:\n%s", all)
	}
}

func biosRefused(t *testing.T) {
	w := newWorld(t, netboot.Machine{UUID: "u", State: "available", Order: bootorder.Refuse("Node m1 is in state \"available\"; deploy it first.")}, "/usr/lib/ipxe/ipxe.lkrn")
	w.boot("-device", biosCard)
	w.says("Reason: Node m1 is in state \"available\"; deploy it first.")
}

func biosDisk(t *testing.T) {
	m := ramdiskMachine
	m.Order, m.BootMode = bootorder.LocalDisk(), "bios"
	w := newWorld(t, m, "/usr/lib/ipxe/ipxe.lkrn")
	w.boot("-device", biosCard, "-drive", "if=none,id=d,format=raw,file="+bootSector(t), "-device", "virtio-blk-pci,drive=d,bootindex=1")
	w.phases("script: local-disk")
	w.says("BOOTED THE DISK")
}

// bootSector makes a disk whose boot sector prints a line on the serial port.
func bootSector(t *testing.T) string {
	code := []byte{
		0xBA, 0xF8, 0x03, // mov dx, 3f8h
		0xBE, 0x0E, 0x7C, // mov si, 7c0eh: the text below
		0xFC,       // cld
		0x2E, 0xAC, // next: cs lodsb
		0xEE,       // out dx, al
		0x84, 0xC0, // test al, al
		0x75, 0xF9, // jnz next
	}
	disk := make([]byte, 1<<20)
	n := copy(disk, code)
	copy(disk[n:], "\r\nBOOTED THE DISK\r\n\x00\xF4\xEB\xFD") // hlt; jmp back
	disk[510], disk[511] = 0x55, 0xAA
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func ovmf(t *testing.T) []string {
	vars := filepath.Join(t.TempDir(), "vars.fd")
	body, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		t.Fatalf("%v (Debian's package ovmf has it)", err)
	}
	if err := os.WriteFile(vars, body, 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,unit=1,format=raw,file=" + vars, "-device", uefiCard}
}

func uefiHTTP(t *testing.T) {
	w := newWorld(t, ramdiskMachine, "/usr/lib/ipxe/ipxe.efi")
	w.boot(ovmf(t)...)
	w.phases("dhcp: 10.78.0.", "tftp: snponly.efi", "dhcp", "script: ramdisk", "kernel", "ramdisk")
}

// uefiDisk has iPXE itself as the program on the disk: it is there that a second
// banner comes from.
func uefiDisk(t *testing.T) {
	m := ramdiskMachine
	m.Order, m.BootMode = bootorder.LocalDisk(), "uefi"
	w := newWorld(t, m, "/usr/lib/ipxe/ipxe.efi")
	disk := espDisk(t)
	w.boot(append(ovmf(t), "-drive", "if=none,id=d,format=raw,file="+disk, "-device", "virtio-blk-pci,drive=d,bootindex=1")...)
	w.phases("tftp: snponly.efi", "script: local-disk")
	w.until("the second boot option", func(_ []string, console string) bool {
		_, after, ok := strings.Cut(console, "boots from its disk")
		return ok && strings.Contains(after, "iPXE initialising devices")
	})
}

// espDisk makes a disk that UEFI boots iPXE from.
func espDisk(t *testing.T) string {
	disk := filepath.Join(t.TempDir(), "esp")
	for _, args := range [][]string{{"truncate", "-s", "16M", disk}, {"mkfs.vfat", "-n", "ESP", disk},
		{"mmd", "-i", disk, "::EFI", "::EFI/BOOT"}, {"mcopy", "-i", disk, "/usr/lib/ipxe/ipxe.efi", "::EFI/BOOT/BOOTX64.EFI"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s (Debian's packages dosfstools and mtools)", args[0], err, out)
		}
	}
	return disk
}
