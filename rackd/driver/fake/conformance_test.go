package fake

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// Fake hardware keeps the contract of real one.
func TestConformance(t *testing.T) {
	for name, management := range map[string]driver.Management{"fake": nil, "noop": none.Management{}} {
		t.Run(name, func(t *testing.T) { conforms(t, management) })
	}
}

// conforms checks fake hardware with a management interface, nil for its own.
func conforms(t *testing.T, management driver.Management) {
	drivertest.Conformance(t, func(*testing.T) *drivertest.Machine {
		f := New(Options{})
		n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{}}
		set := func(suffix string, v any) {
			for _, method := range []string{"power_state", "set_power", "boot_device", "set_boot_device"} {
				n.DriverInfo["fake_"+method+suffix] = v
			}
		}
		m := &drivertest.Machine{
			Power: f.Interface("power").(driver.Power), Management: f.Interface("management").(driver.Management), Node: n,
			Writes: func() int {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.machine(n).orders
			},
			Silence: func() { set("_fail", "no answer"); set("_unreachable", true) },
			Hang:    func() { set("_delay", 3600) },
			Without: map[string]string{"Lose": "no wire loses an answer", "Forget": "there is no BMC but the driver's own memory", "Spoil": "there is no wire", "WhileRead": "no wire is read", "Deny": "there are no credentials", "Second": "there is no BMC", "Port": "there is no BMC",
				"Log": "the driver logs nothing"},
		}
		if management != nil {
			m.Management = management
			delete(m.Without, "Forget")
		}
		return m
	})
}
