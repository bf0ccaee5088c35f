// Package mediaboot is the boot interface "redfish-virtual-media": the BMC shows an
// image to its machine as a CD, and the machine boots that. No DHCP, TFTP or boot script
// is needed.
//
// It may import rackd/driver and protocol. The ramdisk must come as an image, driver_info
// deploy_iso, that knows the address of the control plane's API; images made of a kernel
// and a ramdisk are not built here.
package mediaboot

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Fields with Ironic's names: of driver_info, and of instance_info.
const (
	fieldRamdisk  = "deploy_iso"
	persistField  = "force_persistent_boot_device"
	fieldInstance = "boot_iso"
)

// drive is the type of drive that images go into, and bootDrive the boot device.
const (
	drive     = "cdrom"
	bootDrive = driver.BootDevice("cdrom")
)

// Interface implements driver.Boot. Safe for concurrent use.
type Interface struct{}

// Properties names what is read of the node.
func (Interface) Properties() map[string]string {
	return map[string]string{
		fieldRamdisk: "URL (http or https) of the ramdisk as a bootable image, which its BMC loads; the agent in it must know the URL of this API. Required for all but ramdisk deploys.",
		persistField: "Default, Always or Never: whether to set the boot device for good or for one boot. " +
			"Default: for one boot into the ramdisk, for good into the instance. Optional.",
	}
}

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{fieldInstance} }

// Validate asks for an image that the BMC can load.
func (Interface) Validate(n *node.Document) error {
	_, own := n.InstanceInfo[fieldInstance].(string)
	text := n.DriverString(fieldRamdisk)
	if text == "" && own {
		return nil
	}
	if text == "" {
		return fmt.Errorf("node %s: driver_info has no %s, the URL of the ramdisk as a bootable image: %w", n.Label(), fieldRamdisk, driver.ErrInvalid)
	}
	return check(n, "driver_info "+fieldRamdisk, text)
}

func check(n *node.Document, field, text string) error {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("node %s: %s is not an http or https URL: %w", n.Label(), field, driver.ErrInvalid)
	}
	return nil
}

// RamdiskOrder says that there is nothing for the machine on the network.
func (Interface) RamdiskOrder(n *node.Document, _ map[string]string) bootorder.Order {
	return bootorder.Refuse(fmt.Sprintf("Node %s boots its ramdisk from a virtual medium, and not from the network: see which boot device its BMC has set.", n.Label()))
}

// InstanceOrder sends a machine that asks the network to its disk.
func (Interface) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.LocalDisk()
}

// BootsImages: an instance may be an image.
func (Interface) BootsImages() {}

// PrepareRamdisk makes the next boot one from the ramdisk's image.
func (i Interface) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	text := t.Node.DriverString(fieldRamdisk)
	if text == "" {
		return fmt.Errorf("node %s: driver_info has no %s, the URL of the ramdisk as a bootable image: %w", t.Node.Label(), fieldRamdisk, driver.ErrInvalid)
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := insert(ctx, t, text); err != nil {
		return err
	}
	remember(ctx, t, text)
	return device(ctx, t, bootDrive, false)
}

// BootsFromMedium says that the machine may read from the image for as long as it runs the ramdisk.
func (Interface) BootsFromMedium() {}

// CleanUpRamdisk takes the ramdisk's image out. What an operator has put in stays.
func (i Interface) CleanUpRamdisk(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	m, err := media(t)
	if err != nil {
		return err
	}
	err = driver.Settle(func() error { return m.EjectImage(ctx, t.Fence, t.Node, drive, ours(t)) })
	if errors.Is(err, driver.ErrUnsupported) && t.Facts[factImages] == "" {
		return nil // nothing was ever inserted
	}
	return err
}

// PrepareInstance makes the machine boot the instance's image, or its disk, from now on.
func (i Interface) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	if text, _ := t.Node.InstanceInfo[fieldInstance].(string); text != "" {
		if err := insert(ctx, t, text); err != nil {
			return err
		}
		return device(ctx, t, bootDrive, true)
	}
	if err := eject(ctx, t); err != nil {
		return err
	}
	return device(ctx, t, driver.BootDisk, true)
}

// CleanUpInstance takes the instance's image out.
func (i Interface) CleanUpInstance(ctx context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return eject(ctx, t)
}

func insert(ctx context.Context, t *driver.Task, text string) error {
	if err := check(t.Node, "the image to boot", text); err != nil {
		return err
	}
	m, err := media(t)
	if err != nil {
		return err
	}
	// An image that is in the drive already is left there, so a write of which the
	// outcome is unknown may be made again.
	if err := driver.Settle(func() error { return m.AttachMedia(ctx, t.Fence, t.Node, drive, text) }); err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	// Who is allowed to read an image may stand in its URL.
	t.Record.Phase("virtual media", "the BMC shows "+u.Host+u.Path)
	return nil
}

func eject(ctx context.Context, t *driver.Task) error {
	m, err := media(t)
	if err != nil {
		return err
	}
	return driver.Settle(func() error { return m.DetachMedia(ctx, t.Fence, t.Node, []string{drive}) })
}

func media(t *driver.Task) (driver.VirtualMedia, error) {
	m, can := t.Hardware.Management().(driver.VirtualMedia)
	if !can {
		return nil, driver.Unsupported(t.Node, "management", "virtual media")
	}
	return m, nil
}

// device sets the boot device, unless the field force_persistent_boot_device of
// driver_info says otherwise for as long as persistent says.
func device(ctx context.Context, t *driver.Task, d driver.BootDevice, persistent bool) error {
	switch t.Node.DriverString(persistField) {
	case "Always":
		persistent = true
	case "Never":
		persistent = false
	}
	defer t.Keep()
	err := driver.Settle(func() error { return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, d, persistent) })
	if err == nil && persistent {
		t.BootSet(d)
	}
	return err
}
