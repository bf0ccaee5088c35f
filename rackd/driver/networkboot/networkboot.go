// Package networkboot is the boot interfaces that load the ramdisk over the
// network: ipxe (kernel and ramdisk by HTTP) and pxe (by TFTP). Nothing is written
// per node: rackd's netboot generates each script from what the task's facts say,
// and here the facts, the boot mode and the boot device are set.
//
// It may import rackd/driver and protocol.
package networkboot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Interface boots over the network. Immutable, safe for concurrent use.
type Interface struct{ overTFTP bool }

// IPXE loads kernel and ramdisk by HTTP.
func IPXE() Interface { return Interface{} }

// PXE loads kernel and ramdisk by TFTP, for racks that filter HTTP.
func PXE() Interface { return Interface{overTFTP: true} }

// Fields of driver_info, with Ironic's names.
const (
	persistField = "force_persistent_boot_device"
	kernelField  = "deploy_kernel"
	ramdiskField = "deploy_ramdisk"
	paramsField  = "kernel_append_params"
)

// Properties names what is read of the node.
func (Interface) Properties() map[string]string {
	return map[string]string{
		persistField: "Default, Always or Never: whether to set the boot device for good or for one boot. " +
			"Default: for one boot into the ramdisk, for good into the instance. Optional.",
		kernelField:  "URL (http, https, file, tftp) of the ramdisk's kernel. Default: the rackd's own. Optional.",
		ramdiskField: "URL of the ramdisk, to be given together with " + kernelField + ". Optional.",
		paramsField:  "Kernel parameters for the ramdisk. The word %default% stands for the rackd's own. Parameters that say which servers the agent calls and trusts are refused. Optional, also in instance_info, which counts in a deploy, a rebuild and a rescue.",
	}
}

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{paramsField} }

// Validate asks for a port that may boot from the network, and for URLs that can be
// loaded from.
func (Interface) Validate(n *node.Document) error {
	switch f := n.DriverString(persistField); f {
	case "", "Default", "Always", "Never":
	default:
		return fmt.Errorf("node %s: driver_info %s is %q: give Default, Always or Never: %w", n.Label(), persistField, f, driver.ErrInvalid)
	}
	if err := errors.Join(validateFiles(n), validateParams(n)); err != nil {
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

// RamdiskOrder loads the node's own kernel and ramdisk, or the rack's.
func (i Interface) RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order {
	o := bootorder.Ramdisk(bootorder.Load{
		Kernel:    bootorder.File{URL: n.DriverString(kernelField), ID: facts[driver.FactKernel]},
		Initramfs: bootorder.File{URL: n.DriverString(ramdiskField), ID: facts[driver.FactRamdisk]},
		Params:    params(n),
	})
	o.OverTFTP = i.overTFTP
	return o
}

// InstanceOrder sends the machine to its disk.
func (i Interface) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	o := bootorder.LocalDisk()
	o.OverTFTP = i.overTFTP
	return o
}

// PrepareRamdisk makes the next boot one into the ramdisk.
func (i Interface) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	if err := fetchFiles(ctx, t); err != nil {
		return err
	}
	t.Facts[driver.FactBoot] = driver.BootRamdisk
	if err := setMode(ctx, t); err != nil {
		return err
	}
	return setDevice(ctx, t, driver.BootPXE, false)
}

// CleanUpRamdisk forgets the ramdisk: a boot from the network gets nothing.
func (i Interface) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// PrepareInstance makes the machine boot its disk from now on.
func (i Interface) PrepareInstance(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot] = driver.BootInstance
	return setDevice(ctx, t, driver.BootDisk, true)
}

// CleanUpInstance forgets the instance.
func (i Interface) CleanUpInstance(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	return nil
}

// setMode sets the node's boot mode; hardware that has only one is left alone.
func setMode(ctx context.Context, t *driver.Task) error {
	m, want := t.Hardware.Management(), t.Node.BootMode()
	err := driver.Settle(func() error {
		is, err := m.BootMode(ctx, t.Node)
		if err != nil || is == want {
			return err
		}
		return m.SetBootMode(ctx, t.Fence, t.Node, want)
	})
	if errors.Is(err, driver.ErrUnsupported) {
		return nil
	}
	return err
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
