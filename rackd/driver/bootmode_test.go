package driver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// What a node or its instance asks for is set. A node that asks for nothing keeps the mode of its machine.
func TestBootMode(t *testing.T) {
	for name, c := range map[string]struct {
		properties, instance map[string]any
		is                   string // what the BMC shows; empty: nothing
		fixed                bool   // it sets nothing
		writes               []string
		goes                 string // the mode that the flow goes by
		refusal              string
	}{
		"nobody asks":                    {is: "uefi", goes: "uefi"},
		"nobody asks, and it is BIOS":    {is: "bios", goes: "bios"},
		"nobody asks or tells":           {writes: []string{"mode uefi"}, goes: "uefi"},
		"nobody asks, tells or can":      {fixed: true, goes: "uefi"},
		"the node asks":                  {properties: map[string]any{"capabilities": "boot_mode:bios"}, is: "uefi", writes: []string{"mode bios"}, goes: "bios"},
		"the node asks aloud":            {properties: map[string]any{"capabilities": "boot_mode:BIOS"}, is: "bios", goes: "bios"},
		"the instance asks":              {instance: map[string]any{"capabilities": "boot_mode:bios"}, is: "uefi", writes: []string{"mode bios"}, goes: "bios"},
		"the instance asks as of old":    {instance: map[string]any{"deploy_boot_mode": "bios"}, is: "uefi", writes: []string{"mode bios"}, goes: "bios"},
		"for secure boot":                {instance: map[string]any{"capabilities": "secure_boot:true"}, is: "bios", writes: []string{"mode uefi"}, goes: "uefi"},
		"asked for, and it cannot":       {properties: map[string]any{"capabilities": "boot_mode:bios"}, is: "uefi", fixed: true, goes: "bios", refusal: "in boot mode uefi, and the mode bios"},
		"asked for, and nothing is told": {properties: map[string]any{"capabilities": "boot_mode:bios"}, fixed: true, goes: "bios"},
	} {
		r := drivertest.NewRig()
		r.Node.Properties, r.Node.InstanceInfo = c.properties, c.instance
		r.Mode = c.is
		r.Fail = func(call string) error {
			if call == "boot_mode" && c.is == "" || call == "set_boot_mode" && c.fixed {
				return driver.ErrUnsupported
			}
			return nil
		}
		task := r.Task(networkboot.IPXE())
		err := driver.SetBootMode(t.Context(), task)
		if (err == nil) != (c.refusal == "") || err != nil && (!errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want %q", name, err, c.refusal)
		}
		if !slices.Equal(r.Log, c.writes) || task.Node.BootMode() != c.goes {
			t.Errorf("%s: writes %q and goes by %s, want %q and %s", name, r.Log, task.Node.BootMode(), c.writes, c.goes)
		}
		// The next rackd knows by the work, all know by the node once central has heard it.
		later := *r.Node
		if told := r.Observed.DeployBootMode; told != nil {
			later.DeployBootMode = *told
		}
		if by := driver.WithBootMode(r.Node, task.Facts).BootMode(); by != c.goes || later.BootMode() != c.goes {
			t.Errorf("%s: the next rackd goes by %s and by %s, want %s", name, by, later.BootMode(), c.goes)
		}
	}
}

// An instance may not have a boot mode that its node's operator has ruled out. The words are Ironic's.
func TestBootModesThatDisagree(t *testing.T) {
	for _, instance := range []map[string]any{{"capabilities": map[string]any{"boot_mode": "bios"}}, {"deploy_boot_mode": "bios"}} {
		r := drivertest.NewRig()
		r.Node.Properties, r.Node.InstanceInfo = map[string]any{"capabilities": "boot_mode:uefi"}, instance
		err := driver.ValidateInstance(r.Task(networkboot.IPXE()).Hardware, r.Node)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "boot mode bios violates node properties/capabilities uefi") {
			t.Errorf("%v: %v", instance, err)
		}
	}
	n := &node.Document{InstanceInfo: map[string]any{"capabilities": "boot_mode:legacy"}}
	if n.BootMode() != "uefi" {
		t.Errorf("a mode of none is %s", n.BootMode())
	}
}
