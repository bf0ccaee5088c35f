package networkboot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// ownFiles are the fields that name a node's own kernel and ramdisk.
var ownFiles = []string{ownramdisk.KernelField, ownramdisk.RamdiskField, ownramdisk.RescueKernel, ownramdisk.RescueRamdisk}

// agentPrefix begins the parameters that the ramdisk's agent reads, and no kernel. It is told them when it asks for those of its boot.
const agentPrefix = "ipa-"

// lacksProgram says why the rack has no program for a node's firmware, or for its rescue.
func (i Interface) lacksProgram(n *node.Document, rescue bool) error {
	lacks := errors.New("this rackd boots no machines, and the boot interface http needs a ramdisk as one program (rackd --uki)")
	if i.rack != nil {
		lacks = i.rack.LacksProgram(n, rescue)
	}
	if lacks != nil {
		return fmt.Errorf("node %s: %w: %w", n.Label(), lacks, driver.ErrInvalid)
	}
	return nil
}

// refuseFiles refuses a node's own kernel and ramdisk, which the program holds.
func refuseFiles(n *node.Document) error {
	for _, field := range ownFiles {
		if n.DriverString(field) != "" {
			return fmt.Errorf("node %s: driver_info %s: the boot interface http loads the rack's program, which holds kernel and ramdisk: remove the field, or use http-ipxe: %w", n.Label(), field, driver.ErrInvalid)
		}
	}
	return nil
}

// validateProgram refuses what a program that is the same for all machines cannot hold.
func (i Interface) validateProgram(n *node.Document) error {
	if err := i.lacksProgram(n, false); err != nil {
		return err
	}
	for place, text := range map[string]string{"driver_info": n.DriverString(ownramdisk.ParamsField), "instance_info": n.InstanceString(ownramdisk.ParamsField)} {
		for word := range strings.FieldsSeq(text) {
			if word != "%default%" && !strings.HasPrefix(word, agentPrefix) {
				return fmt.Errorf("node %s: %s %s: %.60q is for the kernel, whose command line is in the rack's program and under its signature: remove it, give it to all machines (ironyard ramdisk build --uki-params), or use http-ipxe: %w",
					n.Label(), place, ownramdisk.ParamsField, word, driver.ErrInvalid)
			}
		}
	}
	return nil
}

// setHTTP makes the next boot, or each, one by UEFI HTTP, of the URL that DHCP tells. Hardware that cannot be told so boots by
// PXE, where it is given the same.
func setHTTP(ctx context.Context, t *driver.Task, persistent bool) error {
	asked := persistent
	persistent = persists(t, persistent)
	m := t.Hardware.Management()
	set := func() error { return m.SetBootDevice(ctx, t.Fence, t.Node, driver.BootHTTP, persistent) }
	if h, can := m.(driver.HTTPBooter); can {
		set = func() error { return h.SetHTTPBoot(ctx, t.Fence, t.Node, "", persistent) }
	}
	err := driver.Settle(set)
	t.Keep()
	if errors.Is(err, driver.ErrUnsupported) {
		t.Record.Phase("boot device", fmt.Sprintf("the BMC cannot set it to %s, so the machine boots by PXE: %v", driver.BootHTTP, err))
		return setDevice(ctx, t, driver.BootPXE, asked)
	}
	if err == nil {
		t.BootFor(driver.BootHTTP, asked, persistent)
	}
	return err
}

// persists says for how long a boot device is set: as persistent says, unless the node's field says otherwise.
func persists(t *driver.Task, persistent bool) bool {
	switch t.Node.DriverString(persistField) {
	case "Always":
		return true
	case "Never":
		return false
	}
	return persistent
}
