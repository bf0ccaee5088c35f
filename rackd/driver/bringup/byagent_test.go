package bringup_test

import (
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

// What power interfaces can do that cannot switch off: one by magic packets, one by the agent alone.
var (
	wakes = []driver.PowerState{driver.PowerOn, driver.Rebooting}
	alone = []driver.PowerState{driver.Rebooting, driver.SoftReboot}
)

// without is a rig whose power is limited. Its agent answers until it is told to end.
func without(targets []driver.PowerState, agent bool) *drivertest.Rig {
	r := drivertest.NewRig()
	r.Targets, r.NoBoot = targets, true
	r.Fail = func(call string) error {
		if call == "commands" && (!agent || len(r.Writes("agent standby.run_image")) > 0 || len(r.Writes("agent standby.power_off")) > 0) {
			return driver.ErrUnreachable
		}
		return nil
	}
	return r
}

// phases are those of a rig that begin so.
func phases(r *drivertest.Rig, begin string) (list []string) {
	for _, p := range r.Phases {
		if strings.HasPrefix(p, begin) {
			list = append(list, p)
		}
	}
	return list
}

// A machine that nothing switches off is woken, or started by a person; the agent of an earlier boot restarts it.
func TestRamdiskOfAMachineThatNothingSwitchesOff(t *testing.T) {
	for name, c := range map[string]struct {
		targets []driver.PowerState
		agent   bool
		writes  []string
		says    string
	}{
		"woken":                     {wakes, false, []string{"boot pxe false", "power rebooting"}, "power on: into the ramdisk"},
		"by hand":                   {alone, false, []string{"boot pxe false"}, "power on: " + driver.ByHand},
		"by the agent, where woken": {wakes, true, []string{"boot pxe false", "agent standby.run_image {}"}, "restart: by the agent"},
		"by the agent, where alone": {alone, true, []string{"boot pxe false", "agent standby.run_image {}"}, "restart: by the agent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := without(c.targets, c.agent)
				for range 3 { // as many owners as you like: one start
					out, err := ramdisk(t, r)
					if _, waiting := out.Waiting(); err != nil || !waiting {
						t.Fatalf("%+v, %v; want a wait", out, err)
					}
				}
				if !slices.Equal(r.Log, c.writes) {
					t.Errorf("writes %q, want %q", r.Log, c.writes)
				}
				if len(phases(r, c.says)) != 1 || len(phases(r, "power off")) != 0 {
					t.Errorf("told: %q, want %q once", r.Phases, c.says)
				}
				r.NextBoot()
				if out, err := ramdisk(t, r); err != nil || out != driver.Done() {
					t.Errorf("when its agent calls: %+v, %v", out, err)
				}
			})
		})
	}
}

// The agent ends the ramdisk, and brings up the instance. A ramdisk without one goes on, and the history says so.
func TestEndsOfAMachineThatNothingSwitchesOff(t *testing.T) {
	end := func(t *testing.T, r *drivertest.Rig, do func(bringup.Settings, *driver.Task) error, writes []string, says string) {
		t.Helper()
		if err := do(bringup.Settings{}, r.Task(networkboot.IPXE())); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Log, writes) || (says != "") != (len(phases(r, says)) == 1) {
			t.Errorf("writes %q, want %q; told %q, want %q", r.Log, writes, r.Phases, says)
		}
	}
	off := func(s bringup.Settings, task *driver.Task) error { return s.Off(t.Context(), task) }
	into := func(s bringup.Settings, task *driver.Task) error { return s.IntoInstance(t.Context(), task, true) }
	end(t, without(wakes, true), off, []string{"agent standby.power_off {}"}, "power off: by the agent")
	end(t, without(alone, true), off, []string{"agent standby.power_off {}"}, "power off: by the agent")
	end(t, without(wakes, false), off, nil, "power off: not possible")
	end(t, without(wakes, true), into, []string{"agent standby.run_image {}"}, "restart: by the agent")
	end(t, without(alone, true), into, []string{"agent standby.run_image {}"}, "restart: by the agent")
	end(t, without(wakes, false), into, []string{"power rebooting"}, "")
	end(t, without(alone, false), into, nil, "power on: by hand")
}

// An agent that takes the order to reboot and stays is an error, and a lost fence gives it none.
func TestAgentThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := without(alone, true)
		r.Fail = nil
		err := bringup.Settings{}.IntoInstance(t.Context(), r.Task(networkboot.IPXE()), true)
		if err == nil || !strings.Contains(err.Error(), "still answers") {
			t.Errorf("%v", err)
		}
		lost := without(alone, true)
		lost.Lose()
		if err := (bringup.Settings{}).Off(t.Context(), lost.Task(networkboot.IPXE())); !errors.Is(err, driver.ErrFenced) || len(lost.Log) > 0 {
			t.Errorf("without the node: %v, writes %q", err, lost.Log)
		}
	})
}
