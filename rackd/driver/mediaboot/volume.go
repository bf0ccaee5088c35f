package mediaboot

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// ValidateVolume implements driver.VolumeBooter: the firmware of machines in UEFI mode attaches the volume.
func (i Interface) ValidateVolume(h *driver.Hardware, n *node.Document) error {
	if err := needsUEFI(n); err != nil {
		return err
	}
	return volume.ValidateFirmware(h, n)
}

// AdoptVolume implements driver.VolumeBooter.
func (Interface) AdoptVolume(ctx context.Context, t *driver.Task) error {
	return volume.AdoptFirmware(ctx, t)
}

// needsUEFI refuses a volume in BIOS mode, with the words of Ironic's iLO driver.
func needsUEFI(n *node.Document) error {
	if n.BootMode() == "bios" {
		return driver.Refuse("virtual media can not boot volume in bios mode.")
	}
	return nil
}

// fromVolume makes the machine boot its volume from now on.
func (i Interface) fromVolume(ctx context.Context, t *driver.Task) error {
	if err := needsUEFI(t.Node); err != nil {
		return err
	}
	if i.by == byDrive {
		if err := eject(ctx, t); err != nil {
			return err
		}
	}
	if err := driver.SetBootMode(ctx, t); err != nil { // no ramdisk was booted before
		return err
	}
	if err := needsUEFI(t.Node); err != nil { // of a node that asks for no mode the machine's counts, which is known now
		return err
	}
	return volume.PrepareFirmware(ctx, t)
}
