package irmc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// An iRMC without a Redfish service is watched by IPMI.
func TestAnOldIRMCIsWatchedByIPMI(t *testing.T) {
	d := newDouble(t)
	i, f := newInterface(t, lan{d}), &drivertest.Fence{}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
	if err := i.SetIndicator(t.Context(), f, n, "system", "led", "on"); err != nil { // not yet known to be old
		t.Error(err)
	}
	if is, err := i.Indicator(t.Context(), n, "system", "led"); err != nil || is != "chassis on" {
		t.Errorf("light %q, %v", is, err)
	}
	if list, err := i.Indicators(t.Context(), n); err != nil || len(list) != 1 || list[0].Component != "system" {
		t.Errorf("lights %v, %v", list, err)
	}
	if err := i.SetIndicator(t.Context(), f, n, "chassis", "led", "on"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("another light: %v", err)
	}
	if found, err := i.Sensors(t.Context(), n); err != nil || len(found["Temperature"]) != 1 {
		t.Errorf("sensors %v, %v", found, err)
	}
	if vendor, err := i.DetectVendor(t.Context(), n); err != nil || vendor != "fujitsu" {
		t.Errorf("vendor %q, %v", vendor, err)
	}
	if mark, err := i.LogEnd(t.Context(), n); err != nil || mark != "ab" {
		t.Errorf("the end of the log %q, %v", mark, err)
	}
	if list, mark, err := i.LogEntries(t.Context(), n, "aa"); err != nil || len(list) != 1 || list[0].Text != "after aa" || mark != "ab" {
		t.Errorf("log %+v, %q, %v", list, mark, err)
	}
	if err := i.ClearLog(t.Context(), f, n); err != nil {
		t.Error(err)
	}
	if _, err := i.Clock(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "no Redfish service") {
		t.Errorf("the clock: %v", err)
	}
	v := Vendor{Vendor: redfish.Vendor{Driver: i.Management.Driver}, Own: i}
	methods := map[string]int{}
	for _, m := range v.VendorMethods() {
		if methods[m.Name]++; m.Name != "get_event_log" {
			continue
		}
		if got, err := m.Call(t.Context(), f, n, nil); err != nil || !strings.Contains(fmt.Sprint(got), "after ") {
			t.Errorf("get_event_log: %v, %v", got, err)
		}
	}
	if methods["get_event_log"] != 1 || methods["clear_event_log"] != 1 || methods["eject_vmedia"] != 1 || len(v.NamedSteps(n)) != 1 {
		t.Errorf("methods %v", methods)
	}
	// An error names the fields that the node has.
	n.DriverInfo[fieldPassword] = "wr0ng"
	for range 2 { // the second time it is known that this account's iRMC is old
		if _, err := i.Sensors(t.Context(), n); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "check irmc_username and irmc_password") {
			t.Errorf("refused credentials: %v", err)
		}
	}
}

// irmc_sensor_method is acted on, or refused.
func TestSensorsAreReadByTheMethod(t *testing.T) {
	b := redfishtest.Start(t, "Fujitsu", redfishtest.Tree{
		"/redfish/v1/Chassis/1":         {"Id": "1", "Thermal": redfishtest.Link("/redfish/v1/Chassis/1/Thermal")},
		"/redfish/v1/Chassis/1/Thermal": {"Temperatures": []any{map[string]any{"Name": "Ambient", "ReadingCelsius": 21.0}}}})
	d := newDouble(t) // of whose IPMI alone is asked
	i := newInterface(t, lan{d})
	for method, want := range map[string]string{"": "reading_celsius:21", "ipmitool": "Sensor Reading:24", "IPMItool": "Sensor Reading:24"} {
		n := &node.Document{UUID: "u", Name: "web1", DriverInfo: map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User,
			fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA, fieldSensors: method}}
		if err := i.Validate(n); err != nil {
			t.Errorf("%q: %v", method, err)
		}
		found, err := i.Sensors(t.Context(), n)
		if err != nil || !strings.Contains(fmt.Sprint(found), want) {
			t.Errorf("%q: %v, %v, want %s", method, found, err, want)
		}
		n.DriverInfo[fieldSensors] = "scci"
		_, err = i.Sensors(t.Context(), n)
		for _, err := range []error{err, i.Validate(n)} {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no readings") {
				t.Errorf("scci: %v", err)
			}
		}
		if _, err := i.PowerState(t.Context(), n); err != nil {
			t.Errorf("the power is read all the same: %v", err)
		}
	}
	if d.byLAN != 2 {
		t.Errorf("IPMI was asked %d times, want 2", d.byLAN)
	}
}

// IPMI has the address and the account of the iRMC, and a port of its own.
func TestTheIRMCAsIPMIReadsIt(t *testing.T) {
	is := byIPMI(&node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "[2001:db8::1]", fieldUser: "admin", fieldPassword: "pw", fieldIPMIPort: 6230.0, fieldPort: "443",
		"ipmi_address": "192.0.2.9"}})
	if got := fmt.Sprint(is.DriverInfo); got != "map[ipmi_address:2001:db8::1 ipmi_password:pw ipmi_port:6230 ipmi_username:admin]" {
		t.Error(got)
	}
}
