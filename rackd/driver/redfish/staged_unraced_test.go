//go:build !race

package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Wherever a rackd is lost, no order is given twice and the machine is restarted once for each.
func TestStagedOrdersAreGivenOnce(t *testing.T) {
	t.Parallel()
	raid := func(d *Driver) driver.Step {
		return stepNamed(t, RAID{Driver: d}.NamedSteps(nil), "create_configuration")
	}
	firmware := func(d *Driver) driver.Step { return stepNamed(t, Firmware{Driver: d}.NamedSteps(nil), "update") }
	for _, c := range []struct {
		name   string
		step   func(*Driver) driver.Step
		args   map[string]any
		orders int
		never  bool // disable_power_off
		cards  bool
	}{
		{"volumes", raid, map[string]any{"delete_existing": true}, 3, false, false},
		{"volumes of a machine that must not be switched off", raid, map[string]any{"delete_existing": true}, 3, true, false},
		{"firmware", firmware, biosOnly, 1, false, false},
		{"firmware of a machine that must not be switched off", firmware, biosOnly, 1, true, false},
		{"firmware by two images", func(d *Driver) driver.Step { return imageStep(t, d) }, imagesWith("1", "4"), 2, false, true},
		{"firmware of two cards", firmware, updatesOf("nic:NIC.1", "one", "psu:0", "psu"), 2, false, true},
		{"firmware of two cards of a machine that must not be switched off", firmware, updatesOf("nic:NIC.1", "one", "psu:0", "psu"), 2, true, true},
	} {
		atSave := true // else at a look at the fence, right before a write
		for lost := 1; ; lost++ {
			if lost == 200 {
				t.Fatal("the step writes without end")
			}
			k := newRack()
			k.unbegun = "Pending"
			k.old()
			if c.cards {
				flashing(withCards(k))
			}
			r, d := stagedRig(t, k)
			r.SetPowerState(driver.PowerOn)
			r.Node.TargetRAID, r.Node.DisablePowerOff = rootAndData, c.never
			saves, hit := 0, false
			r.Fail = func(call string) error {
				if call == "save" && atSave {
					if saves++; saves == lost {
						hit = true
						return driver.ErrFenced
					}
				}
				return nil
			}
			if !atSave {
				r.LoseAfter(lost - 1)
			}
			err := runStep(t, r, c.step(d), c.args)
			if errors.Is(err, driver.ErrFenced) { // the next owner
				hit = true
				r.LoseAfter(1 << 20)
				err = runStep(t, r, c.step(d), c.args)
			}
			if !hit && atSave {
				atSave, lost = false, 0
				continue
			}
			if !hit {
				break // it has been lost everywhere
			}
			k.mu.Lock()
			orders := len(k.writes)
			k.mu.Unlock()
			restarts := k.restarts()
			switch {
			case orders > c.orders || restarts > orders:
				t.Errorf("%s, lost at %d (of saves %t): %d orders, %d restarts, %v", c.name, lost, atSave, orders, restarts, err)
			case err == nil && (orders < c.orders || restarts < c.orders):
				t.Errorf("%s, lost at %d (of saves %t): ended well after %d orders and %d restarts", c.name, lost, atSave, orders, restarts)
			case err != nil && !strings.Contains(err.Error(), "its rackd was lost") && !strings.Contains(err.Error(), "does not begin it"):
				t.Errorf("%s, lost at %d (of saves %t): %v", c.name, lost, atSave, err)
			}
		}
	}
}
