package redfish

import (
	"strings"
	"testing"
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
