package redfish

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A task that the BMC says is running is a sign of life at each look: else the flow's deadline ends the step while the BMC writes.
func TestATaskThatRunsIsASignOfLife(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
	task := r.Task(nobody{})
	task.Args = biosOnly
	if _, err := step.Run(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	if len(k.jobs) != 1 {
		t.Errorf("%d tasks", len(k.jobs))
	}
	for path := range k.jobs {
		k.jobs[path] = func() string { return "Running" }
	}
	k.mu.Unlock()
	for look := range 3 {
		told := len(r.Busy)
		out, err := step.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || !waits {
			t.Fatalf("look %d: %+v, %v", look, out, err)
		}
		if len(r.Busy) != told+1 || !strings.Contains(r.Busy[told], "is Running") {
			t.Errorf("look %d: after %d signs of life there are %q", look, told, r.Busy)
		}
	}
}

// A task that waits may begin at any moment, and so it holds the machine's power as one that runs does.
func TestATaskThatIsPendingHoldsThePower(t *testing.T) {
	k := newRack()
	r, d := rigOn(t, k)
	step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
	task := r.Task(nobody{})
	task.Args = biosOnly
	if _, err := step.Run(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	for path := range k.jobs {
		k.asked[path], k.jobs[path] = 2, func() string { return "Pending" }
	}
	k.mu.Unlock()
	told := len(r.Busy)
	if _, err := step.Run(t.Context(), task); err != nil || len(r.Busy) != told+1 || !strings.Contains(r.Busy[told], "is Pending") {
		t.Errorf("after %d signs of life there are %q, %v", told, r.Busy, err)
	}
}

// A BMC that is silent after an order of its firmware or its BIOS restarts with it. Each look at it is a sign of life as well.
func TestSilenceAfterAnOrderIsASignOfLife(t *testing.T) {
	silent := func(t *testing.T, r *drivertest.Rig, step driver.Step, args map[string]any) {
		t.Helper()
		task, told := r.Task(nobody{}), r.Told
		task.Args = args
		if out, err := step.Run(t.Context(), task); err != nil || r.Told == told || !strings.Contains(strings.Join(r.Busy, "\n"), "does not answer") {
			t.Errorf("%+v, %v; the BMC is said to be busy with %q", out, err, r.Busy)
		}
	}
	t.Run("firmware", func(t *testing.T) {
		k := &doubtful{rack: newRack()}
		e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
		e.set(func() { e.hook = k.serve })
		r.Node.DriverInfo = e.node(nil).DriverInfo
		step := stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update")
		task := r.Task(nobody{})
		task.Args = biosOnly
		if _, err := step.Run(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		e.set(func() { k.busy = 1000 })
		for look := 0; !strings.Contains(r.HandleText(), `"told":true`) && look < 50; look++ {
			if _, err := step.Run(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}
		silent(t, r, step, biosOnly)
	})
	t.Run("bios", func(t *testing.T) {
		m := withBIOS(newModel("Contoso"))
		r, b, _ := biosRig(t, m)
		r.SetPowerState(driver.PowerOn)
		silentAfter(m, 1000)
		step, args := stepNamed(t, b.NamedSteps(r.Node), "apply_configuration"), settings("Cores", 8.0)
		for range 600 {
			task := r.Task(nobody{})
			task.Args = args
			if _, err := step.Run(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			if len(m.written()) > 0 {
				break
			}
		}
		silent(t, r, step, args)
	})
}
