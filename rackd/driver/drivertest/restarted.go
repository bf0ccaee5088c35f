package drivertest

import (
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// checkRestarted has the BMC start again before a read and before each order. Its session is gone, which the caller does not learn: what
// was asked for is read, or done once, in a new one.
func checkRestarted(t *testing.T, m *Machine) {
	if m.Restart == nil {
		t.Skip(m.Without["Spoil"] + m.Without["Restart"])
	}
	restart := func() {
		t.Helper()
		_, err := m.Power.PowerState(within(t), m.Node)
		must(t, m, "PowerState", err)
		if m.Restart(); m.Sessions != nil && m.Sessions() > 0 {
			t.Fatalf("%d sessions are there after a restart: it forgets none", m.Sessions())
		}
	}
	restart()
	_, err := m.Power.PowerState(within(t), m.Node)
	must(t, m, "PowerState after a restart", err)
	var list []order
	if m.Management != nil && !m.fixed() && !m.Deferred {
		list = append(list, bootFrom(driver.BootPXE, true)) // some machines take one while they are off
	}
	for _, o := range append(list, switchTo(driver.PowerOn, driver.PowerOn)) {
		restart()
		writes(t, m, o.name+" after a restart", 1, func() { must(t, m, o.name+" after a restart", o.give(within(t), &Fence{}, m)) })
		settled(t, m, o)
	}
	if m.Logins != nil && m.Logins() > 0 {
		t.Errorf("%d logins were refused", m.Logins())
	}
}
