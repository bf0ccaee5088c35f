package cimc

import (
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/cisco"
)

// An IMC orders kinds of devices, and since 2.0 single devices.
const byKind, precise = unit + "/boot-policy", unit + "/boot-precision"

// The boot devices of both orders, and what they are if they have to be added, as Cisco's own SDK adds them.
var (
	kinds = []cisco.BootClass{{Device: driver.BootDisk, Class: "lsbootStorage"}, {Device: driver.BootPXE, Class: "lsbootLan"},
		{Device: "cdrom", Class: "lsbootVirtualMedia", Access: "read-only"}}
	newKinds = map[driver.BootDevice]cisco.Object{
		driver.BootDisk: cisco.New("lsbootStorage", "rn", "storage-read-write", "access", "read-write", "type", "storage"),
		driver.BootPXE:  cisco.New("lsbootLan", "rn", "lan-read-only", "access", "read-only", "type", "lan", "prot", "pxe"),
		"cdrom":         cisco.New("lsbootVirtualMedia", "rn", "vm-read-only", "access", "read-only", "type", "virtual-media"),
	}
	singles = []cisco.BootClass{{Device: driver.BootDisk, Class: "lsbootHdd"}, {Device: driver.BootDisk, Class: "lsbootPchStorage"}, {Device: driver.BootDisk, Class: "lsbootNVMe"},
		{Device: driver.BootPXE, Class: "lsbootPxe"}, {Device: "cdrom", Class: "lsbootVMedia"}}
	newSingles = map[driver.BootDevice]cisco.Object{
		driver.BootDisk: cisco.New("lsbootHdd", "rn", "hdd-hdd", "name", "hdd", "type", "LOCALHDD", "state", "Enabled"),
		driver.BootPXE:  cisco.New("lsbootPxe", "rn", "pxe-pxe", "name", "pxe", "type", "PXE", "subtype", "PXE", "state", "Enabled"),
		"cdrom":         cisco.New("lsbootVMedia", "rn", "vm-vmedia", "name", "vmedia", "type", "VMEDIA", "subtype", "kvm-mapped-dvd", "state", "Enabled"),
	}
)

// bootOrder is the order that counts.
type bootOrder struct {
	policy  cisco.Object
	at      string
	classes []cisco.BootClass
	fresh   map[driver.BootDevice]cisco.Object
}

func read(ctx context.Context, s *cisco.Session) (bootOrder, error) {
	o, found, err := s.Resolve(ctx, precise, true)
	if err != nil {
		return bootOrder{}, err
	}
	if found && slices.ContainsFunc(o.Children, func(c cisco.Object) bool { return c.Get("order") != "" }) {
		return bootOrder{o, precise, singles, newSingles}, nil
	}
	if o, found, err = s.Resolve(ctx, byKind, true); err == nil && !found {
		err = &bmc.Failure{Class: bmc.Unsupported, Said: "that it has no boot order"}
	}
	return bootOrder{o, byKind, kinds, newKinds}, err
}

// SupportedBootDevices are the same for all servers.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) (list []driver.BootDevice, err error) {
	for _, c := range kinds {
		list = append(list, c.Device)
	}
	return list, nil
}

// BootDevice reads the first device of the order; empty for one that has no name here.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (found ask.BootDevice, err error) {
	err = d.with(ctx, n, "read the boot device", func(s *cisco.Session) error {
		o, err := read(ctx, s)
		if device := cisco.First(o.policy, o.classes); device != "" {
			lasts := true
			found = ask.BootDevice{Device: string(device), Persistent: &lasts}
		}
		return err
	})
	return found, err
}

// SetBootDevice puts a device first. It counts at the server's next start, and lasts, also where it is asked for once.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, _ bool) error {
	if newKinds[device].Class() == "" {
		return fmt.Errorf("node %s: Invalid boot device %s specified; an IMC has disk, pxe and cdrom: %w", n.Label(), device, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the boot device to %s", device), func(s *cisco.Session) error {
		o, err := read(ctx, s)
		if err != nil || cisco.First(o.policy, o.classes) == device {
			return err
		}
		list, found := cisco.Reorder(o.policy, o.classes, device)
		if !found {
			list = cisco.Numbered(append([]cisco.Object{o.fresh[device]}, list...))
		}
		for i := range list {
			list[i] = list[i].Below()
		}
		if err := s.Configure(ctx, f, cisco.New(o.policy.Class(), "dn", o.at, "rebootOnUpdate", "no").With(list...)); err != nil {
			return err
		}
		if o, err = read(ctx, s); err != nil {
			return err
		}
		return cisco.Kept(o.policy, o.classes, device)
	})
}

// modes are the IMC's words for boot modes.
var modes = map[string]string{"Uefi": "uefi", "Legacy": "bios"}

func mode(ctx context.Context, s *cisco.Session) (string, error) {
	o, found, err := s.Resolve(ctx, precise, false)
	if err != nil {
		return "", err
	}
	if is := modes[o.Get("configuredBootMode")]; found && is != "" {
		return is, nil
	}
	return "", &bmc.Failure{Class: bmc.Unsupported, Said: "that it has no boot mode"}
}

// BootMode reads how the server's firmware boots. IMCs with an order by kinds alone do not tell.
func (d *Driver) BootMode(ctx context.Context, n *node.Document) (is string, err error) {
	err = d.with(ctx, n, "read the boot mode", func(s *cisco.Session) (err error) { is, err = mode(ctx, s); return err })
	return is, err
}

// SetBootMode writes the boot mode. It counts at the server's next start.
func (d *Driver) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, wanted string) error {
	word := map[string]string{"uefi": "Uefi", "bios": "Legacy"}[wanted]
	if word == "" {
		return fmt.Errorf("node %s: boot mode %q: give uefi or bios: %w", n.Label(), wanted, driver.ErrInvalid)
	}
	return d.with(ctx, n, "set the boot mode to "+wanted, func(s *cisco.Session) error {
		is, err := mode(ctx, s)
		if err != nil || is == wanted {
			return err
		}
		if err := s.Configure(ctx, f, cisco.New("lsbootDevPrecision", "dn", precise, "configuredBootMode", word, "rebootOnUpdate", "no")); err != nil {
			return err
		}
		if is, err = mode(ctx, s); err == nil && is != wanted {
			err = &bmc.Failure{Said: "that all is well, and has the boot mode " + is + " still"}
		}
		return err
	})
}
