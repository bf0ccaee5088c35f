package idrac

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// called calls a vendor method, and returns its answer as JSON.
func called(t *testing.T, v Vendor, n *node.Document, name, verb string, args map[string]any) (string, error) {
	t.Helper()
	list := v.VendorMethods()
	at := slices.IndexFunc(list, func(m driver.VendorMethod) bool { return m.Name == name })
	if at < 0 {
		t.Fatalf("there is no method %s", name)
	}
	m := list[at]
	if err := m.Allows(verb); err != nil {
		t.Fatal(err)
	}
	if m.Check != nil {
		if err := m.Check(n, args); err != nil {
			return "", err
		}
	}
	got, err := m.Call(t.Context(), &drivertest.Fence{}, n, args)
	raw, failed := json.Marshal(got)
	if failed != nil {
		t.Fatal(failed)
	}
	return string(raw), err
}

// What Ironic read by WS-Man is read by Redfish, in its words. What changed the BIOS in several calls is refused. Nothing is written.
func TestMethodsOfWSMan(t *testing.T) {
	d := newDouble(t)
	v := Vendor{redfish.Vendor{Driver: management(t, redfish.Options{}, nil).Driver}}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
	if got, err := called(t, v, n, "list_unfinished_jobs", "GET", nil); err != nil || got != `{"unfinished_jobs":[]}` {
		t.Errorf("an empty queue: %s, %v", got, err)
	}
	d.Do(func() {
		d.addJob("JID_1", "Configure: BIOS.Setup.1-1", "Scheduled")
		d.addJob("JID_2", "Firmware Update", "Completed")
		d.At[queueAt]["Members"].([]any)[0].(map[string]any)["PercentComplete"] = 7
		d.At[queueAt]["Members"].([]any)[0].(map[string]any)["Message"] = "Task successfully scheduled."
		d.At[system]["Bios"] = redfishtest.Link(system + "/Bios")
		d.At[system+"/Bios"] = map[string]any{"Attributes": map[string]any{"ProcVirtualization": "Enabled", "AcPwrRcvryUserDelay": 60}}
	})
	want := `{"unfinished_jobs":[{"id":"JID_1","message":"Task successfully scheduled.","name":"Configure: BIOS.Setup.1-1","percent_complete":7,"start_time":"","status":"Scheduled","until_time":""}]}`
	if got, err := called(t, v, n, "list_unfinished_jobs", "GET", nil); err != nil || got != want {
		t.Errorf("the queue: %s, %v, want %s", got, err, want)
	}
	want = `{"AcPwrRcvryUserDelay":{"current_value":"60","name":"AcPwrRcvryUserDelay"},"ProcVirtualization":{"current_value":"Enabled","name":"ProcVirtualization"}}`
	if got, err := called(t, v, n, "get_bios_config", "GET", nil); err != nil || got != want {
		t.Errorf("BIOS settings: %s, %v, want %s", got, err, want)
	}
	for name, verb := range biosInCalls {
		if _, err := called(t, v, n, name, verb, map[string]any{"ProcVirtualization": "Disabled"}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "bios.apply_configuration sets") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := called(t, v, n, "get_bios_config", "GET", map[string]any{"all": true}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("an argument: %v", err)
	}
	if w := d.Written(); len(w) > 0 {
		t.Errorf("written %q", w)
	}
}

// An iDRAC that does not show what is asked for says so.
func TestMethodsOfWSManFail(t *testing.T) {
	d := newDouble(t)
	v := Vendor{redfish.Vendor{Driver: management(t, redfish.Options{}, nil).Driver}}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
	if _, err := called(t, v, n, "get_bios_config", "GET", nil); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "shows no BIOS settings") {
		t.Errorf("no BIOS: %v", err)
	}
	n.DriverInfo = d.info("wr0ng")
	if _, err := called(t, v, n, "list_unfinished_jobs", "GET", nil); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("a wrong password: %v", err)
	}
}
