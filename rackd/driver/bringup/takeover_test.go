package bringup_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// Who goes on with a machine that is still off makes its boot ready once more: its BMC, or what a driver knows of it, may have
// forgotten the boot device of one start.
func TestASuccessorMakesTheBootReadyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Fail = func(call string) error {
			if call == "set_power" {
				return driver.ErrFenced
			}
			return nil
		}
		r.Stuck = true
		if _, err := ramdisk(t, r); !errors.Is(err, driver.ErrFenced) {
			t.Fatal(err)
		}
		r.Fail, r.Stuck, r.Log = nil, false, nil
		if out, err := ramdisk(t, r); err != nil || out != driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
		if want := []string{"boot pxe false", "power power on"}; !slices.Equal(r.Log, want) {
			t.Errorf("the successor writes %q, want %q", r.Log, want)
		}
	})
}

// An outlet and a hypervisor make a reboot of off and on. One that ended between the two, with its rackd or with its BMC, leaves no machine
// switched off: what was on before is switched on.
func TestARestartInDoubtLeavesTheMachineOn(t *testing.T) {
	for name, cause := range map[string]error{"its rackd is lost": driver.ErrFenced, "its second half fails": driver.ErrUnknown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := drivertest.NewRig()
				r.Node.DisablePowerOff = true
				r.SetPowerState(driver.PowerOn)
				r.Stuck = true
				r.Fail = func(call string) error {
					if call != "set_power" || !r.Stuck {
						return nil
					}
					r.SetPowerState(driver.PowerOff)
					r.Fail = func(string) error { r.Stuck = false; return nil }
					return cause
				}
				if err := restart(t, r); err != nil {
					t.Error(err)
				}
				if got := r.Writes("power"); !slices.Equal(got, []string{"power rebooting", "power power on"}) {
					t.Errorf("power writes %q, want the reboot and the order to go on", got)
				}
			})
		})
	}
}

// What an order for the power uses up of what a driver keeps, a boot device for one start, is told: else the next rackd believes that it
// is still there.
func TestWhatAStartUsesUpIsTold(t *testing.T) {
	for target, from := range map[driver.PowerState]driver.PowerState{driver.PowerOn: driver.PowerOff, driver.Rebooting: driver.PowerOn} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.SetPowerState(from)
			r.Node.DisablePowerOff = target == driver.Rebooting
			r.Keeps = func() json.RawMessage {
				if len(r.Writes("power "+string(target))) == 0 {
					return nil
				}
				return json.RawMessage(`{"used":true}`)
			}
			if err := restart(t, r); err != nil {
				t.Error(err)
			}
			if string(r.Observed.Kept) != `{"used":true}` {
				t.Errorf("%s: told is %s", target, r.Observed.Kept)
			}
		})
	}
}

// So it is with a reset into the instance: of a machine that its successor finds off the rest is done, and one that is on is not reset
// again.
func TestAResetIntoTheInstanceInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		state  driver.PowerState
		writes []string
		fails  string
	}{
		"off": {driver.PowerOff, []string{"power rebooting", "power power on"}, ""},
		"on":  {driver.PowerOn, []string{"power rebooting"}, "may have happened"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := drivertest.NewRig()
				r.Node.DisablePowerOff, r.Stuck = true, true
				r.SetPowerState(driver.PowerOn)
				r.Fail = func(call string) error {
					if call != "set_power" {
						return nil
					}
					r.SetPowerState(c.state)
					return driver.ErrFenced
				}
				into := func() error { return bringup.Settings{}.IntoInstance(t.Context(), r.Task(networkboot.IPXE()), false) }
				if err := into(); !errors.Is(err, driver.ErrFenced) {
					t.Fatal(err)
				}
				r.Fail, r.Stuck = nil, false
				if err := into(); (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				if got := r.Writes("power"); !slices.Equal(got, c.writes) {
					t.Errorf("power writes %q, want %q", got, c.writes)
				}
			})
		})
	}
}
