package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Packages are the Debian packages whose programs and firmware a machine needs.
// One of AArch64 needs the last two besides.
var Packages = []string{"qemu-system-x86", "qemu-utils", "qemu-block-extra", "ovmf", "seabios", "ipxe-qemu", "qemu-system-arm", "qemu-efi-aarch64"}

// Firmware is what runs before the operating system.
type Firmware string

// The kinds of firmware.
const (
	UEFI Firmware = "uefi"
	BIOS Firmware = "bios"
)

// Boot devices. Media is what is in the CD drive, Stick what is in the USB stick. HTTP is the URI of SetHTTPBootURI, for machines that boot
// by variables.
const (
	Network = "network"
	Disk    = "disk"
	Media   = "media"
	Stick   = "stick"
	HTTP    = "http"
)

// DiskFormat is how the disk is kept in the machine's folder.
type DiskFormat string

// The disk formats. Raw files are sparse.
const (
	Raw   DiskFormat = "raw"
	QCOW2 DiskFormat = "qcow2"
)

// Card is a network card: its address, and the device that it is plugged into.
type Card struct {
	MAC string `json:"mac"`
	Tap string `json:"tap"`
}

// Config describes a machine. It is written to disk as JSON by the lab.
type Config struct {
	// Name is unique in the rack; it appears in QEMU's command line.
	Name string `json:"name"`
	// Dir is the machine's own folder, made if missing.
	Dir      string   `json:"dir"`
	Firmware Firmware `json:"firmware"`
	// Arch is the processor's architecture; empty means X8664. A machine of AArch64 has UEFI firmware without secure boot.
	Arch Arch `json:"arch,omitempty"`
	// MAC is the network card's address, Tap the device it is plugged into. With
	// an empty Tap the machine has no network.
	MAC string `json:"mac"`
	Tap string `json:"tap,omitempty"`
	// FurtherCards are network cards beside the first. The firmware is not told to boot from them. With some, all of the machine's frames
	// have their checksums: a switch in user space can pass them on. Its cards have a speed then: they can be in a bond.
	FurtherCards []Card `json:"further_cards,omitempty"`
	// MemoryMiB is the guest's memory; 0 means 1024.
	MemoryMiB int `json:"memory_mib"`
	// DiskMiB is the disk's size; 0 means 4096. It is fixed when the disk is made.
	DiskMiB    int        `json:"disk_mib"`
	DiskFormat DiskFormat `json:"disk_format"`
	DiskSerial string     `json:"disk_serial"`
	// Diskless is a machine without any disk: the fields of a disk are empty then.
	Diskless bool `json:"diskless,omitempty"`
	// DefaultBoot is tried first when nothing overrides it; empty means Disk, or
	// Network without one. The other device is tried next.
	DefaultBoot string `json:"default_boot"`
	// BootByVariables leaves the order to the UEFI variables, as on a real board:
	// BootOrder, BootNext and what the guest writes there. DefaultBoot is the order
	// of a new machine only. Else QEMU's order holds at each start, and OVMF
	// writes BootOrder by it.
	BootByVariables bool `json:"boot_by_variables,omitempty"`
	// IPv6: management has the firmware boot from the network by IPv6, where variables say by what it boots.
	IPv6 bool `json:"ipv6,omitempty"`
	// SecureBoot is for firmware that can enforce secure boot; its variables say
	// whether it does.
	SecureBoot bool `json:"secure_boot,omitempty"`
	// VariablesFrom is the variable store that a new machine gets a copy of; empty
	// is the firmware's empty one.
	VariablesFrom string `json:"variables_from,omitempty"`
	// KeysFrom is the variable store with the factory's keys of secure boot, which a
	// reset of the keys brings back; empty is Debian's, with Microsoft's keys.
	KeysFrom string `json:"keys_from,omitempty"`
	// USBStick: the machine's BMC has a second virtual drive, which the machine sees as a USB stick while an image is in it.
	USBStick bool `json:"usb_stick,omitempty"`
	// USBFloppy: the machine's BMC has a virtual drive of a floppy, which the machine sees on USB while an image is in it. None boots from it.
	USBFloppy bool `json:"usb_floppy,omitempty"`
	// NoCD: the machine has no CD drive, and its BMC none to show.
	NoCD bool `json:"no_cd,omitempty"`
	// What DMI says about the machine.
	UUID         string `json:"uuid"`
	Manufacturer string `json:"manufacturer"`
	Product      string `json:"product"`
	Serial       string `json:"serial"`

	// DieWithParent makes the kernel end QEMU when the controlling process dies:
	// for tests, which must leave nothing behind.
	DieWithParent bool `json:"-"`
	// Command makes the command that starts QEMU, for instance inside a network
	// namespace; nil means exec.CommandContext.
	Command func(ctx context.Context, name string, args ...string) *exec.Cmd `json:"-"`
	Log     *slog.Logger                                                     `json:"-"`
}

var (
	validName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	// QEMU splits its options at commas; keeping them out is simpler than escaping.
	validText = regexp.MustCompile(`^[a-zA-Z0-9 ._:/+-]*$`)
)

// withDefaults checks a configuration and completes it.
func (c Config) withDefaults() (Config, error) {
	if !validName.MatchString(c.Name) {
		return c, fmt.Errorf("machine %q: a name has lower-case letters, digits, '-' and '.'", c.Name)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil || c.Dir == "" {
		return c, fmt.Errorf("machine %s: needs a folder of its own (%q)", c.Name, c.Dir)
	}
	c.Dir = dir
	if c.Firmware != UEFI && c.Firmware != BIOS {
		return c, fmt.Errorf("machine %s: firmware %q is neither uefi nor bios", c.Name, c.Firmware)
	}
	if c.Arch == "" {
		c.Arch = X8664
	}
	if err := c.checkArch(); err != nil {
		return c, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	if c.IPv6 && !c.BootByVariables {
		return c, fmt.Errorf("machine %s: boot by IPv6 is set by UEFI variables", c.Name)
	}
	if c.Firmware != UEFI && (c.BootByVariables || c.SecureBoot || c.VariablesFrom != "") {
		return c, fmt.Errorf("machine %s: only UEFI firmware has variables and secure boot", c.Name)
	}
	if c.Tap != "" {
		if _, err := net.ParseMAC(c.MAC); err != nil {
			return c, fmt.Errorf("machine %s: %w", c.Name, err)
		}
	}
	for _, card := range c.FurtherCards {
		if _, err := net.ParseMAC(card.MAC); err != nil || card.Tap == "" || c.Tap == "" || !validText.MatchString(card.Tap) {
			return c, fmt.Errorf("machine %s: a further card needs a first one, a MAC address and a tap: %+v", c.Name, card)
		}
	}
	for what, text := range map[string]string{
		"UUID": c.UUID, "manufacturer": c.Manufacturer, "product": c.Product, "serial": c.Serial, "disk serial": c.DiskSerial, "tap": c.Tap,
	} {
		if !validText.MatchString(text) {
			return c, fmt.Errorf("machine %s: %s %q has characters that QEMU would take apart", c.Name, what, text)
		}
	}
	if len(c.DiskSerial) > 20 {
		return c, fmt.Errorf("machine %s: disk serial %q is longer than virtio's 20 bytes", c.Name, c.DiskSerial)
	}
	if c.MemoryMiB == 0 {
		c.MemoryMiB = 1024
	}
	if c, err = c.withDisk(); err != nil {
		return c, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	if c.Firmware == UEFI && c.VariablesFrom == "" {
		c.VariablesFrom = c.board().variables
	}
	if c.SecureBoot && c.KeysFrom == "" {
		c.KeysFrom = ovmfKeys
	}
	if c.Manufacturer == "" {
		c.Manufacturer, c.Product = "Ironyard", "Virtual Rack"
	}
	if c.Serial == "" {
		c.Serial = "IY-" + c.Name
	}
	if c.Command == nil {
		c.Command = exec.CommandContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("machine", c.Name)
	return c, nil
}

// withDisk checks and completes what is said of the disk, or that there is none.
func (c Config) withDisk() (Config, error) {
	if c.Diskless {
		if c.DiskMiB != 0 || c.DiskFormat != "" || c.DiskSerial != "" || c.DefaultBoot == Disk {
			return c, errors.New("it has no disk, and its disk's size, format or serial is given, or it boots from one")
		}
		c.DefaultBoot = Network
		return c, nil
	}
	if c.DiskSerial == "" {
		c.DiskSerial = c.Name[:min(len(c.Name), 15)] + "-disk"
	}
	if c.DiskMiB == 0 {
		c.DiskMiB = 4096
	}
	if c.DiskFormat == "" {
		c.DiskFormat = Raw
	}
	if c.DiskFormat != Raw && c.DiskFormat != QCOW2 {
		return c, fmt.Errorf("disk format %q is neither raw nor qcow2", c.DiskFormat)
	}
	if c.DefaultBoot == "" {
		c.DefaultBoot = Disk
	}
	if c.DefaultBoot != Disk && c.DefaultBoot != Network {
		return c, fmt.Errorf("default boot device %q is neither disk nor network", c.DefaultBoot)
	}
	return c, nil
}

// boots says why the machine cannot be told to boot a device, nil if it can.
func (c Config) boots(device string) error {
	switch device {
	case Disk:
		if c.Diskless {
			return ErrNoDisk
		}
		return nil
	case Media:
		if c.NoCD {
			return errNoCD
		}
		return nil
	case Stick:
		switch {
		case !c.USBStick:
			return stick.none
		case c.BootByVariables:
			return refused{errors.New("its boot order is that of its variables, which name no USB stick")}
		}
		return nil
	case Network:
		return nil
	case HTTP:
		return c.networkByVariables()
	}
	return refused{fmt.Errorf("boot device %q is neither network, disk, media, stick nor http", device)}
}

// networkByVariables says why variables cannot make the firmware boot by its card.
func (c Config) networkByVariables() error {
	if err := c.orderByVariables(); err != nil || c.Tap != "" {
		return err
	}
	return ErrNoCard
}

// orderByVariables says why variables do not decide the boot order.
func (c Config) orderByVariables() error {
	switch {
	case c.Firmware != UEFI:
		return ErrNoVariables
	case !c.BootByVariables:
		return ErrOrderByQEMU
	}
	return nil
}
