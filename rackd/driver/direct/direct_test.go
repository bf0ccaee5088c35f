package direct

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var _ driver.Deploy = Interface{}

func newRig() *drivertest.Rig {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = map[string]any{"image_source": "http://images/os.qcow2", "image_checksum": strings.Repeat("ab", 32)}
	r.Answer = func(name string) (any, string) {
		switch name {
		case agentapi.CmdPrepareImage:
			return agentapi.PrepareImageResult{RootDevice: "/dev/vda", RootUUID: "r-uuid", Written: agentapi.Progress{DoneBytes: 512e6, MBPerSec: 123}}, ""
		case agentapi.CmdGetCleanSteps:
			return map[string]any{"clean_steps": map[string]any{"generic": []any{
				map[string]any{"interface": "deploy", "step": "erase_devices", "priority": 10},
				map[string]any{"interface": "deploy", "step": "burnin", "priority": 0},
				map[string]any{"interface": "deploy", "step": "erase_devices_metadata", "priority": 99}}}}, ""
		case agentapi.CmdGetDeploySteps:
			return map[string]any{"deploy_steps": map[string]any{"generic": []any{}}}, ""
		case agentapi.CmdGetServiceSteps:
			return map[string]any{"service_steps": map[string]any{"generic": []any{}}}, ""
		}
		return map[string]any{}, ""
	}
	return r
}

// The agent is told of UEFI only where the node asks for it: the agent fails there on a machine that was booted by BIOS.
func TestTheAgentIsToldWhetherUEFIIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		properties, instance any
		told, asked          bool
	}{
		"not at all":        {told: true},
		"by the node":       {properties: "boot_mode:uefi", told: true, asked: true},
		"by the instance":   {instance: map[string]any{"boot_mode": "uefi"}, told: true, asked: true},
		"by secure boot":    {instance: "secure_boot:true", told: true, asked: true},
		"BIOS is asked for": {properties: "boot_mode:uefi", instance: "boot_mode:bios"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Node.Properties = map[string]any{"capabilities": c.properties}
			r.Node.InstanceInfo["capabilities"] = c.instance
			task := withMedia(t, r, networkboot.IPXE(), nil)
			if _, err := New(Settings{}).prepareInstanceBoot(t.Context(), task); err != nil {
				t.Fatal(name, err)
			}
			got := strings.Join(r.Writes("agent "+agentapi.CmdInstallBoot), "; ")
			if (got != "") != c.told || strings.Contains(got, `"target_boot_mode":"uefi"`) != c.asked {
				t.Errorf("%s: told %q", name, got)
			}
		})
	}
}

// The own agent is told which disks are kept, for the case that it has started again since the write.
// ironic-python-agent, which refuses what it does not know, is not told.
func TestTheOwnAgentIsToldTheKeptDisksForTheBootLoader(t *testing.T) {
	for readBack, told := range map[string]bool{"true": true, "": false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Node.Properties = map[string]any{"capabilities": "boot_mode:uefi", "skip_block_devices": []any{map[string]any{"serial": "S1"}}}
			task := withMedia(t, r, networkboot.IPXE(), nil)
			if readBack != "" {
				task.Facts[factReadBack] = readBack
			}
			if _, err := New(Settings{}).prepareInstanceBoot(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.Writes("agent "+agentapi.CmdInstallBoot), "; ")
			if got == "" || strings.Contains(got, `"ironyard_skip_block_devices":[{"serial":"S1"}]`) != told {
				t.Errorf("image read back %q: told %q", readBack, got)
			}
		})
	}
}

// flow runs steps as a conductor does, each run with a new task, as if each had a
// new owner.
func flow(t *testing.T, r *drivertest.Rig, steps []driver.Step) error {
	t.Helper()
	for _, s := range steps {
		r.NextStep()
		for runs := 0; ; runs++ {
			out, err := s.Run(t.Context(), r.Task(networkboot.IPXE()))
			if err != nil {
				return err
			}
			poll, waiting := out.Waiting()
			if !waiting {
				break
			}
			if runs > 50 {
				t.Fatalf("step %s never ends", s.Name)
			}
			<-time.After(max(poll, time.Second))
		}
	}
	return nil
}

func run(t *testing.T, r *drivertest.Rig, name string) (driver.Outcome, error) {
	t.Helper()
	for _, s := range New(Settings{}).DeploySteps(r.Node) {
		if s.Name == name {
			return s.Run(t.Context(), r.Task(networkboot.IPXE()))
		}
	}
	t.Fatalf("no step %s", name)
	return driver.Outcome{}, nil
}

func TestDeployEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Runs = 3
		if err := flow(t, r, New(Settings{}).DeploySteps(r.Node)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range r.Log {
			words := strings.Fields(w)
			got = append(got, strings.Join(words[:min(len(words), 3)], " "))
		}
		image := `{"image_info":{"id":"` + strings.Repeat("ab", 32)
		want := []string{"boot pxe false", "power power on", "agent deploy.get_deploy_steps", "agent standby.prepare_image", "agent image.install_bootloader", "boot disk true",
			"agent standby.sync", "agent standby.power_off", "power power off", "power power on"}
		for i := range got {
			if i < len(want) && !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("write %d: %q, want %q…", i, got[i], want[i])
			}
		}
		if len(got) != len(want) || !strings.Contains(r.Writes("agent standby.prepare_image")[0], image) {
			t.Errorf("writes %q", r.Log)
		}
		for _, phase := range []string{"power on: ", "agent: ", "image: ", "write: 512 MB at 123 MB/s to /dev/vda", "reboot: "} {
			if !slices.ContainsFunc(r.Phases, func(p string) bool { return strings.HasPrefix(p, phase) }) {
				t.Errorf("phases %q lack %q", r.Phases, phase)
			}
		}
		// The neighbours learn what to copy, the agent where the copies are.
		id := "sha256-" + strings.Repeat("ab", 32)
		if got := r.Task(networkboot.IPXE()).Facts[driver.FactImage]; got != id {
			t.Errorf("image %q is told to the neighbours, want %q", got, id)
		}
		if urls := `"urls":["http://rack/images/` + id + `","http://neighbour/images/` + id + `"]`; !strings.Contains(r.Writes("agent standby.prepare_image")[0], urls) {
			t.Errorf("the agent was told %q, want %s in it", r.Writes("agent standby.prepare_image")[0], urls)
		}
		if r.Progress.TotalBytes == 0 {
			t.Error("no progress was shown")
		}
	})
}

func TestBIOSWritesNoBootEntry(t *testing.T) {
	r := newRig()
	r.Node.InstanceInfo["capabilities"] = map[string]any{"boot_mode": "bios"}
	if _, err := run(t, r, "prepare_instance_boot"); err != nil || len(r.Writes("agent")) != 0 {
		t.Errorf("%v, writes %q", err, r.Log)
	}
}

func TestWriteIsFoundAgainByASuccessor(t *testing.T) {
	r := newRig()
	r.Runs = 2
	for range 3 {
		if _, err := run(t, r, "write_image"); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Writes("agent"); len(got) != 1 {
		t.Errorf("the write was started %d times", len(got))
	}
}

// A young command is asked for often, one that takes long every two seconds.
func TestPauseGrowsWithTheStep(t *testing.T) {
	i := New(Settings{})
	for age, want := range map[time.Duration]time.Duration{-time.Hour: soonest, 0: soonest, 4 * time.Second: time.Second, time.Hour: 2 * time.Second} {
		got, waiting := i.later(&driver.Task{Entered: time.Now().Add(-age)}).Waiting()
		if !waiting || got < want || got > want+100*time.Millisecond {
			t.Errorf("a step of %s is looked at again after %s, want %s", age, got, want)
		}
	}
}

func TestSilentAgentIsWaitedFor(t *testing.T) {
	r := newRig()
	r.Fail = func(call string) error {
		if strings.HasPrefix(call, "start") || call == "command" {
			return driver.ErrUnreachable
		}
		return nil
	}
	for range 20 {
		out, err := run(t, r, "write_image")
		if poll, waiting := out.Waiting(); err != nil || !waiting || poll < soonest || poll > 2*time.Second {
			t.Fatalf("%+v, %v; want a wait of 0.25 to 2 s", out, err)
		}
	}
	r.Fail = nil
	if out, err := run(t, r, "write_image"); err != nil || out != driver.Done() {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRebootedAgentGetsItsCommandTwiceAgain(t *testing.T) {
	r := newRig()
	r.Runs = 100
	var err error
	starts := 0
	for err == nil && starts < 10 {
		_, err = run(t, r, "write_image")
		starts = len(r.Writes("agent"))
		r.RebootAgent()
	}
	if err == nil || starts != 3 || !strings.Contains(err.Error(), "console") {
		t.Errorf("%v after %d starts, want an error after 3", err, starts)
	}
}

func TestFailuresOfTheWrite(t *testing.T) {
	r := newRig()
	r.Answer = func(string) (any, string) { return nil, "sha256 of the image is aa, expected bb" }
	if _, err := run(t, r, "write_image"); err == nil || !strings.Contains(err.Error(), "expected bb") || !strings.Contains(err.Error(), "web1") {
		t.Errorf("%v, want node and the agent's reason", err)
	}
	r = newRig()
	r.Fail = func(call string) error {
		if call == "prepare_image" {
			return errors.New("HTTP 404 from http://images/os.qcow2")
		}
		return nil
	}
	if _, err := run(t, r, "write_image"); err == nil || !strings.Contains(err.Error(), "404") || len(r.Log) != 0 {
		t.Errorf("%v, writes %q", err, r.Log)
	}
}

func TestNothingIsWrittenAfterTheNodeIsLost(t *testing.T) {
	for passes := range 9 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.LoseAfter(passes)
			err := flow(t, r, New(Settings{}).DeploySteps(r.Node))
			if !errors.Is(err, driver.ErrFenced) || len(r.Log) != passes {
				t.Errorf("lost after %d writes: %v, writes %q", passes, err, r.Log)
			}
		})
	}
}

func TestAgentThatCannotSyncKeepsItsPower(t *testing.T) {
	r := newRig()
	r.SetPowerState(driver.PowerOn)
	r.Answer = func(string) (any, string) { return nil, "input/output error" }
	if _, err := run(t, r, "tear_down_agent"); err == nil || len(r.Writes("power")) != 0 {
		t.Errorf("%v, writes %q", err, r.Log)
	}
}

// An operator has restarted the machine after its image was written and read back: no agent is there to say farewell to. An
// agent that did not read back may have lost some of the image: without its farewell the deploy does not go on.
func TestTearDownOfARestartedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, readBack := range []bool{true, false} {
			r := newRig()
			r.SetPowerState(driver.PowerOn)
			facts := r.Task(networkboot.IPXE()).Facts
			if facts[driver.FactRestarted] = "rebooting"; readBack {
				facts[factReadBack] = "true"
			}
			r.Answer = func(string) (any, string) { return nil, "gone" }
			_, err := run(t, r, "tear_down_agent")
			if readBack && (err != nil || len(r.Writes("agent")) != 0 || len(r.Writes("power")) != 1) {
				t.Errorf("%v, writes %q, want that the power is cut", err, r.Log)
			}
			if !readBack && (err == nil || len(r.Writes("power")) != 0) {
				t.Errorf("not read back: %v, writes %q", err, r.Log)
			}
		}
	})
}

// cleaned is what a conductor runs for a cleaning: the ramdisk up, what pick makes of
// the agent's steps, and down.
func cleaned(t *testing.T, r *drivertest.Rig, f driver.Flows, pick func([]driver.Step) []driver.Step) {
	t.Helper()
	d := New(Settings{})
	up := d.Up(r.Node, f)
	if !up[len(up)-1].Discovers {
		t.Error("nothing discovers the agent's steps")
	}
	if _, ok, err := d.Offered(map[string]string{}, f); ok || err != nil {
		t.Errorf("steps are offered before the agent was asked: %v", err)
	}
	if err := flow(t, r, up); err != nil {
		t.Fatal(err)
	}
	offered, ok, err := d.Offered(r.Task(networkboot.IPXE()).Facts, f)
	if !ok || err != nil {
		t.Fatalf("offered: %t, %v", ok, err)
	}
	if err := flow(t, r, append(pick(offered), d.Down(r.Node, f)...)); err != nil {
		t.Fatal(err)
	}
}

func TestCleaningRunsWhatTheAgentOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Runs = 2
		cleaned(t, r, driver.InClean, func(offered []driver.Step) []driver.Step {
			if len(offered) != 3 || offered[0].Name != "burnin" || offered[1].Priority != 10 || !offered[2].InBand || offered[2].Priority != 99 {
				t.Errorf("offered %+v", offered)
			}
			return offered[1:]
		})
		got := r.Writes("agent clean.execute")
		if len(got) != 2 || !strings.Contains(got[0], `"erase_devices"`) || !strings.Contains(got[1], "erase_devices_metadata") {
			t.Errorf("clean steps %q", got)
		}
		if last := r.Log[len(r.Log)-1]; last != "power power off" {
			t.Errorf("the last write is %q", last)
		}
	})
}

// A list may name a step twice: each is a command of its own.
func TestStepsThatAreListedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Runs = 1
		cleaned(t, r, driver.InClean, func(offered []driver.Step) []driver.Step {
			return []driver.Step{offered[1], offered[2], offered[1]}
		})
		if got := r.Writes("agent clean.execute"); len(got) != 3 {
			t.Errorf("clean steps %q", got)
		}
	})
}

func TestServiceEndsInTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		cleaned(t, r, driver.InService, func([]driver.Step) []driver.Step { return nil })
		if last := r.Log[len(r.Log)-1]; last != "power power on" || r.Task(networkboot.IPXE()).Facts[driver.FactBoot] != driver.BootInstance {
			t.Errorf("the last write is %q, the machine boots %q", last, r.Task(networkboot.IPXE()).Facts[driver.FactBoot])
		}
	})
}

func TestOffersThatCannotBeTaken(t *testing.T) {
	for name, raw := range map[string]string{"no JSON": "{", "no steps": `{"clean_steps":7}`, "no interface": `{"clean_steps":[{"step":"x"}]}`,
		"a strange interface": `{"clean_steps":[{"step":"x","interface":"teapot"}]}`, "a long name": `{"clean_steps":[{"interface":"deploy","step":"` + strings.Repeat("x", 101) + `"}]}`,
		"too much": `{"clean_steps":[{"interface":"deploy","step":"` + strings.Repeat("x", maxStepsBytes) + `"}]}`} {
		if steps, err := parseSteps([]byte(raw), driver.InClean); err == nil {
			t.Errorf("%s: %+v", name, steps)
		}
	}
	twice := `{"clean_steps":{"b":[{"interface":"deploy","step":"x","priority":1}],"a":[{"interface":"deploy","step":"x","priority":5}]}}`
	if steps, err := parseSteps([]byte(twice), driver.InClean); err != nil || len(steps) != 1 || steps[0].Priority != 5 {
		t.Errorf("a step of two managers: %+v, %v", steps, err)
	}
}

func TestTearDownSwitchesOff(t *testing.T) {
	r := newRig()
	r.SetPowerState(driver.PowerOn)
	if err := flow(t, r, New(Settings{}).TearDownSteps(r.Node)); err != nil || !slices.Equal(r.Log, []string{"power power off"}) {
		t.Errorf("%v, writes %q", err, r.Log)
	}
}

func TestNoSecretGoesToTheAgent(t *testing.T) {
	r := newRig()
	r.Node.DriverInfo = map[string]any{"redfish_password": "s3cret"}
	synctest.Test(t, func(t *testing.T) {
		if err := errors.Join(flow(t, r, New(Settings{}).DeploySteps(r.Node)), flow(t, r, New(Settings{}).Up(r.Node, driver.InClean))); err != nil {
			t.Fatal(err)
		}
	})
	for _, w := range r.Log {
		if strings.Contains(w, "s3cret") {
			t.Errorf("the BMC's password goes out: %q", w)
		}
	}
}
