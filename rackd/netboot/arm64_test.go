package netboot_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFirmwareOfARM64 has firmware of an arm64 machine load the ramdisk as one program, until its agent has asked for its parameters.
func TestFirmwareOfARM64(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots a machine in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	program := filepath.Join(kept(), "..", "arm64", "ironyard-arm64.efi")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: ironyard ramdisk build --arch arm64 --kernel cloud --uki --cache %s %s makes it, and so does make hardware", err, kept(), filepath.Dir(program))
	}
	if !inNamespace(t) {
		return
	}
	m := ramdiskMachine
	m.Order.Direct = true
	w := worldWith(t, m, "/usr/lib/ipxe/ipxe.efi", func(s *setting) { s.arm64 = program })
	vars := filepath.Join(t.TempDir(), "vars.fd")
	body, err := os.ReadFile("/usr/share/AAVMF/AAVMF_VARS.fd")
	if err != nil {
		t.Fatalf("%v (Debian's package qemu-efi-aarch64 has it)", err)
	}
	if err := os.WriteFile(vars, body, 0o644); err != nil {
		t.Fatal(err)
	}
	w.bootBy("qemu-system-aarch64", "qemu-system-arm", "-nodefaults", "-no-user-config", "-accel", "tcg,thread=multi", "-machine", "virt", "-cpu", "cortex-a57", "-m", "1024",
		"-display", "none", "-serial", "stdio", "-device", "virtio-rng-pci", "-netdev", "tap,id=n,ifname="+tap+",script=no,downscript=no",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/AAVMF/AAVMF_CODE.fd", "-drive", "if=pflash,unit=1,format=raw,file="+vars, "-device", uefiCard)
	w.phases("dhcp: 10.78.0.", "tftp: ramdisk-arm64.efi", "program: by TFTP")
	w.says("Linux version")
	w.phases("program: by TFTP", "dhcp", "parameters: ramdisk")
}
