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

// AMT ends a connection that was kept, or has started again, and has then forgotten its challenge too. The next read is asked for a new
// challenge; an order is not asked again.
func TestAKeptConnectionThatIsDead(t *testing.T) {
	for name, how := range map[string]drivertest.Mishap{"ended": drivertest.Dropped, "started again": drivertest.Reset} {
		t.Run(name, func(t *testing.T) {
			c, d := newDouble(t), newDriver(t)
			c.Spoiler.Restart = func() { c.nonce = "forgotten" }
			n := c.node(nil)
			if _, err := d.PowerState(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			c.Spoiler.Spoil(how, 1)
			if is, err := d.PowerState(t.Context(), n); err != nil || is != driver.PowerOff || c.Spoiler.Asked() != 3 {
				t.Errorf("%s, %v, after %d requests, want 3: the dead one, the one for a challenge, the read", is, err, c.Spoiler.Asked())
			}
			c.Spoiler.Spoil(how, 2)
			if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); !errors.Is(err, driver.ErrUnknown) || c.Spoiler.Asked() != 2 {
				t.Errorf("an order: %v, after %d requests, want 2: a read, the order", err, c.Spoiler.Asked())
			}
			c.Set(func() {
				if c.refused != 0 {
					t.Errorf("%d digests were refused", c.refused)
				}
			})
		})
	}
}
