package redfish

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var (
	_ driver.Management     = Management{}
	_ driver.StepSource     = Management{}
	_ driver.SecureBooter   = Management{}
	_ driver.VirtualMedia   = Management{}
	_ driver.Indicators     = Management{}
	_ driver.Observer       = Management{}
	_ driver.Located        = Management{}
	_ driver.Keeper         = Management{}
	_ driver.HTTPBooter     = Management{}
	_ driver.VendorDetector = Management{}
	_ driver.Clock          = Management{}
	_ driver.Sensors        = Management{}
	_ driver.BIOS           = BIOS{}
)

// The vendor is who the service root names, else who made the system.
func TestDetectVendor(t *testing.T) {
	for vendor, want := range map[string]string{"AMI ": "AMI", "": "Maker"} {
		r, d := modelRig(t, newModel(vendor))
		if got, err := d.DetectVendor(t.Context(), r.Node); err != nil || got != want {
			t.Errorf("vendor %q of %q: %v, want %q", got, vendor, err, want)
		}
	}
}

func TestMakersNeeds(t *testing.T) {
	for _, c := range []struct {
		vendor, model string
		need          need
		want          bool
	}{
		{"Supermicro", "X", wholeBoot, true}, {"Super Micro Computer", "X", wholeBoot, false}, {"AMI", "X", anyTag, true}, {"Amiga", "X", anyTag, false},
		{"American Megatrends International", "X", wholeBoot, true}, {"FUJITSU", "PRIMERGY", anyTag, true}, {"Dell Inc.", "R640", anyTag, true},
		{"HPE", "X", anyTag, false}, {"Supermicro", "ARS-111GL-NHR", usbCD, false}, {"Supermicro", "SYS-2029", usbCD, true}, {"anybody", "", noResetTag, true},
	} {
		if got := (maker{strings.ToLower(c.vendor), strings.ToLower(c.model)}).needs(c.need); got != c.want {
			t.Errorf("%s %s needs %s: %t, want %t", c.vendor, c.model, c.need, got, c.want)
		}
	}
	for _, q := range quirks {
		if q.firmware == "" {
			t.Errorf("%s: which firmware needs it?", q.need)
		}
	}
}

// withDrive gives a model a virtual CD drive; actions says whether it has actions.
func withDrive(m *model, actions bool) *model {
	const at = systemAt + "/VirtualMedia/CD1"
	merge(m.at[systemAt], map[string]any{"VirtualMedia": link(systemAt + "/VirtualMedia")})
	drive := map[string]any{"@odata.id": at, "Id": "CD1", "MediaTypes": []any{"CD", "DVD"}, "Image": nil, "Inserted": false}
	if actions {
		drive["Actions"] = map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": at + "/Insert"}, "#VirtualMedia.EjectMedia": map[string]any{"target": at + "/Eject"}}
		m.after = func(m *model, r *http.Request, body map[string]any) {
			m.at[at]["Inserted"], m.at[at]["Image"] = strings.HasSuffix(r.URL.Path, "Insert"), body["Image"]
		}
	}
	return m.put(map[string]map[string]any{systemAt + "/VirtualMedia": links(at), at: drive})
}

// loadsBy has the action of a model's drive list protocols.
func loadsBy(m *model, protocols ...any) *model {
	merge(m.at[systemAt+"/VirtualMedia/CD1"], map[string]any{"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"TransferProtocolType@Redfish.AllowableValues": protocols}}})
	return m
}

// inAnInfo has a model's drive tell of its action's parameters in a resource of their own, which is not there without any.
func inAnInfo(m *model, parameters ...any) *model {
	const at = systemAt + "/VirtualMedia/CD1/InsertMediaActionInfo"
	merge(m.at[systemAt+"/VirtualMedia/CD1"], map[string]any{"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"@Redfish.ActionInfo": at}}})
	if len(parameters) > 0 {
		m.put(map[string]map[string]any{at: {"Parameters": parameters}})
	}
	return m
}

// A drive takes images by its action or, where it has none, by a PATCH. Firmware that wants more parameters is given them.
func TestMediaOfEachKind(t *testing.T) {
	const drive, insert = "PATCH /Systems/1/VirtualMedia/CD1 ", "POST /Systems/1/VirtualMedia/CD1/Insert "
	wants := func(names ...string) func(*model, http.ResponseWriter, *http.Request, map[string]any) bool {
		return func(_ *model, w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			for _, name := range names {
				if strings.HasSuffix(r.URL.Path, "Insert") && body[name] == nil {
					refuse(w, http.StatusBadRequest, "The action InsertMedia requires the parameter "+name)
					return true
				}
			}
			return false
		}
	}
	for name, c := range map[string]struct {
		m    *model
		want []string
		says string
	}{
		"an action": {withDrive(newModel("HPE"), true), []string{insert + `{"Image":"https://i/a.iso"}`, "POST /Systems/1/VirtualMedia/CD1/Eject {}"}, ""},
		"no action, as on Lenovo and DMTF's model": {withDrive(newModel("Lenovo"), false),
			[]string{drive + `{"Image":"https://i/a.iso","Inserted":true,"WriteProtected":true}`, drive + `{"Image":null,"Inserted":false}`}, ""},
		"parameters that are wanted": {func() *model {
			m := withDrive(newModel("X"), true)
			m.before = wants("TransferProtocolType", "TransferMethod")
			return m
		}(),
			[]string{insert + `{"Image":"https://i/a.iso"}`, insert + `{"Image":"https://i/a.iso","TransferProtocolType":"HTTPS"}`,
				insert + `{"Image":"https://i/a.iso","TransferMethod":"Stream","TransferProtocolType":"HTTPS"}`, "POST /Systems/1/VirtualMedia/CD1/Eject {}"}, ""},
		"a drive that lists HTTP": {loadsBy(withDrive(newModel("X"), true), "CIFS", "HTTP"), []string{insert + `{"Image":"https://i/a.iso"}`, "POST /Systems/1/VirtualMedia/CD1/Eject {}"}, ""},
		"a drive that loads by NFS and CIFS": {loadsBy(withDrive(newModel("X"), true), "NFS", "CIFS"), nil,
			"no virtual drive of type cdrom that takes images (CD1 loads by NFS, CIFS alone, and the image is served by HTTPS)"},
		"one that is patched, and loads by NFS": {func() *model {
			m := withDrive(newModel("X"), false)
			merge(m.at[systemAt+"/VirtualMedia/CD1"], map[string]any{"TransferProtocolType@Redfish.AllowableValues": []any{"NFS"}})
			return m
		}(), nil, "CD1 loads by NFS alone"},
		"one that says so elsewhere": {inAnInfo(withDrive(newModel("X"), true), map[string]any{"Name": "Image"}, map[string]any{"Name": "TransferProtocolType", "AllowableValues": []any{"CIFS"}}), nil,
			"CD1 loads by CIFS alone"},
		"one that says nothing elsewhere": {inAnInfo(withDrive(newModel("X"), true)), []string{insert + `{"Image":"https://i/a.iso"}`, "POST /Systems/1/VirtualMedia/CD1/Eject {}"}, ""},
		"one that lists in another form": {func() *model {
			m := withDrive(newModel("X"), true)
			merge(m.at[systemAt+"/VirtualMedia/CD1"], map[string]any{"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"TransferProtocolType@Redfish.AllowableValues": "NFS"}}})
			return m
		}(), []string{insert + `{"Image":"https://i/a.iso"}`, "POST /Systems/1/VirtualMedia/CD1/Eject {}"}, ""},
		"a drive that is only read": {func() *model { m := withDrive(newModel("X"), false); m.allow = "GET, HEAD"; return m }(), nil,
			"no virtual drive of type cdrom that takes images (CD1 has no action InsertMedia and allows only GET, HEAD)"},
	} {
		t.Run(name, func(t *testing.T) {
			r, d := modelRig(t, c.m)
			f, ctx := &drivertest.Fence{}, t.Context()
			var err error
			for range 2 { // the second time it is there
				err = errors.Join(err, d.AttachMedia(ctx, f, r.Node, "cdrom", "https://i/a.iso"))
			}
			if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !errors.Is(err, driver.ErrUnsupported)) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if c.says == "" {
				err = d.DetachMedia(ctx, f, r.Node, []string{"cdrom"})
			}
			if got := c.m.written(); c.says == "" && (err != nil || !slices.Equal(got, c.want)) {
				t.Errorf("the BMC got\n%q, want\n%q, error %v", got, c.want, err)
			}
		})
	}
	r, d := modelRig(t, withDrive(newModel("X"), false))
	if err := d.AttachMedia(t.Context(), &drivertest.Fence{}, r.Node, "floppy", "http://i/a.img"); err == nil || !strings.Contains(err.Error(), "CD1 takes [CD DVD]") {
		t.Errorf("a floppy: %v", err)
	}
}

// A light that is only on or off is switched by LocationIndicatorActive.
func TestLocationIndicator(t *testing.T) {
	m := newModel("HPE")
	merge(m.at[systemAt], map[string]any{"LocationIndicatorActive": false})
	r, d := modelRig(t, m)
	f, ctx := &drivertest.Fence{}, t.Context()
	list, err := d.Indicators(ctx, r.Node)
	if err != nil || len(list) != 1 || !slices.Equal(list[0].States, []string{"on", "off"}) {
		t.Fatalf("indicators %+v, %v", list, err)
	}
	for range 2 {
		if err := d.SetIndicator(ctx, f, r.Node, "system", "led", "on"); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.written(); !slices.Equal(got, []string{`PATCH /Systems/1 {"LocationIndicatorActive":true}`}) {
		t.Errorf("the BMC got %q", got)
	}
	if is, err := d.Indicator(ctx, r.Node, "system", "led"); err != nil || is != "on" {
		t.Errorf("it is %q, %v", is, err)
	}
	if err := d.SetIndicator(ctx, f, r.Node, "system", "led", "blinking"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("blinking: %v, want ErrUnsupported", err)
	}
}

// The keys of secure boot are changed at once or at a restart; what shows no change is no change.
func TestSecureBootKeys(t *testing.T) {
	const at = systemAt + "/SecureBoot"
	for name, c := range map[string]struct {
		step, was string
		becomes   string // after the order
		restarts  string // after a restart
		starts    int
		orders    int
		says      string
	}{
		"deleted at once":           {"clear_secure_boot_keys", "UserMode", "SetupMode", "SetupMode", 0, 1, ""},
		"deleted at a restart":      {"clear_secure_boot_keys", "UserMode", "UserMode", "SetupMode", 1, 1, ""},
		"deleted already":           {"clear_secure_boot_keys", "SetupMode", "SetupMode", "SetupMode", 0, 0, ""},
		"never deleted":             {"clear_secure_boot_keys", "UserMode", "UserMode", "UserMode", 1, 1, "and shows the mode UserMode"},
		"the manufacturer's put in": {"reset_secure_boot_keys_to_default", "SetupMode", "SetupMode", "UserMode", 1, 1, ""},
		"a mode that is not told":   {"reset_secure_boot_keys_to_default", "", "", "", 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel("Contoso")
			merge(m.at[systemAt], map[string]any{"SecureBoot": link(at)})
			m.put(map[string]map[string]any{at: {"@odata.id": at, "SecureBootEnable": false, "SecureBootMode": c.was,
				"Actions": map[string]any{"#SecureBoot.ResetKeys": map[string]any{"target": at + "/Reset", "ResetKeysType@Redfish.AllowableValues": []any{"ResetAllKeysToDefault", "DeleteAllKeys"}}}}})
			r, d := modelRig(t, m)
			m.after = func(m *model, _ *http.Request, _ map[string]any) { m.at[at]["SecureBootMode"] = c.becomes }
			r.SetPowerState(driver.PowerOn)
			r.Fail = func(call string) error {
				if call == "set_power" {
					m.set(func() { m.at[at]["SecureBootMode"] = c.restarts })
				}
				return nil
			}
			err := runStep(t, r, stepNamed(t, Management{Driver: d}.NamedSteps(r.Node), c.step), nil)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if got, starts := m.written(), len(r.Writes("power power on")); len(got) != c.orders || starts != c.starts {
				t.Errorf("the BMC got %q, want %d orders; %d starts, want %d", got, c.orders, starts, c.starts)
			}
		})
	}
	r, d := modelRig(t, newModel("Contoso"))
	if err := runStep(t, r, stepNamed(t, Management{Driver: d}.NamedSteps(r.Node), "clear_secure_boot_keys"), nil); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a machine without secure boot: %v, want ErrUnsupported", err)
	}
}

// A clock is set with its offset, and read back.
func TestClock(t *testing.T) {
	m := newModel("Contoso")
	r, d := modelRig(t, m)
	ctx := t.Context()
	steps := Management{Driver: d}.NamedSteps(r.Node)
	for range 2 { // the second time it is right
		if err := runStep(t, r, stepNamed(t, steps, "set_bmc_clock"), map[string]any{"datetime_local_offset": "+02:00"}); err != nil {
			t.Fatal(err)
		}
	}
	got := m.written()
	if len(got) != 1 || !strings.Contains(got[0], `"DateTimeLocalOffset":"+02:00"`) {
		t.Errorf("the BMC got %q", got)
	}
	if at, err := d.Clock(ctx, r.Node); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("the clock is %v, %v", at, err)
	}
	if err := runStep(t, r, stepNamed(t, steps, "set_bmc_clock"), map[string]any{"target_datetime": "2030-01-01T00:00:00+00:00"}); err != nil {
		t.Fatal(err)
	}
	if at, err := d.Clock(ctx, r.Node); err != nil || at.Year() != 2030 {
		t.Errorf("the clock is %v, %v", at, err)
	}
	m.set(func() {
		m.after = func(m *model, _ *http.Request, _ map[string]any) {
			m.at["/redfish/v1/Managers/1"]["DateTime"], m.ahead = "2001-01-01T00:00:00Z", nil
		}
	})
	if err := runStep(t, r, stepNamed(t, steps, "verify_bmc_clock"), nil); err == nil || !strings.Contains(err.Error(), "a time server") {
		t.Errorf("a clock that does not stay: %v", err)
	}
	for _, bad := range []map[string]any{{"target_datetime": "noon"}, {"target_datetime": 3.0}, {"datetime_local_offset": "2"}} {
		if err := stepNamed(t, steps, "set_bmc_clock").Check(r.Node, bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", bad, err)
		}
	}
}

// A reset of the BMC is over when it answers again and has been seen to restart.
func TestResetBMC(t *testing.T) {
	const order = `POST /Managers/1/Actions/Reset {"ResetType":"ForceRestart"}`
	for name, c := range map[string]struct {
		after func(m *model)
		says  string
	}{
		"silence":         {func(m *model) { m.silent = 12 }, ""},
		"a later reset":   {func(m *model) { m.at["/redfish/v1/Managers/1"]["LastResetTime"] = "2026" }, ""},
		"a session less":  {func(m *model) { m.forgets() }, ""},
		"nothing happens": {func(*model) {}, "has not been seen to restart"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel("Contoso")
			r, d := modelRig(t, m)
			m.after = func(m *model, _ *http.Request, _ map[string]any) { c.after(m) }
			err := runStep(t, r, stepNamed(t, Management{Driver: d, Rest: 1}.NamedSteps(r.Node), "reset_bmc"), nil)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if err == nil { // its rackd dies before that is saved of the step
				next := newDriver(t, Options{})
				if err := runStep(t, r, stepNamed(t, Management{Driver: next, Rest: 1}.NamedSteps(r.Node), "reset_bmc"), nil); err != nil {
					t.Errorf("another rackd: %v", err)
				}
			}
			if got := m.written(); !slices.Equal(got, []string{order}) {
				t.Errorf("the BMC got %q", got)
			}
		})
	}
}

// Fans are sensors of turns where they are no resources of their own, also in a chassis that the system does not link to.
func TestSensorsOfAChassisThatNamesTheSystem(t *testing.T) {
	const bmc, board, other = "/redfish/v1/Chassis/BMC", "/redfish/v1/Chassis/Board", "/redfish/v1/Chassis/Other"
	m := newModel("Contoso")
	merge(m.at[systemAt], map[string]any{"Links": map[string]any{"Chassis": []any{link(bmc)}}})
	of := func(system string) map[string]any { return map[string]any{"ComputerSystems": []any{link(system)}} }
	m.put(map[string]map[string]any{
		"/redfish/v1/Chassis":  links(bmc, board, other),
		bmc:                    {"Id": "BMC", "Links": of(systemAt), "ThermalSubsystem": link(bmc + "/T"), "Sensors": link(bmc + "/Sensors")},
		bmc + "/T":             {"Fans": link(bmc + "/Fans")},
		bmc + "/Fans":          links(),
		bmc + "/Sensors":       links(bmc + "/Sensors/warm"),
		bmc + "/Sensors/warm":  {"Id": "warm", "ReadingType": "Temperature", "Reading": 41},
		board:                  {"Id": "Board", "Links": of(systemAt), "Sensors": link(board + "/Sensors")},
		board + "/Sensors":     links(board + "/Sensors/fan"),
		board + "/Sensors/fan": {"Id": "fan", "ReadingType": "Rotational", "Reading": 9100, "ReadingUnits": "RPM"},
		other:                  {"Id": "Other", "Links": of("/redfish/v1/Systems/2"), "Sensors": link(board + "/Sensors")},
	})
	r, d := modelRig(t, m)
	found, err := d.Sensors(t.Context(), r.Node)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(found)
	if fan := found["Fan"]["fan@Board"]; len(found["Fan"]) != 1 || len(found["Temperature"]) != 1 || fan["reading"] != 9100.0 || fan["reading_units"] != "RPM" {
		t.Errorf("sensors %s", raw)
	}
}

// Sensors are told in Ironic's words, from the resources of before and from the newer ones.
func TestSensors(t *testing.T) {
	const chassis = "/redfish/v1/Chassis/1"
	ok := map[string]any{"State": "Enabled", "Health": "OK"}
	before := func(m *model) {
		m.put(map[string]map[string]any{
			chassis: {"Id": "1U", "Thermal": link(chassis + "/Thermal"), "Power": link(chassis + "/Power")},
			chassis + "/Thermal": {"Fans": []any{map[string]any{"MemberId": "0", "Reading": 2100, "ReadingUnits": "RPM", "Status": ok}},
				"Temperatures": []any{map[string]any{"MemberId": "3", "ReadingCelsius": 41.5, "PhysicalContext": "CPU", "Status": map[string]any{"State": "Absent"}}}},
			chassis + "/Power": {"Id": "Power", "PowerSupplies": []any{map[string]any{"MemberId": "0", "LastPowerOutputWatts": 325, "SerialNumber": "P1", "Status": ok}}},
		})
	}
	newer := func(m *model) {
		m.put(map[string]map[string]any{
			chassis:                {"Id": "1U", "ThermalSubsystem": link(chassis + "/T"), "PowerSubsystem": link(chassis + "/P"), "Sensors": link(chassis + "/Sensors")},
			chassis + "/T":         {"Fans": link(chassis + "/Fans")},
			chassis + "/Fans":      links(chassis+"/Fans/0", chassis+"/Fans/gone"),
			chassis + "/Fans/0":    {"Id": "0", "SpeedPercent": map[string]any{"SpeedRPM": 2100}, "Status": ok},
			chassis + "/Sensors":   links(chassis+"/Sensors/3", chassis+"/Sensors/4"),
			chassis + "/Sensors/3": {"Id": "3", "ReadingType": "Temperature", "Reading": 41.5, "PhysicalContext": "CPU", "Status": map[string]any{"State": "Absent"}},
			chassis + "/Sensors/4": {"Id": "4", "ReadingType": "Power", "Reading": 5},
			chassis + "/P":         {"Id": "Power", "PowerSupplies": link(chassis + "/PS")},
			chassis + "/PS":        links(chassis + "/PS/0"),
			chassis + "/PS/0":      {"Id": "0", "SerialNumber": "P1", "Metrics": link(chassis + "/PS/0/M"), "Status": ok},
			chassis + "/PS/0/M":    {"OutputPowerWatts": map[string]any{"Reading": 325}},
		})
	}
	expands := func(m *model) {
		newer(m)
		merge(m.at["/redfish/v1"], map[string]any{"ProtocolFeaturesSupported": map[string]any{"ExpandQuery": map[string]any{"NoLinks": true}}})
	}
	for name, set := range map[string]func(*model){"before": before, "newer": newer, "collections with their members": expands} {
		m := newModel("Contoso")
		set(m)
		merge(m.at[systemAt], map[string]any{"Storage": link(storageAt)})
		m.put(map[string]map[string]any{storageAt: links(storageAt + "/A"), storageAt + "/A": {"Id": "A", "Drives": []any{link(storageAt + "/A/D"), link(storageAt + "/A/gone")}},
			storageAt + "/A/D": {"Name": "bay 1", "Model": "D9", "CapacityBytes": 7, "Status": map[string]any{"Health": "Critical"}}})
		r, d := modelRig(t, m)
		found, err := d.Sensors(t.Context(), r.Node)
		if err != nil {
			t.Fatal(name, err)
		}
		raw, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]map[string]map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			kind, name, field string
			value             any
		}{
			{"Fan", "0@1U", "reading", 2100.0}, {"Fan", "0@1U", "reading_units", "RPM"}, {"Fan", "0@1U", "health", "OK"}, {"Temperature", "3@1U", "reading_celsius", 41.5},
			{"Temperature", "3@1U", "state", "Absent"}, {"Temperature", "3@1U", "physical_context", "CPU"}, {"Power", "0:Power@1U", "last_power_output_watts", 325.0},
			{"Power", "0:Power@1U", "serial_number", "P1"}, {"Drive", "bay 1:A@1", "health", "Critical"}, {"Drive", "bay 1:A@1", "state", "Enabled"}, {"Drive", "bay 1:A@1", "capacity_bytes", 7.0},
		} {
			if is := got[want.kind][want.name][want.field]; is != want.value {
				t.Errorf("%s: %s %s %s is %v, want %v: %s", name, want.kind, want.name, want.field, is, want.value, raw)
			}
		}
		if (m.expansions > 0) != strings.HasPrefix(name, "collections") {
			t.Errorf("%s: %d collections were told with their members", name, m.expansions)
		}
		if len(got) != 4 || len(got["Temperature"]) != 1 {
			t.Errorf("%s: %s", name, raw)
		}
	}
	r, d := modelRig(t, newModel("Contoso"))
	if _, err := d.Sensors(t.Context(), r.Node); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a machine without sensors: %v, want ErrUnsupported", err)
	}
}
