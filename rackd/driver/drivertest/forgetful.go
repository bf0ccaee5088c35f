package drivertest

import (
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// checkForgotten judges what the guard of boot orders (rackd/bootguard) rests on. A BMC whose machine starts has forgotten the device that
// was set for all starts. The read shows that, and the same order sets it again.
func checkForgotten(t *testing.T, m *Machine) {
	if m.Management == nil {
		t.Skip(m.Without["Management"])
	}
	if m.fixed() {
		t.Skip("its boot order is fixed: nothing is set that could be forgotten")
	}
	if m.Forget == nil {
		t.Skip(m.Without["Forget"])
	}
	kept := bootFrom(driver.BootPXE, true)
	give(t, m, kept)
	give(t, m, switchTo(driver.PowerOn, driver.PowerOn))
	if is, err := kept.done(within(t), m); err != nil || !is {
		t.Fatalf("after a start that forgets nothing the boot device is there: %t, %v", is, err)
	}
	m.Forget()
	give(t, m, switchTo(driver.Rebooting, driver.PowerOn))
	is, err := m.Management.BootDevice(within(t), m.Node)
	must(t, m, "BootDevice", err)
	switch lasts := is.Persistent == nil || *is.Persistent; {
	case is.Device == string(driver.BootPXE) && lasts:
		t.Error("the BMC has forgotten its boot device, and the read shows it as before")
	case is.Device != "" && !lasts:
		t.Errorf("%s is shown as a device for one start, which the guard leaves alone", is.Device)
	}
	give(t, m, kept)
}
