package dev_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// A hold outlives the process; what follows it runs when the node is let go.
func TestHoldOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, stop := start(t, dir, 0)
	id := fakeNode(t, o, "one", nil)
	list := steps{namedStep("deploy", "erase_devices_metadata", map[string]any{"priority": 50, "args": map[string]any{}}),
		namedStep("deploy", "hold", map[string]any{"priority": 90, "args": map[string]any{}})}
	request(t, o, id, map[string]any{"target": "active", "deploy_steps": list}, provision.DeployHold)
	stop()
	o, stop = start(t, dir, 0)
	defer stop()
	n, err := o.Show(t.Context(), id)
	if err != nil || n.ProvisionState != "deploy hold" || n.DeployStep["step"] != "hold" || n.TargetProvisionState != "active" {
		t.Fatalf("%v: state %q, step %v", err, n.ProvisionState, n.DeployStep)
	}
	request(t, o, id, map[string]any{"target": "unhold"}, provision.Active)
	history, err := o.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, h := range history {
		if strings.HasPrefix(h.Event, "deploy: fake") || strings.HasPrefix(h.Event, "erase_devices_metadata: fake") {
			ran++
		}
	}
	if ran != 2 {
		t.Errorf("%d steps ran, want each once: %v", ran, history)
	}
}

// An abort waits for a step that must not be cut short, and cuts others short at once.
func TestAbortsOfACleaning(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", map[string]any{"fake_delete_configuration_delay": 2, "fake_erase_devices_metadata_delay": 600})
	if err := o.Ask(t.Context(), id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		step map[string]any
		want string
	}{
		{namedStep("raid", "delete_configuration", nil), "after step raid.delete_configuration"},
		{namedStep("deploy", "erase_devices_metadata", nil), `aborted during or after the completion of step "deploy.erase_devices_metadata"`},
	} {
		began := time.Now()
		request(t, o, id, map[string]any{"target": "clean", "clean_steps": steps{c.step, namedStep("bios", "factory_reset", nil)}}, provision.CleanWait)
		if err := o.Ask(t.Context(), id, "abort", nil); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, o, id, "the cleaning is aborted", func(state, lastError string) bool {
			return state == "clean failed" && strings.Contains(lastError, c.want)
		})
		if n, err := o.Show(t.Context(), id); err != nil || n.Maintenance || n.DriverInternalInfo["clean_steps"] != nil {
			t.Errorf("%v: maintenance %t, %v", err, n.Maintenance, n.DriverInternalInfo)
		}
		if took := time.Since(began); c.step["interface"] == "raid" && took < 2*time.Second {
			t.Errorf("the step was cut short after %s", took)
		}
		request(t, o, id, map[string]any{"target": "manage"}, provision.Manageable)
	}
}
