package dev_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

type steps = []map[string]any

func namedStep(kind, name string, more map[string]any) map[string]any {
	s := map[string]any{"interface": kind, "step": name}
	for k, v := range more {
		s[k] = v
	}
	return s
}

// request asks for a verb with steps and waits for where it leads.
func request(t *testing.T, o *operator.Operator, id string, body map[string]any, want provision.State) {
	t.Helper()
	if err := o.Provision(t.Context(), id, body); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Wait(t.Context(), id, want); err != nil {
		t.Fatalf("%v: %v (step %v)", body, err, n.CleanStep)
	}
}

// given is the argument "settings" of a step.
func given(settings ...map[string]any) map[string]any {
	return map[string]any{"args": map[string]any{"settings": settings}}
}

var (
	retries  = given(map[string]any{"name": "BootRetries", "value": "7"})
	firmware = given(map[string]any{"component": "bmc", "url": "http://example.org/bmc-2.0.bin"})
)

// A manual cleaning runs the listed steps, holds where it is told to, and goes on; the
// node shows which step runs.
func TestManualCleaningHoldsAndGoesOn(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", map[string]any{"fake_delete_configuration_delay": 1})
	if err := o.Ask(t.Context(), id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	list := steps{namedStep("bios", "apply_configuration", retries), namedStep("raid", "delete_configuration", nil),
		namedStep("deploy", "hold", nil), namedStep("deploy", "erase_devices_metadata", nil), namedStep("power", "power_on", nil)}
	request(t, o, id, map[string]any{"target": "clean", "clean_steps": list}, provision.CleanWait)
	n, err := o.Show(t.Context(), id)
	if err != nil || n.CleanStep["step"] != "delete_configuration" || n.CleanStep["interface"] != "raid" {
		t.Errorf("clean_step %v, %v", n.CleanStep, err)
	}
	if n, err = o.Wait(t.Context(), id, provision.CleanHold); err != nil || n.CleanStep["step"] != "hold" || n.TargetProvisionState != "manageable" {
		t.Fatalf("%v: state %q, step %v", err, n.ProvisionState, n.CleanStep)
	}
	if listed, _ := n.DriverInternalInfo["clean_steps"].([]any); len(listed) != 5 || n.DriverInternalInfo["clean_step_index"] != 2.0 {
		t.Errorf("driver_internal_info %v", n.DriverInternalInfo)
	}
	request(t, o, id, map[string]any{"target": "unhold"}, provision.Manageable)
	if n, err = o.Show(t.Context(), id); err != nil || n.PowerState != "power on" || len(n.CleanStep) != 0 || n.DriverInternalInfo["clean_steps"] != nil {
		t.Errorf("%v: power %q, step %v, %v", err, n.PowerState, n.CleanStep, n.DriverInternalInfo)
	}
	// A step that the node does not have is refused, and the node stays as it is.
	err = o.Provision(t.Context(), id, map[string]any{"target": "clean", "clean_steps": steps{namedStep("raid", "paint", nil)}})
	if err == nil || !strings.Contains(err.Error(), "does not support this clean step: raid.paint") {
		t.Errorf("a step that the node does not have: %v", err)
	}
	if n, err = o.Show(t.Context(), id); err != nil || n.ProvisionState != "manageable" || n.Maintenance || n.Fault != "" {
		t.Errorf("%v: state %q, maintenance %t, fault %q", err, n.ProvisionState, n.Maintenance, n.Fault)
	}
}

// A service runs on the instance's node and leaves it active, also when it is aborted
// in its hold.
func TestServiceAndItsAbort(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", nil)
	request(t, o, id, map[string]any{"target": "active"}, provision.Active)
	list := steps{namedStep("firmware", "update", firmware), namedStep("power", "reboot", nil), namedStep("power", "wait", map[string]any{"args": map[string]any{"seconds": 0.2}})}
	if err := o.Provision(t.Context(), id, map[string]any{"target": "service", "service_steps": list}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, o, id, "the service is over", func(state, _ string) bool { return state == "active" })
	request(t, o, id, map[string]any{"target": "service", "service_steps": steps{namedStep("deploy", "hold", nil)}}, provision.ServiceHold)
	if err := o.Ask(t.Context(), id, "abort", nil); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, o, id, "the aborted service is active again", func(state, _ string) bool { return state == "active" })
	err := o.Provision(t.Context(), id, map[string]any{"target": "service", "service_steps": steps{namedStep("firmware", "update", nil)}})
	if err == nil || !strings.Contains(err.Error(), "missing these required arguments: settings") {
		t.Errorf("a service without its argument: %v", err)
	}
	if n, err := o.Show(t.Context(), id); err != nil || n.ProvisionState != "active" {
		t.Errorf("%v: state %q after a refused service, want active", err, n.ProvisionState)
	}
}

// Steps of the request take the place of the driver's in a deploy.
func TestDeploySteps(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", map[string]any{"fake_write_image_fail": "it must not run", "fake_factory_reset_fail": "it did run"})
	none := map[string]any{"priority": 0, "args": map[string]any{}}
	list := steps{namedStep("deploy", "write_image", none)}
	request(t, o, id, map[string]any{"target": "active", "deploy_steps": list}, provision.Active)
	request(t, o, id, map[string]any{"target": "deleted"}, provision.Available)
	list = append(list, namedStep("bios", "factory_reset", map[string]any{"priority": 42, "args": map[string]any{}}))
	if err := o.Provision(t.Context(), id, map[string]any{"target": "active", "deploy_steps": list}); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Wait(t.Context(), id, provision.Active); err == nil || n.ProvisionState != "deploy failed" || !strings.Contains(n.LastError, "it did run") {
		t.Errorf("state %q, last error %q", n.ProvisionState, n.LastError)
	}
}

// A step on child nodes changes them and not their parent.
func TestStepsOnChildren(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "parent", nil)
	child := fakeNode(t, o, "child", nil)
	if err := o.Set(t.Context(), child, "/parent_node", id); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(t.Context(), id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	on := namedStep("power", "power_on", map[string]any{"execute_on_child_nodes": true, "limit_child_node_execution": []string{child}})
	if err := o.Provision(t.Context(), id, map[string]any{"target": "clean", "clean_steps": steps{on}}); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitPower(t.Context(), child, "power on"); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Wait(t.Context(), id, provision.Manageable); err != nil || n.PowerState == "power on" {
		t.Errorf("%v: the parent is %q", err, n.PowerState)
	}
}

// waitUntil waits for a state and last error of the node.
func waitUntil(t *testing.T, o *operator.Operator, id, what string, is func(state, lastError string) bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for {
		n, err := o.Show(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if is(n.ProvisionState, n.LastError) && n.Reservation == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not so that %s: state %q, last error %q", what, n.ProvisionState, n.LastError)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
