package direct

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// stepOf is the step that an agent's manager offers for cleaning.
func stepOf(t *testing.T, manager, step string) driver.Step {
	t.Helper()
	list, err := parseSteps([]byte(`{"clean_steps":{"`+manager+`":[`+step+`]}}`), driver.InClean)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	raw, err := json.Marshal(list[0]) // as the checkpoint keeps it
	if err != nil {
		t.Fatal(err)
	}
	var kept offered
	if err := json.Unmarshal(raw, &kept); err != nil {
		t.Fatal(err)
	}
	return New(Settings{}).inBand(kept, driver.InClean)
}

// A step is begun again by an agent that has started again only if it is known to bear that. Behind any other the
// flow goes on, as in Ironic, and the history says so.
func TestOnlyWhatBearsItIsBegunAgain(t *testing.T) {
	for _, c := range []struct {
		name, manager, step string
		again               bool
	}{
		{"firmware", "VendorManager", `{"interface":"firmware","step":"flash_nic","abortable":false}`, false},
		{"firmware that boots the machine", "VendorManager", `{"interface":"firmware","step":"flash_nic","reboot_requested":true}`, false},
		{"abortable", "VendorManager", `{"interface":"deploy","step":"burnin_cpu","abortable":true}`, true},
		{"repeatable", "VendorManager", `{"interface":"deploy","step":"label","ironyard_repeatable":true}`, true},
		{"an image by our agent of before", agentapi.StepManager, `{"interface":"deploy","step":"write_image"}`, true},
		{"an image by ironic-python-agent", "GenericHardwareManager", `{"interface":"deploy","step":"write_image","reboot_requested":false}`, true},
		{"an erase by our agent of before", agentapi.StepManager, `{"interface":"deploy","step":"erase_devices_metadata"}`, true},
		{"an erase by another manager", "VendorManager", `{"interface":"deploy","step":"erase_devices"}`, false},
	} {
		for _, ownIDs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Runs, r.OwnIDs = 100, ownIDs
				task := r.Task(networkboot.IPXE()) // when the step began goes into its command's id
				s := stepOf(t, c.manager, c.step)
				out, err := s.Run(t.Context(), task)
				if _, waits := out.Waiting(); err != nil || !waits {
					t.Fatalf("%s: %+v, %v", c.name, out, err)
				}
				r.RebootAgent()
				out, err = s.Run(t.Context(), task)
				given := len(r.Writes("agent " + agentapi.CmdExecCleanStep))
				_, waits := out.Waiting()
				if err != nil || waits != c.again || given != map[bool]int{false: 1, true: 2}[c.again] {
					t.Errorf("%s (own ids %t): begun %d times, %+v, %v", c.name, ownIDs, given, out, err)
				}
				told := slices.ContainsFunc(r.Phases, func(p string) bool { return strings.Contains(p, "not repeated: the agent has started again during") })
				if told == c.again || len(r.Writes("power")) != 0 {
					t.Errorf("%s: phases %q, writes %q", c.name, r.Phases, r.Writes("power"))
				}
			})
		}
	}
}

// An agent that starts again between the order and its answer leaves open whether the step has begun. One that still
// lists the command before has not started again, and gets the order a second time. A step that must not be repeated fails
// otherwise.
func TestAnOrderThatIsInDoubt(t *testing.T) {
	for _, c := range []struct {
		name     string
		arrives  bool // the order, of which only the answer is lost
		restarts bool
		fresh    bool // the agent has done nothing before
		repeats  bool
		given    int
		fails    bool
		succeeds bool
	}{
		{name: "it did not arrive", given: 1, succeeds: true},
		{name: "it did not arrive, the first of the boot", fresh: true, given: 1, succeeds: true},
		{name: "it arrived", arrives: true, given: 1, succeeds: true},
		{name: "it did not arrive, and the agent started again", restarts: true, given: 0, fails: true},
		{name: "it arrived, and the agent started again", arrives: true, restarts: true, given: 1, fails: true},
		{name: "the same, the first of the boot", arrives: true, restarts: true, fresh: true, given: 1, fails: true},
		{name: "the same with a step that bears it", arrives: true, restarts: true, repeats: true, given: 2, succeeds: true},
	} {
		for _, ownIDs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.OwnIDs = ownIDs
				task := r.Task(networkboot.IPXE())
				if !c.fresh {
					if _, err := task.Agent.Call(t.Context(), task.Fence, "w1/steps", agentapi.CmdGetCleanSteps, nil); err != nil {
						t.Fatal(err)
					}
				}
				step := `{"interface":"firmware","step":"flash_nic"}`
				if c.repeats {
					step = `{"interface":"firmware","step":"flash_nic","abortable":true}`
				}
				s := stepOf(t, "VendorManager", step)
				lose := func(call string) error {
					if call == "start "+agentapi.CmdExecCleanStep {
						return driver.ErrUnreachable
					}
					return nil
				}
				if r.Fail = lose; c.arrives {
					r.Fail = nil
					task.Agent = deaf{task.Agent}
				}
				out, err := s.Run(t.Context(), task)
				if _, waits := out.Waiting(); err != nil || !waits {
					t.Fatalf("%s: %+v, %v", c.name, out, err)
				}
				r.Fail, task.Agent = nil, r.Task(networkboot.IPXE()).Agent
				if c.restarts {
					r.RebootAgent()
				}
				out, err = s.Run(t.Context(), task)
				if _, waits := out.Waiting(); waits {
					t.Errorf("%s: it waits", c.name)
				}
				given := len(r.Writes("agent " + agentapi.CmdExecCleanStep))
				if given != c.given || (err != nil) != c.fails || (err == nil && out == driver.Done()) != c.succeeds {
					t.Errorf("%s (own ids %t): given %d times, want %d; %+v, %v", c.name, ownIDs, given, c.given, out, err)
				}
				if c.fails && (err == nil || !strings.Contains(err.Error(), "firmware.flash_nic") || !strings.Contains(err.Error(), "may have run")) {
					t.Errorf("%s: %v", c.name, err)
				}
			})
		}
	}
}

// After a step with reboot_requested the machine boots the ramdisk again, once, whichever rackd goes on with the step.
func TestAStepThatAsksForAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.SetPowerState(driver.PowerOn)
		task := r.Task(networkboot.IPXE())
		task.Facts[driver.FactBoot] = driver.BootRamdisk
		s := stepOf(t, "VendorManager", `{"interface":"bios","step":"flash","reboot_requested":true}`)
		saves := 0
		r.Fail = func(call string) error {
			if call == "save" {
				if saves++; saves == 4 { // the machine is off, and the boot's handle is not written
					return driver.ErrFenced
				}
			}
			return nil
		}
		if _, err := s.Run(t.Context(), task); err == nil || len(r.Writes("power power off")) != 1 {
			t.Fatalf("%v, writes %q: the test shows nothing", err, r.Log)
		}
		r.Fail = nil
		if out, err := s.Run(t.Context(), task); err != nil || out != driver.Done() {
			t.Errorf("the next rackd: %+v, %v", out, err)
		}
		if got := r.Writes("power"); !slices.Equal(got, []string{"power power off", "power power on"}) {
			t.Errorf("the machine's power: %q", got)
		}
		if got := r.Writes("agent " + agentapi.CmdExecCleanStep); len(got) != 1 {
			t.Errorf("the step began %d times", len(got))
		}
	})
}

// In maintenance a step with reboot_requested ends, and its machine is booted afterwards.
func TestNoRebootInMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, attended := newRig(), true
		r.SetPowerState(driver.PowerOn)
		s := stepOf(t, "VendorManager", `{"interface":"bios","step":"flash","reboot_requested":true}`)
		for range 5 {
			task := r.Task(networkboot.IPXE())
			task.Attended = func() bool { return attended }
			if out, err := s.Run(t.Context(), task); err != nil || out == driver.Done() || len(r.Writes("power")) != 0 {
				t.Fatalf("%+v, %v, writes %q", out, err, r.Log)
			}
		}
		attended = false
		if out, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || out != driver.Done() || len(r.Writes("power")) != 2 {
			t.Errorf("%+v, %v, writes %q", out, err, r.Log)
		}
	})
}

// Wherever its rackd is lost, a step with reboot_requested runs once, and the machine is booted once after it.
func TestAStepThatAsksForARebootIsLostAnywhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		ownIDs bool // ironic-python-agent's
		never  bool // disable_power_off
	}{{"our agent", false, false}, {"ironic-python-agent", true, false}, {"a machine that must not be switched off", true, true}} {
		for _, at := range []string{"save", "fence", "set_power"} {
			for lost, hit := 1, true; hit; lost++ {
				if lost == 50 {
					t.Fatal("the step writes without end")
				}
				hit = false
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					r.SetPowerState(driver.PowerOn)
					r.Runs, r.OwnIDs, r.Node.DisablePowerOff = 2, c.ownIDs, c.never
					s := stepOf(t, "VendorManager", `{"interface":"bios","step":"flash","reboot_requested":true}`)
					task := r.Task(networkboot.IPXE())
					task.Facts[driver.FactBoot] = driver.BootRamdisk
					calls := 0
					r.Fail = func(call string) error {
						if call == at {
							if calls++; calls == lost {
								return driver.ErrFenced
							}
						}
						return nil
					}
					if at == "fence" {
						r.LoseAfter(lost - 1)
					}
					for range 40 {
						task := r.Task(networkboot.IPXE())
						task.Entered = time.Unix(1, 0) // as the checkpoint has it
						out, err := s.Run(t.Context(), task)
						if errors.Is(err, driver.ErrFenced) {
							hit = true
							r.LoseAfter(1 << 20)
							continue // its next owner
						}
						if err != nil {
							t.Fatalf("%s, lost at %s %d: %v", c.name, at, lost, err)
						}
						if out == driver.Done() {
							break
						}
						time.Sleep(time.Second)
					}
					want := []string{"power power off", "power power on"}
					if c.never {
						want = []string{"power rebooting"}
					}
					if got := r.Writes("agent " + agentapi.CmdExecCleanStep); len(got) != 1 {
						t.Errorf("%s, lost at %s %d: the step ran %d times", c.name, at, lost, len(got))
					}
					if got := r.Writes("power"); !slices.Equal(got, want) {
						// A second reset into the ramdisk does no harm: nothing has run there since the first.
						if !c.never || len(got) != 2 {
							t.Errorf("%s, lost at %s %d: the machine's power: %q", c.name, at, lost, got)
						}
					}
				})
			}
		}
	}
}

// deaf loses the answers to orders that arrive.
type deaf struct{ driver.Agent }

// Start implements driver.Agent.
func (d deaf) Start(ctx context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	if _, err := d.Agent.Start(ctx, f, id, name, params); err != nil || name != agentapi.CmdExecCleanStep {
		return agentapi.Command{}, err
	}
	return agentapi.Command{}, driver.ErrUnreachable
}

// A rackd dies, or its BMC is silent, when the machine has been started into its instance after a service. The next run of the step does
// not switch the instance off.
func TestATakeoverLeavesTheInstanceRunning(t *testing.T) {
	for _, fails := range []error{driver.ErrFenced, driver.ErrUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.SetPowerState(driver.PowerOn)
			down := New(Settings{}).Down(r.Node, driver.InService)[0]
			r.Fail = func(call string) error {
				if call == "set_power" && len(r.Writes("power power on")) > 0 {
					return fails
				}
				return nil
			}
			if _, err := down.Run(t.Context(), r.Task(networkboot.IPXE())); !errors.Is(err, fails) {
				t.Fatal(err)
			}
			r.Fail = nil
			if out, err := down.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || out != driver.Done() {
				t.Fatalf("%+v, %v", out, err)
			}
			if got, want := r.Writes("power"), []string{"power power off", "power power on"}; !slices.Equal(got, want) {
				t.Errorf("after %v: %q, want %q", fails, got, want)
			}
		})
	}
}
