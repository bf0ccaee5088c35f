package redfish

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A BMC whose resource is null has an error for an answer. gofish takes null for a resource, and uses it.
func TestABMCThatAnswersNullEndsNothing(t *testing.T) {
	for _, path := range []string{"/redfish/v1", "/redfish/v1/Systems", "/redfish/v1/Systems/1"} {
		e := newEmulator(t)
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.TrimSuffix(r.URL.Path, "/") != path {
				return false
			}
			_, _ = w.Write([]byte("\n null"))
			return true
		}
		if state, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(nil)); err == nil || !strings.Contains(err.Error(), "answered HTTP 200: null") {
			t.Errorf("%s: %q, %v", path, state, err)
		}
	}
}

// What one call asks of a BMC is bounded, whatever the BMC links to.
func TestACollectionThatGoesInACircleIsLeft(t *testing.T) {
	const drives = "/redfish/v1/Systems/1/VirtualMedia"
	e, bmc, requests := newEmulator(t), newTree(), atomic.Int64{}
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != drives {
			return bmc.serve(w, r)
		}
		if requests.Add(1) > 20_000 {
			refuse(w, http.StatusNotFound, "enough")
			return true
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Members": []any{}, "Members@odata.nextLink": drives})
		return true
	}
	if _, err := newDriver(t, Options{}).Media(t.Context(), e.node(nil)); err == nil || requests.Load() > 10_000 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
}

// What a BMC tells of its settings gets into errors and histories as its other words do: on one line, without the password.
func TestMessagesOfSettingsAreCleaned(t *testing.T) {
	m := withBIOS(newModel("Maker"))
	m.at[biosAt]["@Redfish.Settings"].(map[string]any)["Messages"] = []any{map[string]any{"Message": "PATCH by admin:s3cret-pass\x1b]0;x\x07\nrefused"}}
	r, bios, f := biosRig(t, m)
	f.forgets = true
	err := runStep(t, r, stepNamed(t, bios.NamedSteps(r.Node), "apply_configuration"), settings("Virtualization", "Enabled"))
	if err == nil || !strings.Contains(err.Error(), "The BMC says") {
		t.Fatalf("%v, want what the BMC says", err)
	}
	if text := err.Error(); strings.Contains(text, "s3cret-pass") || strings.ContainsAny(text, "\x1b\x07\n") {
		t.Errorf("%q", text)
	}
}
