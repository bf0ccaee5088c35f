package machine

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

// common is the part of QEMU's command line that all machines have, with places for what differs.
const common = "-name m -nodefaults -no-user-config -accel tcg,thread=multi -machine MACHINE -smp 1 -m 1024 -display none " +
	"-action reboot=shutdown,shutdown=poweroff -chardev socket,id=qmp,server=on,wait=off,fd=3 -mon chardev=qmp,mode=control " +
	"-chardev socket,id=console,server=on,wait=off,path=serial.sock,logfile=serial.log,logappend=on -serial chardev:console " +
	"-device virtio-rng-pci -smbios type=1,manufacturer=Ironyard,product=Virtual Rack,serial=IY-m " +
	"-drive if=none,id=disk,file=disk,format=raw,discard=unmap,detect-zeroes=unmap,cache=unsafe " +
	"-device virtio-blk-pci,drive=disk,serial=m-disk,DISK -device DRIVE -uuid 6f0f5c1e-0000-0000-0000-000000000000"

const flash = " -drive if=pflash,unit=0,format=raw,readonly=on,file=CODE -drive if=pflash,unit=1,format=raw,file=vars.fd"

const tapped = " -netdev tap,id=net,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=net,mac=" + testMAC

// Machines of x86_64 are started by the same command line, to the byte, as before there were others.
func TestCommandLines(t *testing.T) {
	x86, drive := "q35,graphics=off -cpu max", "ide-cd,bus=ide.0,id=cd"
	arm, usb := "virt -cpu cortex-a57", "qemu-xhci,id=usb,addr=0x4 -device usb-bot,bus=usb.0,id=storage -device scsi-cd,bus=storage.0,id=cd"
	for name, c := range map[string]struct {
		cfg                        Config
		first                      string
		tail                       string
		machine, code, disk, drive string
	}{
		"UEFI from disk":    {Config{Firmware: UEFI}, Disk, flash + tapped + ",romfile=,bootindex=1", x86, ovmfCode, "bootindex=0", drive},
		"UEFI from network": {Config{Firmware: UEFI}, Network, flash + tapped + ",romfile=,bootindex=0", x86, ovmfCode, "bootindex=1", drive},
		"two cards": {Config{Firmware: UEFI, FurtherCards: []Card{{MAC: "52:54:00:00:00:02", Tap: "tap0-1"}}}, Disk,
			flash + " -netdev tap,id=net,ifname=tap0,script=no,downscript=no,vnet_hdr=off -device virtio-net-pci,netdev=net,mac=" + testMAC + ",romfile=,speed=1000,duplex=full,bootindex=1" +
				" -netdev tap,id=net1,ifname=tap0-1,script=no,downscript=no,vnet_hdr=off -device virtio-net-pci,netdev=net1,mac=52:54:00:00:00:02,romfile=,speed=1000,duplex=full",
			x86, ovmfCode, "bootindex=0", drive},
		"BIOS from a CD": {Config{Firmware: BIOS}, Media, tapped + ",bootindex=2", x86, "", "bootindex=1", drive + ",bootindex=0"},
		"secure boot": {Config{Firmware: UEFI, SecureBoot: true, BootByVariables: true}, Disk,
			" -global driver=cfi.pflash01,property=secure,value=on" + flash + tapped + ",romfile=,addr=0x3",
			"q35,graphics=off,smm=on -cpu max", ovmfSecure, "addr=0x2", drive},
		"arm64 from disk":    {Config{Firmware: UEFI, Arch: AArch64}, Disk, flash + tapped + ",romfile=,bootindex=1", arm, aavmfCode, "bootindex=0", usb},
		"arm64 from network": {Config{Firmware: UEFI, Arch: AArch64}, Network, flash + tapped + ",romfile=,bootindex=0", arm, aavmfCode, "bootindex=1", usb},
		"arm64 by variables": {Config{Firmware: UEFI, Arch: AArch64, BootByVariables: true}, Network, flash + tapped + ",romfile=,addr=0x3", arm, aavmfCode, "addr=0x2", usb},
		"arm64 from a CD":    {Config{Firmware: UEFI, Arch: AArch64}, Media, flash + tapped + ",romfile=,bootindex=2", arm, aavmfCode, "bootindex=1", usb + ",bootindex=0"},
	} {
		c.cfg.Name, c.cfg.Dir, c.cfg.MAC, c.cfg.Tap, c.cfg.UUID = "m", t.TempDir(), testMAC, "tap0", "6f0f5c1e-0000-0000-0000-000000000000"
		cfg, err := c.cfg.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("MACHINE", c.machine, "DISK", c.disk, "DRIVE", c.drive, "CODE", c.code).Replace(common + c.tail)
		if got := strings.Join(cfg.arguments(c.first, false, 3), " "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		program := map[bool]string{false: "qemu-system-x86_64", true: "qemu-system-aarch64"}[c.cfg.Arch == AArch64]
		if got := cfg.board().qemu; got != program {
			t.Errorf("%s: started by %s, want %s", name, got, program)
		}
	}
}

// What a machine of arm64 cannot be is said by name.
func TestRefusedOnARM64(t *testing.T) {
	for what, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"another architecture": {Config{Firmware: UEFI, Arch: "riscv64"}, `architecture "riscv64" is neither x86_64 nor aarch64`},
		"BIOS":                 {Config{Firmware: BIOS, Arch: AArch64}, "an aarch64 machine has no BIOS"},
		"secure boot":          {Config{Firmware: UEFI, Arch: AArch64, SecureBoot: true}, "an aarch64 machine has no secure boot"},
	} {
		c.cfg.Name, c.cfg.Dir, c.cfg.DiskMiB = "m", t.TempDir(), 16
		m, err := Open(t.Context(), c.cfg)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	m := open(t, Config{Name: "m", Dir: t.TempDir(), Firmware: UEFI, Arch: AArch64, DiskMiB: 16, DieWithParent: true})
	_, secure := m.SecureBoot()
	_, uri := m.HTTPBootURI()
	for what, c := range map[string]struct{ got, want error }{"secure boot": {secure, ErrNoSecureBoot}, "boot URI": {uri, ErrOrderByQEMU}} {
		if !errors.Is(c.got, c.want) || !errors.Is(c.got, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

// AAVMF looks into the CD drive first where it is told to, by QEMU or by its variables, and says so. The drive is empty.
func TestARM64FirmwareRuns(t *testing.T) {
	needsFirmware(t)
	needsTime(t)
	for name, c := range map[string]struct {
		byVariables bool
		option      string
	}{
		"by QEMU's order": {false, `"UEFI QEMU QEMU USB.*"`},
		"by variables":    {true, `"Management Media"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Config{Name: "a", Dir: t.TempDir(), Firmware: UEFI, Arch: AArch64, BootByVariables: c.byVariables, MemoryMiB: 512, DiskMiB: 16, DieWithParent: true})
			if err := m.SetBootOverride(Media, true); err != nil {
				t.Fatal(err)
			}
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			line, err := m.Serial(0).Wait(ctx, regexp.MustCompile(`BdsDxe: failed to load Boot[0-9A-F]+ `+c.option+` from PciRoot\(0x0\)/Pci\(0x4,0x0\)/USB\(0x0,0x0\): Not Found`))
			if err != nil {
				t.Fatal(err)
			}
			t.Log(strings.TrimSpace(line))
			if m.Block(t) {
				t.Error("the drive holds a medium")
			}
			if err := m.Interrupt(t.Context()); !errors.Is(err, ErrNoInterrupt) {
				t.Errorf("an interrupt: %v, want %v", err, ErrNoInterrupt)
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			// What the firmware has written can be read.
			variables, err := m.Variables()
			if err != nil {
				t.Fatal(err)
			}
			if options, err := variables.BootOptions(); err != nil || len(options) < 2 {
				t.Errorf("boot options %v, %v", options, err)
			}
		})
	}
}
