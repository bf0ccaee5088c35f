package fake

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

type inspect struct{ base }

// Source implements driver.Sourced.
func (inspect) Source() work.Source { return work.MadeUp }

func (i inspect) InspectSteps(*node.Document) []driver.Step {
	s := i.step("inspect", 0, func(_ context.Context, t *driver.Task) error {
		t.Record.Inventory(inventory(t.Node))
		return nil
	})
	alone := s.Run
	s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if t.Inspected != nil && t.Inspected() != nil { // somebody plays its ramdisk
			t.Record.Inventory(*t.Inspected())
			return driver.Done(), nil
		}
		return alone(ctx, t)
	}
	return []driver.Step{s}
}

// inventory is what a small server might look like; every name in it says fake.
func inventory(n *node.Document) agentapi.Inventory {
	inv := agentapi.Inventory{
		CPU:    agentapi.CPU{ModelName: "Fake CPU", Frequency: "2000", Count: 8, Architecture: "x86_64", SocketCount: 1},
		Memory: agentapi.Memory{Total: 16 << 30, PhysicalMB: 16 << 10},
		Disks:  []agentapi.Disk{{Name: "/dev/sda", Model: "Fake disk", Vendor: "Fake", Size: 100 << 30, Serial: "FAKE-" + n.UUID, LogicalSectors: 512, PhysicalSectors: 512}},
		SystemVendor: agentapi.SystemVendor{ProductName: "fake machine", SerialNumber: cmp.Or(n.DriverString("fake_serial_number"), "FAKE-"+n.UUID), Manufacturer: "Ironyard", SystemUUID: n.DriverString("fake_system_uuid"),
			Firmware: agentapi.Firmware{Vendor: "Fake", Version: "1"}},
		Boot:     agentapi.Boot{CurrentBootMode: n.BootMode()},
		Hostname: "fake",
	}
	for i, p := range n.Ports {
		inv.Interfaces = append(inv.Interfaces, agentapi.NIC{Name: fmt.Sprintf("eth%d", i), MACAddress: p.Address,
			HasCarrier: true, SpeedMbps: 10000, Vendor: "Fake", Driver: "fake"})
		if p.PXEEnabled && inv.Boot.PXEInterface == "" {
			inv.Boot.PXEInterface = p.Address
		}
	}
	return inv
}

// inBand is the inspection by an agent in the ramdisk: the machine is switched on and waits
// until somebody who plays its ramdisk sends what was found.
type inBand struct{ base }

func (i inBand) InspectSteps(*node.Document) []driver.Step {
	boot := i.step("boot_ramdisk", 0, i.powered(driver.PowerOn))
	wait := driver.Step{Interface: i.kind, Name: "take_inventory", Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
		if t.Inspected == nil || t.Inspected() == nil {
			return driver.Wait(0), nil
		}
		t.Record.Inventory(*t.Inspected())
		return driver.Done(), nil
	}}
	off := i.step("power_off", 0, func(ctx context.Context, t *driver.Task) error {
		if t.Node.DisablePowerOff {
			return power(i).SetPower(ctx, t.Fence, t.Node, driver.Rebooting)
		}
		return power(i).SetPower(ctx, t.Fence, t.Node, driver.PowerOff)
	})
	return []driver.Step{boot, wait, off}
}
