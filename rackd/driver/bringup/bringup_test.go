package bringup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

func ramdisk(t *testing.T, r *drivertest.Rig) (driver.Outcome, error) {
	t.Helper()
	return bringup.Settings{}.Ramdisk(t.Context(), r.Task(networkboot.IPXE()))
}

func TestRamdiskSwitchesOffThenOnAndWaitsForTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		if out, err := ramdisk(t, r); err != nil || out != driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
		want := []string{"boot pxe false", "power power off", "power power on"}
		if !slices.Equal(r.Log, want) {
			t.Errorf("writes %q, want %q", r.Log, want)
		}
	})
}

func TestRamdiskWaitsForASilentMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.NoBoot = true
		for range 3 { // as many runs, or owners, as you like: one power on
			out, err := ramdisk(t, r)
			if _, waiting := out.Waiting(); err != nil || !waiting {
				t.Fatalf("%+v, %v; want a wait", out, err)
			}
		}
		if got := r.Writes("power"); len(got) != 1 {
			t.Errorf("power writes %q, want one", got)
		}
	})
}

// An agent that calls shows that the machine is on, also where the answers to the orders were lost: no later refusal leaves that in doubt.
func TestAnAgentShowsThatTheMachineIsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOff)
		r.Stuck = true
		r.Fail = func(call string) error {
			if call == "set_power" {
				return driver.ErrUnknown
			}
			return nil
		}
		task := r.Task(networkboot.IPXE())
		if _, err := (bringup.Settings{}).Ramdisk(t.Context(), task); !errors.Is(err, driver.ErrUnknown) || task.Facts[driver.FactOnAsked] == "" {
			t.Fatalf("%v, %q; want an order in doubt", err, task.Facts)
		}
		r.NextBoot()
		if out, err := (bringup.Settings{}).Ramdisk(t.Context(), task); err != nil || out != driver.Done() || task.Facts[driver.FactOnAsked] != "" {
			t.Errorf("%+v, %v, %q", out, err, task.Facts)
		}
	})
}

func TestSuccessorSwitchesOnWhatItsPredecessorDidNot(t *testing.T) {
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
		r.Fail, r.Stuck = nil, false
		if out, err := ramdisk(t, r); err != nil || out != driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
		if on := r.Writes("power power on"); len(on) != 2 {
			t.Errorf("it was switched on %d times, want by each of the two", len(on))
		}
	})
}

func TestReachReadsAnUnknownOutcomeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Fail = func(call string) error {
			if call == "set_power" {
				return driver.ErrUnknown // it has arrived all the same
			}
			return nil
		}
		if err := (bringup.Settings{}).Reach(t.Context(), r.Task(networkboot.IPXE()), driver.PowerOn); err != nil {
			t.Fatal(err)
		}
		if got := r.Writes("power"); len(got) != 1 {
			t.Errorf("power writes %q, want one", got)
		}
		r.Stuck = true
		err := (bringup.Settings{}).Reach(t.Context(), r.Task(networkboot.IPXE()), driver.PowerOff)
		if !errors.Is(err, driver.ErrUnknown) || len(r.Writes("power power off")) != 3 {
			t.Errorf("%v after %d requests, want ErrUnknown after 3", err, len(r.Writes("power power off")))
		}
	})
}

func TestReachGivesUpOnAStuckMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Stuck = true
		began := time.Now()
		err := bringup.Settings{PowerWait: 40 * time.Second}.Reach(t.Context(), r.Task(networkboot.IPXE()), driver.PowerOn)
		if err == nil || time.Since(began) != 40*time.Second || !strings.Contains(err.Error(), "power off") || !strings.Contains(err.Error(), "web1") {
			t.Errorf("%v after %s, want an error that names node and state after 40s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (bringup.Settings{}).Reach(ctx, r.Task(networkboot.IPXE()), driver.PowerOn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
	})
}

func TestNothingIsWrittenAfterTheNodeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for passes := range 3 {
			r := drivertest.NewRig()
			r.SetPowerState(driver.PowerOn)
			r.LoseAfter(passes)
			if _, err := ramdisk(t, r); !errors.Is(err, driver.ErrFenced) || len(r.Log) != passes {
				t.Errorf("lost after %d checks: %v, writes %q", passes, err, r.Log)
			}
		}
	})
}

func TestOffAfterCutsThePowerOfAMachineThatStaysOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		began := time.Now()
		if err := (bringup.Settings{}).OffAfter(t.Context(), r.Task(networkboot.IPXE())); err != nil || time.Since(began) < 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := (bringup.Settings{}).OffAfter(t.Context(), r.Task(networkboot.IPXE())); err != nil || len(r.Log) != 1 {
			t.Errorf("%v, writes %q: a machine that is off needs none", err, r.Log)
		}
	})
}

func TestDisablePowerOffIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		r.Node.DisablePowerOff = true
		r.NoBoot = true
		if _, err := ramdisk(t, r); err != nil {
			t.Fatal(err)
		}
		if got := r.Writes("power"); !slices.Equal(got, []string{"power rebooting"}) {
			t.Errorf("power writes %q, want a reset only", got)
		}
	})
}

// A reset that may have happened used up the boot device that was set for one boot: before another one it is set again. Else
// the machine boots its disk, and no agent ever calls.
func TestEachResetBootsTheRamdisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		r.Node.DisablePowerOff = true
		r.NoBoot = true
		r.Fail = func(call string) error {
			if call == "set_power" {
				return driver.ErrUnknown // it has arrived all the same
			}
			return nil
		}
		if _, err := ramdisk(t, r); !errors.Is(err, driver.ErrUnknown) {
			t.Fatal(err)
		}
		r.Fail = nil
		out, err := ramdisk(t, r)
		if _, waiting := out.Waiting(); err != nil || !waiting {
			t.Fatalf("%+v, %v", out, err)
		}
		want := []string{"boot pxe false", "power rebooting", "boot pxe false", "power rebooting"}
		if !slices.Equal(r.Log, want) {
			t.Errorf("writes %q, want %q", r.Log, want)
		}
	})
}

// restart runs a restart to its end, each run as a new owner.
func restart(t *testing.T, r *drivertest.Rig) error {
	t.Helper()
	for range 20 {
		task := r.Task(networkboot.IPXE())
		out, err := bringup.Settings{}.Restart(t.Context(), task)
		if errors.Is(err, driver.ErrFenced) {
			continue // its next owner goes on
		}
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
	t.Fatal("the restart never ends")
	return nil
}

// Wherever its rackd is lost, the machine is restarted once.
func TestRestartHappensOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		power   driver.PowerState
		ramdisk bool
		never   bool // it must not be switched off
		want    []string
	}{
		{"a machine that runs", driver.PowerOn, false, false, []string{"power power off", "power power on"}},
		{"a machine that is off", driver.PowerOff, false, false, []string{"power power on"}},
		{"a machine in the ramdisk", driver.PowerOn, true, false, []string{"power power off", "power power on"}},
		{"a machine that must not be switched off", driver.PowerOn, false, true, []string{"power rebooting"}},
	} {
		for lost := range 8 {
			for _, by := range []string{"save", "set_power"} {
				synctest.Test(t, func(t *testing.T) {
					r := drivertest.NewRig()
					r.SetPowerState(c.power)
					r.Node.DisablePowerOff = c.never
					task := r.Task(networkboot.IPXE())
					if c.ramdisk {
						task.Facts[driver.FactBoot] = driver.BootRamdisk
					}
					calls := 0
					r.Fail = func(call string) error {
						if call == by {
							if calls++; calls == lost {
								return driver.ErrFenced
							}
						}
						return nil
					}
					if err := restart(t, r); err != nil {
						t.Errorf("%s, lost at %s %d: %v", c.name, by, lost, err)
					}
					got := r.Writes("power")
					if c.never && len(got) == 0 {
						// Its rackd was lost between the checkpoint and the reset: what the restart is for shows that there was none.
						if by != "save" || lost != 2 {
							t.Errorf("%s, lost at %s %d: no reset", c.name, by, lost)
						}
					} else if !slices.Equal(got, c.want) {
						t.Errorf("%s, lost at %s %d: power writes %q, want %q", c.name, by, lost, got, c.want)
					}
				})
			}
		}
	}
}

// A reset whose answer is lost is not asked for again, and neither is one whose machine cannot be read afterwards.
func TestResetInDoubtIsNotRepeated(t *testing.T) {
	for _, c := range []struct {
		name, call string
		err        error
	}{{"its answer is lost", "set_power", driver.ErrUnknown}, {"its BMC is silent afterwards", "power_state", driver.ErrUnreachable}} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.SetPowerState(driver.PowerOn)
			r.Node.DisablePowerOff = true
			asked := false
			r.Fail = func(call string) error {
				asked = asked || call == "set_power"
				if asked && call == c.call {
					return c.err
				}
				return nil
			}
			for range 4 {
				if err := restart(t, r); err != nil && !errors.Is(err, driver.ErrUnknown) {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			if got := r.Writes("power"); !slices.Equal(got, []string{"power rebooting"}) {
				t.Errorf("%s: power writes %q, want one reset", c.name, got)
			}
			if !slices.ContainsFunc(r.Phases, func(p string) bool { return strings.Contains(p, "in doubt") }) {
				t.Errorf("%s: history %q", c.name, r.Phases)
			}
		})
	}
}
