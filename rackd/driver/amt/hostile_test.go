package amt

import (
	"errors"
	"slices"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A device for one start is used up by that start, also where the answer to the order to start was lost: the next start is the
// disk's.
func TestOneStartWhoseAnswerIsLost(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	n, f := c.node(nil), &drivertest.Fence{}
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil {
		t.Fatal(err)
	}
	m := c.Play(&drivertest.Machine{})
	started := false
	err := driver.Settle(func() error {
		if !started {
			started = true
			c.Set(func() { c.loseStart = true })
		}
		return d.SetPower(t.Context(), f, n, driver.PowerOn)
	})
	if err != nil || m.Writes() != 3 {
		t.Fatalf("%v after %d writes", err, m.Writes())
	}
	for _, goal := range []driver.PowerState{driver.PowerOff, driver.PowerOn} {
		if err := d.SetPower(t.Context(), f, n, goal); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{sources[driver.BootPXE], ""}; !slices.Equal(c.booted, want) {
		t.Errorf("the machine booted %q, want %q", c.booted, want)
	}
	// An order that was lost on its way started nothing: the device is told again.
	if err := d.SetPower(t.Context(), f, n, driver.PowerOff); err != nil {
		t.Fatal(err)
	}
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil {
		t.Fatal(err)
	}
	c.Set(func() { c.dropStart = true })
	if err := d.SetPower(t.Context(), f, n, driver.PowerOn); !errors.Is(err, driver.ErrUnknown) {
		t.Fatal(err)
	}
	if err := d.SetPower(t.Context(), f, n, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if want := []string{sources[driver.BootPXE], "", sources[driver.BootPXE]}; !slices.Equal(c.booted, want) {
		t.Errorf("the machine booted %q, want %q", c.booted, want)
	}
}
