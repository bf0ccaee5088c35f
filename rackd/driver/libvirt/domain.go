package libvirt

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// devices pairs the boot devices of both sides.
var devices = []struct {
	device driver.BootDevice
	name   string
}{{driver.BootPXE, "network"}, {driver.BootDisk, "hd"}, {"cdrom", "cdrom"}, {"floppy", "fd"}}

// What is looked for in libvirt's description of a machine. libvirt writes it from what it has read, always in this form.
var (
	bootDev   = regexp.MustCompile(`(?s)<os\b.*?<boot dev='([a-z]+)'/>`)
	bootLines = regexp.MustCompile(`[ \t]*<boot (?:dev|order)='[^']*'[^>]*/>\n?`)
	bootOrder = regexp.MustCompile(`<boot order='`)
	efi       = regexp.MustCompile(`<os firmware='efi'|<loader [^>]*type='pflash'`)
	machineID = regexp.MustCompile(`<uuid>([0-9a-f-]{36})</uuid>`)
	kind      = regexp.MustCompile(`<domain [^>]*type='([a-z0-9]+)'|<domain type='([a-z0-9]+)'`)
	hostsID   = regexp.MustCompile(`<smbios mode='(host|sysinfo)'`)
)

// uuidOf reads a UUID.
func uuidOf(text string) (id golibvirt.UUID, ok bool) {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != len(id) || len(text) != 36 {
		return id, false
	}
	copy(id[:], raw)
	return id, true
}

// xml reads the description by which the machine is started next, with what is secret in it.
func (s *session) xml(ctx context.Context, domain golibvirt.Domain) (text string, err error) {
	err = s.read(ctx, func() (err error) {
		text, err = s.rpc.DomainGetXMLDesc(domain, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
		return err
	})
	return text, err
}

// describe runs look on the machine's description.
func (d *Driver) describe(ctx context.Context, n *node.Document, doing string, look func(string) error) error {
	return d.with(ctx, n, doing, func(s *session, domain golibvirt.Domain) error {
		text, err := s.xml(ctx, domain)
		if err != nil {
			return err
		}
		return look(text)
	})
}

// Account implements driver.Accounted: the host's, which its machines share.
func (*Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	sum := t.sum()
	return hex.EncodeToString(sum[:])
}

// LocatesBMC implements driver.Located: a virtual machine has none to look for.
func (*Driver) LocatesBMC() {}

// SupportedBootDevices are the same for all machines.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) (list []driver.BootDevice, err error) {
	for _, d := range devices {
		list = append(list, d.device)
	}
	return list, nil
}

// BootDevice reads the device that is tried first; empty where devices have an order of their own.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.describe(ctx, n, "read the boot device", func(text string) error {
		name := FirstDevice(text)
		for _, d := range devices {
			if d.name == name {
				lasts := true
				found = ask.BootDevice{Device: string(d.device), Persistent: &lasts}
			}
		}
		return nil
	})
	return found, err
}

// SetBootDevice makes a device the only one that the machine boots from. It counts at its next start, and lasts, also where it
// is asked for once.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	i := slices.IndexFunc(devices, func(m struct {
		device driver.BootDevice
		name   string
	}) bool {
		return m.device == device
	})
	if i < 0 {
		return fmt.Errorf("node %s: libvirt knows no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(s *session, domain golibvirt.Domain) error {
		text, err := s.xml(ctx, domain)
		if err != nil {
			return err
		}
		wanted, err := BootFrom(text, devices[i].name)
		if err != nil || wanted == text {
			return err
		}
		return s.write(ctx, f, func() error {
			_, err := s.rpc.DomainDefineXML(wanted)
			return err
		})
	})
}

// FirstDevice is the boot device that a description has first, in libvirt's words; empty where devices have an order of their own.
func FirstDevice(text string) string {
	name := bootDev.FindStringSubmatch(text)
	if name == nil || bootOrder.MatchString(text) {
		return ""
	}
	return name[1]
}

// BootFrom is a description with one boot device, in libvirt's words. One that has it alone is returned as it is.
func BootFrom(text, name string) (string, error) {
	element := "<boot dev='" + name + "'/>"
	if strings.Count(text, "<boot ") == 1 && strings.Contains(text, element) {
		return text, nil
	}
	bare := bootLines.ReplaceAllString(text, "")
	before, after, found := strings.Cut(bare, "</os>")
	if !found {
		return "", fmt.Errorf("describes the machine without its firmware (<os>): %w", driver.ErrUnsupported)
	}
	return strings.TrimRight(before, " \t") + "    " + element + "\n  </os>" + after, nil
}

// BootMode reads how the machine's firmware boots.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = d.describe(ctx, n, "read the boot mode", func(text string) error {
		mode = modeOf(text)
		return nil
	})
	return mode, err
}

func modeOf(text string) string {
	if efi.MatchString(text) {
		return "uefi"
	}
	return "bios"
}

// SetBootMode refuses another mode than the machine has: firmware of the other needs other disks and variables.
func (d *Driver) SetBootMode(ctx context.Context, _ driver.Fence, n *node.Document, mode string) error {
	if mode != "uefi" && mode != "bios" {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), mode, driver.ErrInvalid)
	}
	return d.describe(ctx, n, "set the boot mode to "+mode, func(text string) error {
		if is := modeOf(text); is != mode {
			return fmt.Errorf("has the machine with firmware for %s: define it with other firmware: %w", is, driver.ErrUnsupported)
		}
		return nil
	})
}

// Identity is what QEMU tells the machine about itself, where its description does not say otherwise.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.describe(ctx, n, "read the identity", func(text string) error {
		is, uuid := kind.FindStringSubmatch(text), machineID.FindStringSubmatch(text)
		if is == nil || uuid == nil || is[1]+is[2] != "kvm" && is[1]+is[2] != "qemu" || hostsID.MatchString(text) {
			return fmt.Errorf("does not say what the machine is told about itself: %w", driver.ErrUnsupported)
		}
		id = driver.Identity{UUID: uuid[1], Manufacturer: "QEMU"}
		return nil
	})
	return id, err
}
