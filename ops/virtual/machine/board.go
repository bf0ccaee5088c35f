package machine

import "fmt"

// Arch is the architecture of a machine's processor, in the words of QEMU and of a node's cpu_arch.
type Arch string

// The architectures. The zero Arch is X8664, too.
const (
	X8664   Arch = "x86_64"
	AArch64 Arch = "aarch64"
)

// Firmware of AArch64, and the size of its flash for variables. Debian's store for it is blank.
const (
	aavmfCode      = "/usr/share/AAVMF/AAVMF_CODE.fd"
	aavmfFlashSize = 64 << 20
)

// board is what QEMU is told of a machine because of its architecture.
type board struct {
	qemu, firmwarePackage string
	// machine and cpu are QEMU's kinds.
	machine, cpu string
	// code and variables are the files of UEFI firmware. Without the second the rack lays the variables out.
	code, variables string
	// bus is what the CD drive and the drives on USB need, and drive is the drive without its place in the boot order.
	bus   []string
	drive string
}

// board is the one of the machine's architecture.
func (c Config) board() board {
	if c.Arch == AArch64 {
		return board{
			qemu: "qemu-system-aarch64", firmwarePackage: "qemu-efi-aarch64",
			// The processor is an old one: the authentication of pointers, which newer ones have, is slow in emulation.
			machine: "virt", cpu: "cortex-a57", code: aavmfCode,
			// The drive is on USB, as a BMC's is. An agent that sees a disk controller without a disk waits for one.
			bus:   []string{"-device", fmt.Sprintf("qemu-xhci,id=usb,addr=%#x", usbSlot), "-device", "usb-bot,bus=usb.0,id=storage"},
			drive: "scsi-cd,bus=storage.0,id=" + driveID,
		}
	}
	b := board{
		qemu: "qemu-system-x86_64", firmwarePackage: "ovmf",
		// graphics=off makes SeaBIOS and option ROMs speak on the serial line.
		machine: "q35,graphics=off", cpu: "max", code: ovmfCode, variables: ovmfVars,
		drive: fmt.Sprintf("ide-cd,bus=ide.%d,id=%s", drivePort, driveID),
	}
	if c.USBStick || c.USBFloppy {
		b.bus = []string{"-device", fmt.Sprintf("qemu-xhci,id=usb,addr=%#x", usbSlot)}
	}
	if c.SecureBoot {
		b.machine += ",smm=on" // its variables are written in system management mode only
		b.code = ovmfSecure
	}
	return b
}

// checkArch says what a machine of an architecture cannot be.
func (c Config) checkArch() error {
	switch {
	case c.Arch != X8664 && c.Arch != AArch64:
		return fmt.Errorf("architecture %q is neither %s nor %s", c.Arch, X8664, AArch64)
	case c.Arch == X8664:
		return nil
	case c.Firmware == BIOS:
		return fmt.Errorf("an %s machine has no BIOS: its firmware is UEFI", c.Arch)
	case c.NoCD:
		return fmt.Errorf("an %s machine is not made without its CD drive", c.Arch)
	case c.SecureBoot:
		return fmt.Errorf("an %s machine has no secure boot: its firmware does not keep the keys from the running system", c.Arch)
	}
	return nil
}
