// Package networkboot is the boot interfaces that load the ramdisk over the
// network: ipxe (kernel and ramdisk by HTTP) and pxe (by TFTP). Nothing is written
// per node: rackd's netboot generates each script from what the task's facts say,
// and here the facts, the boot mode and the boot device are set.
//
// It may import rackd/driver, rackd/driver/ownramdisk, rackd/driver/instancefiles,
// rackd/bootorder and protocol.
package networkboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// Interface boots over the network. Immutable, safe for concurrent use.
type Interface struct{ overTFTP bool }

// IPXE loads kernel and ramdisk by HTTP.
func IPXE() Interface { return Interface{} }

// PXE loads kernel and ramdisk by TFTP, for racks that filter HTTP.
func PXE() Interface { return Interface{overTFTP: true} }

// persistField of driver_info, with Ironic's name.
const persistField = "force_persistent_boot_device"

// Properties names what is read of the node.
func (Interface) Properties() map[string]string {
	all := ownramdisk.Properties()
	all[persistField] = "Default, Always or Never: whether to set the boot device for good or for one boot. " +
		"Default: for one boot into the ramdisk, for good into the instance. Optional."
	return all
}

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{ownramdisk.ParamsField} }

// Validate asks for a port that may boot from the network, and for URLs that can be
// loaded from.
func (Interface) Validate(n *node.Document) error {
	switch f := n.DriverString(persistField); f {
	case "", "Default", "Always", "Never":
	default:
		return fmt.Errorf("node %s: driver_info %s is %q: give Default, Always or Never: %w", n.Label(), persistField, f, driver.ErrInvalid)
	}
	if err := ownramdisk.Validate(n, ""); err != nil {
		return err
	}
	for _, p := range n.Ports {
		if p.PXEEnabled {
			return nil
		}
	}
	return fmt.Errorf("node %s has %d ports, none of them with pxe_enabled: create a port for the MAC address that boots from the network: %w",
		n.Label(), len(n.Ports), driver.ErrInvalid)
}

// ValidateRescue checks the URLs of a node's own kernel and ramdisk for rescues; racks says that the rack has a ramdisk for them.
func (Interface) ValidateRescue(n *node.Document, racks bool) error {
	return ownramdisk.ValidateRescue(n, racks, "")
}

// RamdiskOrder loads the node's own kernel and ramdisk, or the rack's.
func (i Interface) RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order {
	o := bootorder.Ramdisk(ownramdisk.Load(n, facts))
	o.OverTFTP = i.overTFTP
	return o
}

// InstanceOrder loads the instance's own files, or sends the machine to its disk.
func (i Interface) InstanceOrder(n *node.Document, facts map[string]string) bootorder.Order {
	o, loads := instancefiles.Order(n, facts)
	if !loads {
		o = bootorder.LocalDisk()
	}
	o.OverTFTP = i.overTFTP
	return o
}

// PrepareRamdisk makes the next boot one into the ramdisk.
func (i Interface) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	if err := ownramdisk.Fetch(ctx, t); err != nil {
		return err
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := driver.SetBootMode(ctx, t); err != nil {
		return err
	}
	return setDevice(ctx, t, driver.BootPXE, false)
}

// CleanUpRamdisk forgets the ramdisk: a boot from the network gets nothing.
func (i Interface) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// ValidateInstanceFiles implements driver.InstanceBooter.
func (Interface) ValidateInstanceFiles(n *node.Document) error { return instancefiles.Validate(n) }

// BootsInstances implements driver.NetworkBooter.
func (Interface) BootsInstances() {}

// PrepareInstance makes the machine boot its disk from now on, or ask the network at each start, which then says what its
// instance is.
func (i Interface) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	if _, loads := instancefiles.Order(t.Node, t.Facts); loads || driver.NetbootAsked(t.Node) {
		if err := driver.SetBootMode(ctx, t); err != nil { // no ramdisk may have booted before
			return err
		}
		return setDevice(ctx, t, driver.BootPXE, true)
	}
	return setDevice(ctx, t, driver.BootDisk, true)
}

// CleanUpInstance forgets the instance.
func (i Interface) CleanUpInstance(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// setDevice sets the boot device. Hardware that cannot is left alone: its own
// boot order decides, and the agent that does not call back tells.
func setDevice(ctx context.Context, t *driver.Task, d driver.BootDevice, persistent bool) error {
	if _, fixed := t.Hardware.Management().(driver.FixedBootOrder); fixed {
		t.Record.Phase("boot device", fmt.Sprintf("nothing can set it to %s: the machine has to try the network first and then its disk", d))
	}
	switch t.Node.DriverString(persistField) {
	case "Always":
		persistent = true
	case "Never":
		persistent = false
	}
	err := driver.Settle(func() error { return t.Hardware.Management().SetBootDevice(ctx, t.Fence, t.Node, d, persistent) })
	t.Keep()
	if errors.Is(err, driver.ErrUnsupported) {
		t.Record.Phase("boot device", fmt.Sprintf("not set to %s, the machine's own boot order decides: %v", d, err))
		return nil
	}
	if err == nil && persistent {
		t.BootSet(d)
	}
	return err
}
