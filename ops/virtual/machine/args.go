package machine

import (
	"fmt"
	"strconv"
)

const (
	ovmfCode   = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfSecure = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	ovmfVars   = "/usr/share/OVMF/OVMF_VARS_4M.fd"
	ovmfKeys   = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
)

// Places of the devices on the PCI bus where boot options name them.
const (
	diskSlot = 2
	cardSlot = 3
	usbSlot  = 4    // with AArch64's CD drive, the stick and the floppy
	sataSlot = 0x1f // of q35's own controller, function sataFunction
)

const (
	sataFunction = 2
	drivePort    = 0 // of the CD drive
)

// driveID is QEMU's name for the CD drive.
const driveID = "cd"

// File names in the machine's folder. QEMU runs there and gets them relative,
// because a unix socket's path has room for 107 bytes only.
const (
	diskFile     = "disk"
	varsFile     = "vars.fd"
	serialLog    = "serial.log"
	serialSocket = "serial.sock"
	qmpSocket    = "qmp.sock"
	stateFile    = "state.json"
	lockFile     = "running.lock"
	qemuLog      = "qemu.log"
)

// arguments is QEMU's command line for a start with the given first boot device. One
// that is paused waits for a command before the firmware runs. qmpFD is the number that
// QEMU knows its listening QMP socket by.
func (c Config) arguments(first string, paused bool, qmpFD int) []string {
	b := c.board()
	card, disk, drive := c.placed(first)
	args := []string{
		"-name", c.Name,
		"-nodefaults", "-no-user-config",
		"-accel", "tcg,thread=multi",
		"-machine", b.machine, "-cpu", b.cpu, "-smp", "1",
		"-m", strconv.Itoa(c.MemoryMiB),
		"-display", "none",
		"-action", "reboot=shutdown,shutdown=poweroff",
		"-chardev", "socket,id=qmp,server=on,wait=off,fd=" + strconv.Itoa(qmpFD),
		"-mon", "chardev=qmp,mode=control",
		"-chardev", "socket,id=console,server=on,wait=off,path=" + serialSocket + ",logfile=" + serialLog + ",logappend=on",
		"-serial", "chardev:console",
		"-device", "virtio-rng-pci",
		"-smbios", fmt.Sprintf("type=1,manufacturer=%s,product=%s,serial=%s", c.Manufacturer, c.Product, c.Serial),
	}
	if !c.Diskless {
		args = append(args,
			"-drive", "if=none,id=disk,file="+diskFile+",format="+string(c.DiskFormat)+",discard=unmap,detect-zeroes=unmap,cache="+c.cacheMode(),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk,serial=%s,%s", c.DiskSerial, disk))
	}
	args = append(args, b.bus...)
	if !c.NoCD {
		// The drive is always there, as a BMC's is. A medium comes by QMP.
		args = append(args, "-device", b.drive+drive)
	}
	if paused {
		args = append(args, "-S")
	}
	if c.UUID != "" {
		args = append(args, "-uuid", c.UUID) // SMBIOS takes it from here
	}
	if c.Firmware == UEFI {
		if c.SecureBoot {
			args = append(args, "-global", "driver=cfi.pflash01,property=secure,value=on")
		}
		args = append(args,
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+b.code,
			"-drive", "if=pflash,unit=1,format=raw,file="+varsFile)
	}
	if c.Tap != "" {
		// UEFI firmware brings its own driver and PXE. SeaBIOS needs the card's ROM, and runs it
		// only when QEMU chooses the file itself: named by romfile= it is not run.
		rom := ",romfile="
		if c.Firmware == BIOS {
			rom = ""
		}
		plug, pace := ",script=no,downscript=no", ""
		if len(c.FurtherCards) > 0 { // LACP is not spoken by cards that do not know their speed
			plug, pace = plug+",vnet_hdr=off", ",speed=1000,duplex=full"
		}
		args = append(args,
			"-netdev", "tap,id=net,ifname="+c.Tap+plug,
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net,mac=%s%s%s,%s", c.MAC, rom, pace, card))
		for n, further := range c.FurtherCards {
			args = append(args, "-netdev", fmt.Sprintf("tap,id=net%d,ifname=%s%s", n+1, further.Tap, plug),
				"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=%s,romfile=%s", n+1, further.MAC, pace))
		}
	}
	return args
}

// placed are the properties by which the firmware finds card, disk and CD drive. QEMU's
// bootindex makes OVMF write BootOrder at each start: it is left out where the
// variables decide. Their options name devices by place.
func (c Config) placed(first string) (card, disk, drive string) {
	switch {
	case c.BootByVariables:
		return fmt.Sprintf("addr=%#x", cardSlot), fmt.Sprintf("addr=%#x", diskSlot), ""
	case first == Network:
		return "bootindex=0", "bootindex=1", ""
	case first == Stick && c.DefaultBoot == Network: // the stick itself comes later, with the first place
		return "bootindex=1", "bootindex=2", ""
	case first == Stick:
		return "bootindex=2", "bootindex=1", ""
	case first == Media && c.DefaultBoot == Network:
		return "bootindex=1", "bootindex=2", ",bootindex=0"
	case first == Media:
		return "bootindex=2", "bootindex=1", ",bootindex=0"
	}
	return "bootindex=1", "bootindex=0", ""
}

// cacheMode leaves flushes out for raw disks: what the guest wrote is in the
// host's page cache and survives QEMU's end, however hard. A qcow2 file has
// metadata that must be ordered.
func (c Config) cacheMode() string {
	if c.DiskFormat == Raw {
		return "unsafe"
	}
	return "writeback"
}
