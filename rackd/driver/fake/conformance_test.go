package fake

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// Fake hardware keeps the contract of real one.
func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(*testing.T) *drivertest.Machine {
		f := New(Options{})
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{}}
		set := func(suffix string, v any) {
			for _, method := range []string{"power_state", "set_power", "boot_device", "set_boot_device"} {
				n.DriverInfo["fake_"+method+suffix] = v
			}
		}
		return &drivertest.Machine{
			Power: f.Interface("power").(driver.Power), Management: f.Interface("management").(driver.Management), Node: n,
			Writes: func() int {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.machine(n).orders
			},
			Silence: func() { set("_fail", "no answer"); set("_unreachable", true) },
			Hang:    func() { set("_delay", 3600) },
		}
	})
}
