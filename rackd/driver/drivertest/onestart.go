package drivertest

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// checkOneStart judges a management interface that can take back a boot device for one start: driver.OneStartClearer. One for all starts
// stays.
func checkOneStart(t *testing.T, m *Machine) {
	c, can := m.Management.(driver.OneStartClearer)
	if !can {
		t.Skip("its management takes back no boot device for one start")
	}
	back := order{"ClearOneStart",
		func(ctx context.Context, f driver.Fence, m *Machine) error { return c.ClearOneStart(ctx, f, m.Node) },
		func(ctx context.Context, m *Machine) (bool, error) {
			is, err := m.Management.BootDevice(ctx, m.Node)
			return is.Device == "" || is.Persistent == nil || *is.Persistent, err
		}, true}
	give(t, m, switchTo(driver.PowerOff, driver.PowerOff))
	once, lasts := bootFrom(driver.BootPXE, false), bootFrom(driver.BootDisk, true)
	give(t, m, once)
	lost := &Fence{}
	lost.Lose()
	writes(t, m, "ClearOneStart without the fence", 0, func() { failing(t, m, back.name, back.give(within(t), lost, m), driver.ErrFenced) })
	give(t, m, back)
	writes(t, m, "ClearOneStart again", 0, func() { give(t, m, back) })
	give(t, m, lasts)
	writes(t, m, "ClearOneStart of a device for all starts", 0, func() { give(t, m, back) })
	if is, err := lasts.done(within(t), m); err != nil || !is {
		t.Errorf("the device for all starts is there no more: %v", err)
	}
	if m.Lose == nil {
		return
	}
	give(t, m, once)
	m.Lose()
	failing(t, m, "ClearOneStart with a lost answer", back.give(within(t), &Fence{}, m), driver.ErrUnknown)
	give(t, m, back)
}
