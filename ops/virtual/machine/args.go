package machine

import (
	"fmt"
	"strconv"
)

const (
	qemuBinary = "qemu-system-x86_64"
	ovmfCode   = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars   = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

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

// arguments is QEMU's command line for a start with the given first boot device.
// qmpFD is the number that QEMU knows its listening QMP socket by.
func (c Config) arguments(first string, qmpFD int) []string {
	netIndex, diskIndex := 1, 0
	if first == Network {
		netIndex, diskIndex = 0, 1
	}
	args := []string{
		"-name", c.Name,
		"-nodefaults", "-no-user-config",
		"-accel", "tcg,thread=multi",
		// graphics=off makes SeaBIOS and option ROMs speak on the serial line.
		"-machine", "q35,graphics=off", "-cpu", "max", "-smp", "1",
		"-m", strconv.Itoa(c.MemoryMiB),
		"-display", "none",
		"-action", "reboot=shutdown,shutdown=poweroff",
		"-chardev", "socket,id=qmp,server=on,wait=off,fd=" + strconv.Itoa(qmpFD),
		"-mon", "chardev=qmp,mode=control",
		"-chardev", "socket,id=console,server=on,wait=off,path=" + serialSocket + ",logfile=" + serialLog + ",logappend=on",
		"-serial", "chardev:console",
		"-device", "virtio-rng-pci",
		"-smbios", fmt.Sprintf("type=1,manufacturer=%s,product=%s,serial=%s", c.Manufacturer, c.Product, c.Serial),
		"-drive", "if=none,id=disk,file=" + diskFile + ",format=" + string(c.DiskFormat) + ",discard=unmap,detect-zeroes=unmap,cache=" + c.cacheMode(),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=disk,serial=%s,bootindex=%d", c.DiskSerial, diskIndex),
	}
	if c.UUID != "" {
		args = append(args, "-uuid", c.UUID) // SMBIOS takes it from here
	}
	if c.Firmware == UEFI {
		args = append(args,
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+ovmfCode,
			"-drive", "if=pflash,unit=1,format=raw,file="+varsFile)
	}
	if c.Tap != "" {
		// OVMF brings its own driver and PXE. SeaBIOS needs the card's ROM, and runs it
		// only when QEMU chooses the file itself: named by romfile= it is not run.
		rom := ",romfile="
		if c.Firmware == BIOS {
			rom = ""
		}
		args = append(args,
			"-netdev", "tap,id=net,ifname="+c.Tap+",script=no,downscript=no",
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net,mac=%s%s,bootindex=%d", c.MAC, rom, netIndex))
	}
	return args
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
