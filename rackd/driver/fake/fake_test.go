package fake

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// flow runs steps the way a conductor does and returns how long they took.
func flow(t *testing.T, r *drivertest.Rig, f *Fleet, steps []driver.Step) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	for _, s := range steps {
		r.NextStep()
		for {
			out, err := s.Run(t.Context(), r.Task(f.Interface("boot")))
			if err != nil {
				return time.Since(began), err
			}
			poll, waiting := out.Waiting()
			if !waiting {
				break
			}
			<-time.After(poll)
		}
	}
	return time.Since(began), nil
}

func TestDeployTakesItsDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := New(Options{}), drivertest.NewRig()
		deploy := f.Interface("deploy").(driver.Deploy)
		if took, err := flow(t, r, f, deploy.DeploySteps(r.Node)); err != nil || took != 0 {
			t.Errorf("without delays: %s, %v", took, err)
		}
		if s, err := f.Interface("power").(driver.Power).PowerState(t.Context(), r.Node); s != driver.PowerOn || err != nil {
			t.Errorf("after the deploy: %q, %v", s, err)
		}
		r.Node.DriverInfo = map[string]any{"fake_write_image_delay": 7, "fake_deploy_delay": "0.5"}
		if took, err := flow(t, r, f, deploy.DeploySteps(r.Node)); err != nil || took != 7500*time.Millisecond {
			t.Errorf("with delays: %s, %v; want 7.5s", took, err)
		}
		f.opts.DefaultDelay = time.Second
		if took, err := flow(t, r, f, deploy.TearDownSteps(r.Node)); err != nil || took != time.Second {
			t.Errorf("default delay: %s, %v", took, err)
		}
	})
}

func TestSuccessorWaitsForTheSameEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.DriverInfo = map[string]any{"fake_write_image_delay": 10}
		first, second := New(Options{}), New(Options{})
		at := 1 // write_image
		if _, err := first.Interface("deploy").(driver.Deploy).DeploySteps(r.Node)[at].Run(t.Context(), r.Task(first.Interface("boot"))); err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Second)
		out, err := second.Interface("deploy").(driver.Deploy).DeploySteps(r.Node)[at].Run(t.Context(), r.Task(second.Interface("boot")))
		if poll, waiting := out.Waiting(); err != nil || !waiting || poll != 4*time.Second {
			t.Errorf("%s, %v, %v; want 4s left", poll, waiting, err)
		}
	})
}

func TestFailuresOnDemand(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{"fake_write_image_fail": "disk is full", "fake_set_boot_device_fail": "stuck", "fake_set_boot_device_unreachable": true,
		"fake_raid_validate_fail": "no controller"}
	if _, err := flow(t, r, f, f.Interface("deploy").(driver.Deploy).DeploySteps(r.Node)); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("deploy: %v", err)
	}
	if err := f.Interface("management").(driver.Management).SetBootDevice(t.Context(), r, r.Node, "pxe", true); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("boot device: %v", err)
	}
	if err := f.Interface("raid").Validate(r.Node); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("validate: %v", err)
	}
	r.Node.DriverInfo = map[string]any{"fake_deploy_delay": "soon"}
	if err := f.Interface("deploy").Validate(r.Node); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a delay that is no number: %v", err)
	}
}

func TestOneShotBootDeviceIsUsedUp(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	p, m := f.Interface("power").(driver.Power), f.Interface("management").(driver.Management)
	if err := errors.Join(m.SetBootDevice(t.Context(), r, r.Node, "pxe", false), p.SetPower(t.Context(), r, r.Node, driver.PowerOn)); err != nil {
		t.Fatal(err)
	}
	if d, err := m.BootDevice(t.Context(), r.Node); d.Device != "disk" || err != nil {
		t.Errorf("%+v, %v; want disk again", d, err)
	}
}

func TestLights(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	lights := f.Interface("management").(driver.Indicators)
	for _, at := range []struct{ component, name string }{{"chassis", "led-0"}, {"system", "led"}} {
		if light, err := lights.Indicator(t.Context(), r.Node, at.component, at.name); light != "on" || err != nil {
			t.Errorf("%s of the %s: %q, %v; want on", at.name, at.component, light, err)
		}
	}
	if err := lights.SetIndicator(t.Context(), r, r.Node, "system", "led", "blinking"); err != nil {
		t.Fatal(err)
	}
	if light, err := lights.Indicator(t.Context(), r.Node, "system", "led"); light != "blinking" || err != nil {
		t.Errorf("%q, %v; want what was set", light, err)
	}
	for _, at := range [][3]string{{"chassis", "led-0", "off"}, {"chassis", "led", "on"}, {"system", "led", "purple"}} {
		if err := lights.SetIndicator(t.Context(), r, r.Node, at[0], at[1], at[2]); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v, want it refused", at, err)
		}
	}
}

func TestLostFenceChangesNothing(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	r.Lose()
	p := f.Interface("power").(driver.Power)
	if err := p.SetPower(t.Context(), r, r.Node, driver.PowerOn); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("%v, want ErrFenced", err)
	}
	if s, _ := p.PowerState(t.Context(), r.Node); s != driver.PowerOff {
		t.Errorf("the machine is %q", s)
	}
}

func TestInspectRescueAndNamedSteps(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	steps := f.Interface("inspect").(driver.Inspect).InspectSteps(r.Node)
	rescuer := f.Interface("rescue").(driver.Rescuer)
	steps = append(append(steps, rescuer.RescueSteps(r.Node)...), rescuer.UnrescueSteps(r.Node)...)
	if _, err := flow(t, r, f, steps); err != nil {
		t.Fatal(err)
	}
	if r.Inv == nil || len(r.Inv.Interfaces) != 1 || r.Inv.Boot.PXEInterface != r.Node.Ports[0].Address {
		t.Errorf("inventory %+v", r.Inv)
	}
}

// In-band inspection switches the machine on, waits for what its ramdisk sends, and off.
func TestInBandInspectionWaits(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	var steps []driver.Step
	for _, named := range f.Type().Interfaces["inspect"] {
		if named.Name == "agent" {
			steps = named.Impl.(driver.Inspect).InspectSteps(r.Node)
		}
	}
	power := func() driver.PowerState {
		s, err := f.Interface("power").(driver.Power).PowerState(t.Context(), r.Node)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := func(s driver.Step, sent *agentapi.Inventory) driver.Outcome {
		task := r.Task(f.Interface("boot"))
		task.Inspected = func() *agentapi.Inventory { return sent }
		out, err := s.Run(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := run(steps[0], nil); out != driver.Done() || power() != driver.PowerOn {
		t.Errorf("booting: %+v, %s", out, power())
	}
	if _, waits := run(steps[1], nil).Waiting(); !waits || r.Inv != nil {
		t.Errorf("nothing was sent, and the inspection does not wait; inventory %+v", r.Inv)
	}
	if out := run(steps[1], &agentapi.Inventory{Hostname: "h"}); out != driver.Done() || r.Inv == nil || r.Inv.Hostname != "h" {
		t.Errorf("sent: %+v, inventory %+v", out, r.Inv)
	}
	if run(steps[2], nil); power() != driver.PowerOff {
		t.Errorf("in the end the machine is %s", power())
	}
	r.Node.DisablePowerOff = true
	if run(steps[2], nil); power() != driver.PowerOn {
		t.Errorf("a machine that may not be switched off is %s", power())
	}
}

// Each kind's steps have the kind's name, an effect when they run, and say what they take.
func TestNamedSteps(t *testing.T) {
	f, r := New(Options{}), drivertest.NewRig()
	for kind, names := range named {
		steps := f.Interface(kind).(driver.StepSource).NamedSteps(r.Node)
		if len(steps) != len(names) {
			t.Errorf("%s: %d steps, want %d", kind, len(steps), len(names))
		}
		for _, s := range steps {
			if s.Interface != kind || s.NoRamdisk != (kind != "deploy") {
				t.Errorf("step %s.%s of %s, without ramdisk: %t", s.Interface, s.Name, kind, s.NoRamdisk)
			}
		}
	}
	if err := f.Interface("power").(driver.Power).SetPower(t.Context(), r, r.Node, driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if _, err := flow(t, r, f, f.Interface("deploy").(driver.StepSource).NamedSteps(r.Node)[:1]); err != nil {
		t.Fatal(err)
	}
	if s, _ := f.Interface("power").(driver.Power).PowerState(t.Context(), r.Node); s != driver.PowerOff {
		t.Errorf("after erase_devices the machine is %q", s)
	}
}
