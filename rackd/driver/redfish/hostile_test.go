package redfish

import (
	"net/http"
	"strings"
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

