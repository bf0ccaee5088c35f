package redfish

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A boot device for one start is taken back in the form that the BMC takes. One that rackd sets again before each start stays. A BMC that
// accepts and goes on to show the device is an error.
func TestABootDeviceForOneStartIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		vendor string
		set    func(m *model)
		lasts  bool
		want   []string
		says   string
	}{
		"the standard": {"Contoso", nil, false, []string{`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`}, ""},
		"Supermicro wants all in one": {"Supermicro", nil, false,
			[]string{`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`}, ""},
		"set again before each start": {"Lenovo", func(m *model) {
			m.boot()["BootSourceOverrideEnabled@Redfish.AllowableValues"] = []any{"Once", "Disabled"}
		}, true, nil, ""},
		"it is not done": {"Contoso", func(m *model) {
			m.before = func(_ *model, w http.ResponseWriter, _ *http.Request, body map[string]any) bool {
				boot, _ := body["Boot"].(map[string]any)
				if boot["BootSourceOverrideEnabled"] != "Disabled" {
					return false
				}
				w.WriteHeader(http.StatusNoContent)
				return true
			}
		}, false, []string{`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`}, "and shows Pxe as before"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(c.vendor)
			if c.set != nil {
				c.set(m)
			}
			r, d := modelRig(t, m)
			if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, r.Node, driver.BootPXE, c.lasts); err != nil {
				t.Fatal(err)
			}
			before := len(m.written())
			err := d.ClearOneStart(t.Context(), &drivertest.Fence{}, r.Node)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got := m.written()[before:]; !slices.Equal(got, c.want) {
				t.Errorf("the BMC got %q, want %q", got, c.want)
			}
			is, err := d.BootDevice(t.Context(), r.Node)
			if left := c.lasts || c.says != ""; err != nil || (is.Device == "pxe") != left || !left && is.Device != "" {
				t.Errorf("it then shows %+v, %v", is, err)
			}
		})
	}
}
