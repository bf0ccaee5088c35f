// Package networkboot is the boot interfaces that load the ramdisk over the
// network: ipxe (kernel and ramdisk by HTTP) and pxe (by TFTP). With http-ipxe UEFI firmware loads iPXE by HTTP, too. With
// http it loads kernel, ramdisk and command line as one program, which may be signed. Nothing is written
// per node: rackd's netboot generates each script from what the task's facts say,
// and here the facts, the boot mode and the boot device are set.
//
// An instance that is a volume boots by the script, too. Interfaces of iLOs leave that to UEFI firmware.
//
// It may import rackd/driver, rackd/driver/ownramdisk, rackd/driver/installer, rackd/driver/instancefiles,
// rackd/driver/volume, rackd/bootorder and protocol.
package networkboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/installer"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// Interface boots the ramdisk over the network, and the instance from its disk. Immutable, safe for concurrent use.
type Interface struct {
	overTFTP, byHTTP bool
	// byFirmware: the firmware of a machine in UEFI mode attaches its volume itself.
	byFirmware bool
	programs   bool            // the firmware loads the ramdisk as one program
	rack       ownramdisk.Rack // nil: what the rack has is not known, and it has no programs
}

// Scripted is an Interface of machines that get a boot script. It sends a machine to its instance at each start, also where that is
// no disk of the machine's.
type Scripted struct{ Interface }

// IPXE loads kernel and ramdisk by HTTP.
func IPXE() Scripted { return Scripted{} }

// PXE loads kernel and ramdisk by TFTP, for racks that filter HTTP.
func PXE() Scripted { return Scripted{Interface{overTFTP: true}} }

// HTTPIPXE has UEFI firmware load iPXE by HTTP, and iPXE kernel and ramdisk.
func HTTPIPXE() Scripted { return Scripted{Interface{byHTTP: true}} }

// Of is the interface for machines of a rack that has these ramdisks.
func (s Scripted) Of(r ownramdisk.Rack) Scripted {
	s.rack = r
	return s
}

// ByFirmware is the interface for machines whose UEFI firmware attaches the volume that they boot, as iLOs have it.
func (s Scripted) ByFirmware() Scripted {
	s.byFirmware = true
	return s
}

// HTTP has UEFI firmware load the ramdisk as one program by HTTP, and no boot program before it. A nil rack has none.
func HTTP(r ownramdisk.Rack) Interface { return Interface{byHTTP: true, programs: true, rack: r} }

// persistField of driver_info, with Ironic's name.
const persistField = "force_persistent_boot_device"

// Properties names what is read of the node.
func (i Interface) Properties() map[string]string {
	all := ownramdisk.Properties()
	if i.programs {
		for _, field := range ownFiles {
			all[field] = "Refused: the firmware loads the rack's program (rackd --uki), which holds kernel and ramdisk. Optional."
		}
		all[ownramdisk.ParamsField] = "Parameters for the ramdisk's agent, ipa-…. Others are refused: the command line of the kernel is in the rack's program (rackd --uki), under its signature. Optional, also in instance_info."
	}
	all[persistField] = "Default, Always or Never: whether to set the boot device for good or for one boot. " +
		"Default: for one boot into the ramdisk, for good into the instance. Optional."
	return all
}

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{ownramdisk.ParamsField} }

// Validate asks for a port that may boot from the network, and for URLs that can be
// loaded from.
func (i Interface) Validate(n *node.Document) error {
	switch f := n.DriverString(persistField); f {
	case "", "Default", "Always", "Never":
	default:
		return fmt.Errorf("node %s: driver_info %s is %q: give Default, Always or Never: %w", n.Label(), persistField, f, driver.ErrInvalid)
	}
	files := i.rack
	if i.programs {
		files = nil // it needs no others
		if err := refuseFiles(n); err != nil {
			return err
		}
	}
	if err := ownramdisk.Validate(n, files, ""); err != nil {
		return err
	}
	if err := i.checkMode(n); err != nil {
		return err
	}
	if i.programs {
		if err := i.validateProgram(n); err != nil {
			return err
		}
	}
	for _, p := range n.Ports {
		if p.PXEEnabled {
			return nil
		}
	}
	return fmt.Errorf("node %s has %d ports, none of them with pxe_enabled: create a port for the MAC address that boots from the network: %w",
		n.Label(), len(n.Ports), driver.ErrInvalid)
}

// checkMode refuses a boot by HTTP for a machine in BIOS mode.
func (i Interface) checkMode(n *node.Document) error {
	if i.byHTTP && n.BootMode() != "uefi" {
		return fmt.Errorf("node %s: its boot mode is %s, and only UEFI firmware boots by HTTP: %w", n.Label(), n.BootMode(), driver.ErrInvalid)
	}
	return nil
}

// ValidateRescue checks the URLs of a node's own kernel and ramdisk for rescues, and that the rack has some for a node that names none.
func (i Interface) ValidateRescue(n *node.Document) error {
	if i.programs {
		return i.lacksProgram(n, true)
	}
	return ownramdisk.ValidateRescue(n, i.rack, "")
}

// RamdiskOrder loads an installer where the deploy is by one, else the node's own kernel and ramdisk, or the rack's.
func (i Interface) RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order {
	o, installs := installer.Order(n, facts)
	if !installs {
		o = bootorder.Ramdisk(ownramdisk.Load(n, facts))
	}
	o.OverTFTP, o.Direct = i.overTFTP, i.programs
	return o
}

// ValidateVolume implements driver.VolumeBooter.
func (s Scripted) ValidateVolume(h *driver.Hardware, n *node.Document) error {
	if s.asksFirmware(n) {
		return volume.ValidateFirmware(h, n)
	}
	return nil
}

// AdoptVolume implements driver.VolumeBooter. A machine that asks the network is told of its volume each time.
func (s Scripted) AdoptVolume(ctx context.Context, t *driver.Task) error {
	if s.asksFirmware(t.Node) {
		return volume.AdoptFirmware(ctx, t)
	}
	return nil
}

// asksFirmware reports whether the machine's firmware attaches a volume, and not iPXE.
func (i Interface) asksFirmware(n *node.Document) bool { return i.byFirmware && n.BootMode() == "uefi" }

// InstanceOrder has the machine attach its volume, loads the instance's own files, or sends the machine to its disk. A firmware that
// attaches the volume itself goes on with its next boot option.
func (i Interface) InstanceOrder(n *node.Document, facts map[string]string) bootorder.Order {
	o := bootorder.LocalDisk()
	own, loads := instancefiles.Order(n, facts)
	switch boots := volume.Boots(n); {
	case boots && i.asksFirmware(n):
		o = bootorder.FirmwareVolume()
	case boots:
		o = volume.Order(n)
	case loads:
		o = own
	}
	o.OverTFTP, o.Direct = i.overTFTP, i.programs
	return o
}

// PrepareRamdisk makes the next boot one into the ramdisk.
func (i Interface) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	if t.Facts[driver.FactInstaller] == "" { // else its files are there
		if err := ownramdisk.Fetch(ctx, t); err != nil {
			return err
		}
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := driver.SetBootMode(ctx, t); err != nil {
		return err
	}
	if err := i.checkMode(t.Node); err != nil { // of a node that asks for no mode the machine's counts, which is known now
		return err
	}
	return i.setNetwork(ctx, t, false)
}

// setNetwork makes the machine boot from the network, once or for good.
func (i Interface) setNetwork(ctx context.Context, t *driver.Task, persistent bool) error {
	if i.byHTTP {
		return setHTTP(ctx, t, persistent)
	}
	return setDevice(ctx, t, driver.BootPXE, persistent)
}

// CleanUpRamdisk forgets the ramdisk: a boot from the network gets nothing.
func (i Interface) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// ValidateInstanceFiles implements driver.InstanceBooter.
func (Scripted) ValidateInstanceFiles(n *node.Document) error { return instancefiles.Validate(n) }

// BootsInstallers implements driver.InstallerBooter.
func (Scripted) BootsInstallers() {}

// BootsInstances implements driver.NetworkBooter.
func (Scripted) BootsInstances() {}

// PrepareInstance makes the machine boot its disk or its volume from now on, or ask the network at each start, which then says
// what its instance is.
func (i Interface) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	attaches := volume.Boots(t.Node)
	if !attaches {
		if err := i.clear(ctx, t); err != nil {
			return err
		}
	}
	if _, loads := instancefiles.Order(t.Node, t.Facts); !attaches && !loads && !driver.NetbootAsked(t.Node) {
		return setDevice(ctx, t, driver.BootDisk, true)
	}
	if err := driver.SetBootMode(ctx, t); err != nil { // no ramdisk may have booted before
		return err
	}
	switch {
	case attaches && i.asksFirmware(t.Node):
		return volume.PrepareFirmware(ctx, t)
	case attaches:
		if err := volume.ClearFormer(ctx, t); err != nil {
			return err
		}
	}
	return i.setNetwork(ctx, t, true)
}

// clear takes from the firmware a volume that the machine is not to boot: one of an instance before, or of another boot interface.
func (i Interface) clear(ctx context.Context, t *driver.Task) error {
	if i.byFirmware {
		return volume.ClearFirmware(ctx, t)
	}
	return volume.ClearFormer(ctx, t)
}

// CleanUpInstance forgets the instance, so that a machine that asks the network gets nothing: it goes on to ask there. It takes a volume
// from the firmware; a machine that boots that at each start boots its disk instead.
func (i Interface) CleanUpInstance(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	if !i.byFirmware {
		return nil
	}
	failed := volume.ClearFirmware(ctx, t)
	if volume.Boots(t.Node) && i.asksFirmware(t.Node) || t.BootWasSet(driver.BootISCSI) {
		failed = errors.Join(failed, setDevice(ctx, t, driver.BootDisk, true))
	}
	return failed
}

// setDevice sets the boot device. Hardware that cannot is left alone: its own
// boot order decides, and the agent that does not call back tells.
func setDevice(ctx context.Context, t *driver.Task, d driver.BootDevice, asked bool) error {
	if _, fixed := t.Hardware.Management().(driver.FixedBootOrder); fixed {
		t.Record.Phase("boot device", fmt.Sprintf("nothing can set it to %s: the machine has to try the network first and then its disk", d))
	}
	persistent := persists(t, asked)
	err := driver.Settle(func() error { return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, d, persistent) })
	t.Keep()
	if errors.Is(err, driver.ErrUnsupported) {
		t.Record.Phase("boot device", fmt.Sprintf("not set to %s, the machine's own boot order decides: %v", d, err))
		return nil
	}
	if err == nil {
		t.BootFor(d, asked, persistent)
	}
	return err
}
