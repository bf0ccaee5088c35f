package dev_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Clients' suites name the deploy interfaces of Ironic's fake-hardware. Each runs, and misses what it needs of the node.
func TestDeploysOfIronicsFakeHardware(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	for _, name := range []string{"direct", "custom-agent", "ansible", "anaconda", "autodetect", "bootc"} {
		id := fakeNode(t, o, name, nil)
		set := func(path string, value any) {
			t.Helper()
			if status, body := call(t, o, "PATCH", "/v1/nodes/"+id, "1.82", []map[string]any{{"op": "add", "path": path, "value": value}}); status != http.StatusOK {
				t.Fatalf("%s: %d %v", path, status, body)
			}
		}
		set("/deploy_interface", name)
		set("/instance_info/image_os_hash_value", strings.Repeat("0", 64))
		set("/instance_info/image_source", "http://example.org/i.raw")
		request(t, o, id, map[string]any{"target": "active"}, provision.Active)
		request(t, o, id, map[string]any{"target": "deleted"}, provision.Available)
		if name == "custom-agent" {
			continue // its steps bring their own image
		}
		_, body := call(t, o, "GET", "/v1/nodes/"+id+"/validate", "1.82", nil)
		if deploy, _ := body["deploy"].(map[string]any); deploy["result"] != false || !strings.Contains(fmt.Sprint(deploy["reason"]), "image_source") {
			t.Errorf("%s without an image: %v", name, deploy)
		}
	}
}

// Steps of Ironic's fake interfaces that do no more than that.
func TestStepsOfIronicsFakeHardware(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", nil)
	request(t, o, id, map[string]any{"target": "manage"}, provision.Manageable)
	request(t, o, id, map[string]any{"target": "clean", "clean_steps": steps{namedStep("bios", "cache_bios_settings", nil)}}, provision.Manageable)
	if _, body := call(t, o, "GET", "/v1/nodes/"+id+"/bios", "1.82", nil); !strings.Contains(fmt.Sprint(body), "ProcessorVirtualization") {
		t.Errorf("settings after cache_bios_settings: %v", body)
	}
	request(t, o, id, map[string]any{"target": "provide"}, provision.Available)
	request(t, o, id, map[string]any{"target": "active"}, provision.Active)
	request(t, o, id, map[string]any{"target": "service", "service_steps": steps{namedStep("vendor", "trigger_servicewait", nil)}}, provision.ServiceWait)
	if err := o.Ask(t.Context(), id, "abort", nil); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, o, id, "the aborted service is active again", func(state, _ string) bool { return state == "active" })
}
