package ilo

import (
	"context"
	"fmt"
	"net/url"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// fieldRamdisk is Ironic's field of the ramdisk as an image.
const fieldRamdisk = "deploy_iso"

// HTTPSBoot is the boot interface ilo-uefi-https: the firmware itself loads the ramdisk's image by HTTPS. The iLO must trust
// the server's certificate.
type HTTPSBoot struct{}

// Properties implements driver.Interface.
func (HTTPSBoot) Properties() map[string]string {
	return map[string]string{fieldRamdisk: "HTTPS URL of the ramdisk as a bootable image, which the firmware loads; the agent in it must know the URL of this API. Required."}
}

// Validate implements driver.Interface.
func (HTTPSBoot) Validate(n *node.Document) error {
	if n.BootMode() != "uefi" {
		return fmt.Errorf("node %s: boot by HTTPS needs the boot mode uefi: %w", n.Label(), driver.ErrInvalid)
	}
	text := n.DriverString(fieldRamdisk)
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "https" {
		return fmt.Errorf("node %s: driver_info %s is not an https URL: %w", n.Label(), fieldRamdisk, driver.ErrInvalid)
	}
	return nil
}

// ValidateWith implements driver.Paired.
func (HTTPSBoot) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if _, can := h.Management().(driver.HTTPBooter); !can {
		return driver.Unsupported(n, "management", "boot by UEFI HTTP")
	}
	return nil
}

// RamdiskOrder says that there is nothing for the machine on the network's scripts.
func (HTTPSBoot) RamdiskOrder(n *node.Document, _ map[string]string) bootorder.Order {
	return bootorder.Refuse(fmt.Sprintf("The firmware of node %s loads its ramdisk by HTTPS itself: see which boot device its BMC has set.", n.Label()))
}

// InstanceOrder sends a machine that asks the network to its disk.
func (HTTPSBoot) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.LocalDisk()
}

// PrepareRamdisk makes the next boot one from the ramdisk's URL.
func (b HTTPSBoot) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	if err := b.Validate(t.Node); err != nil {
		return err
	}
	m, can := t.Hardware.Management().(driver.HTTPBooter)
	if !can {
		return driver.Unsupported(t.Node, "management", "boot by UEFI HTTP")
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := driver.SetBootMode(ctx, t); err != nil {
		return err
	}
	if err := b.Validate(t.Node); err != nil { // of a node that asks for no mode the machine's counts, which is known now
		return err
	}
	defer t.Keep()
	return driver.Settle(func() error { return m.SetHTTPBoot(ctx, t.Fence, t.Node, t.Node.DriverString(fieldRamdisk), false) })
}

// CleanUpRamdisk forgets the ramdisk. The override was for one boot.
func (HTTPSBoot) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// PrepareInstance makes the machine boot its disk from now on.
func (HTTPSBoot) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	err := driver.Settle(func() error {
		return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, driver.BootDisk, true)
	})
	t.Keep()
	if err == nil {
		t.BootSet(driver.BootDisk)
	}
	return err
}

// CleanUpInstance forgets the instance.
func (HTTPSBoot) CleanUpInstance(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}
