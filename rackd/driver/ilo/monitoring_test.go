package ilo

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

var (
	_ driver.Sensors      = Auto{}
	_ driver.EventLog     = Auto{}
	_ driver.EventSource  = Auto{}
	_ driver.EventSender  = Auto{}
	_ driver.Indicators   = Auto{}
	_ driver.HealthReader = Auto{}
	_ driver.Observer     = Auto{}
	_ driver.Clock        = Auto{}
	_ driver.HTTPBooter   = Auto{}
	_ driver.StartTeller  = Auto{}
)

// An iLO 4 of a Gen8 or Gen9 that speaks Redfish is watched by it, also under the hardware type ilo.
func TestAnILOThatSpeaksRedfishIsWatchedByIt(t *testing.T) {
	d, link := newDouble(t), redfishtest.Link
	const log, chassis = redfishtest.System + "/LogServices", "/redfish/v1/Chassis/1"
	d.Do(func() {
		d.At[chassis] = map[string]any{"Id": "1", "Thermal": link(chassis + "/Thermal")}
		d.At[chassis+"/Thermal"] = map[string]any{"Temperatures": []any{map[string]any{"Name": "01-Inlet Ambient", "ReadingCelsius": 20.0}}}
		s := d.At[redfishtest.System]
		s["LogServices"], s["IndicatorLED"], s["Status"] = link(log), "Off", map[string]any{"Health": "Warning"}
		d.At[log] = redfishtest.Links(log + "/IML")
		d.At[log+"/IML"] = map[string]any{"@odata.id": log + "/IML", "Id": "IML", "Entries": link(log + "/IML/Entries")}
		d.At[log+"/IML/Entries"] = map[string]any{"Members": []any{map[string]any{"@odata.id": log + "/IML/Entries/1", "Id": "1", "Created": "2026-01-01T00:00:00Z",
			"Severity": "Critical", "Message": "Fan failure"}}}
	})
	a, f := auto(t), &drivertest.Fence{}
	n := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
	if found, err := a.Sensors(t.Context(), n); err != nil || len(found["Temperature"]) != 1 {
		t.Errorf("sensors %v, %v", found, err)
	}
	if list, _, err := a.LogEntries(t.Context(), n, ""); err != nil || len(list) != 1 || list[0].Text != "Fan failure" {
		t.Errorf("log %+v, %v", list, err)
	}
	if mark, err := a.LogEnd(t.Context(), n); err != nil || !strings.Contains(mark, "2026-01-01") {
		t.Errorf("the end of the log %q, %v", mark, err)
	}
	if err := a.SetIndicator(t.Context(), f, n, "system", "led", "on"); err != nil || d.At[redfishtest.System]["IndicatorLED"] != "Lit" {
		t.Errorf("light: %v", err)
	}
	if is, err := a.Indicator(t.Context(), n, "system", "led"); err != nil || is != "on" {
		t.Errorf("light %q, %v", is, err)
	}
	if list, err := a.Indicators(t.Context(), n); err != nil || len(list) != 1 {
		t.Errorf("lights %v, %v", list, err)
	}
	if health, err := a.Health(t.Context(), n); err != nil || health != hardware.Warning {
		t.Errorf("health %q, %v", health, err)
	}
	if o, err := a.Observe(t.Context(), n); err != nil || o.Health == nil || *o.Health != hardware.Warning || o.SecureBoot == nil {
		t.Errorf("observed %+v, %v", o, err)
	}
	if at, err := a.Clock(t.Context(), n); err != nil || at.Year() != 2026 {
		t.Errorf("clock %s, %v", at, err)
	}
	if err := a.SetHTTPBoot(t.Context(), f, n, "", false); err != nil || !strings.Contains(strings.Join(d.Written(), " "), "UefiHttp") {
		t.Errorf("UEFI HTTP: %v, writes %v", err, d.Written())
	}
	// This one has neither a stream nor subscriptions, and says so itself.
	if _, err := a.Events(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) || strings.Contains(err.Error(), "does not support events") {
		t.Errorf("events: %v", err)
	}
}

// The hardware type ilo reads how far a start is by Redfish, as ilo5 does. By RIBCL an iLO does not tell.
func TestHowFarAStartIs(t *testing.T) {
	d, a := newDouble(t), auto(t)
	modern := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
	for state, want := range map[string]driver.Start{"MemoryInitializationStarted": driver.InFirmware, "SystemHardwareInitializationComplete": driver.PastFirmware} {
		d.Do(func() { d.At[redfishtest.System]["BootProgress"] = map[string]any{"LastState": state} })
		if far, err := a.Start(t.Context(), modern); err != nil || far != want {
			t.Errorf("%s: %d, %v, want %d", state, far, err, want)
		}
	}
	o, n := newOld(t)
	if far, err := a.Start(t.Context(), n); err != nil || far != driver.StartUntold {
		t.Errorf("by RIBCL: %d, %v", far, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.scripts) > 0 {
		t.Errorf("it was asked %v", o.scripts)
	}
}

// old is an iLO that speaks RIBCL only. It has no more than a machine's monitoring asks for.
type old struct {
	*httptest.Server
	mu      sync.Mutex
	scripts []string
	light   string
}

func newOld(t *testing.T) (*old, *node.Document) {
	t.Helper()
	o := &old{light: "OFF"}
	o.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ribcl" {
			http.NotFound(w, r)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		defer o.mu.Unlock()
		answers := map[string]string{
			"GET_EMBEDDED_HEALTH": `<GET_EMBEDDED_HEALTH_DATA><FANS><FAN><LABEL VALUE = "Fan 1"/><STATUS VALUE = "Degraded"/><SPEED VALUE = "29" UNIT="Percentage"/></FAN></FANS></GET_EMBEDDED_HEALTH_DATA>`,
			"GET_EVENT_LOG":       `<EVENT_LOG><EVENT SEVERITY="Caution" CLASS="POST Message" LAST_UPDATE="05/05/2025 00:04" INITIAL_UPDATE="05/05/2025 00:04" COUNT="1" DESCRIPTION="POST Error: 1785"/></EVENT_LOG>`,
			"GET_UID_STATUS":      `<GET_UID_STATUS UID="` + o.light + `"/>`, "UID_CONTROL": "", "GET_PENDING_BOOT_MODE": `<GET_PENDING_BOOT_MODE><BOOT_MODE VALUE="LEGACY"/></GET_PENDING_BOOT_MODE>`}
		for _, command := range slices.Sorted(maps.Keys(answers)) {
			if strings.Contains(string(raw), "<"+command) {
				o.scripts = append(o.scripts, command)
				if command == "UID_CONTROL" {
					o.light = "ON"
				}
				fmt.Fprint(w, `<?xml version="1.0"?><RIBCL VERSION="2.23"><RESPONSE STATUS="0x0000" MESSAGE='No error'/>`+answers[command]+`</RIBCL>`)
				return
			}
		}
		fmt.Fprint(w, `<?xml version="1.0"?><RIBCL VERSION="2.23"><RESPONSE STATUS="0x0001" MESSAGE='Syntax error'/></RIBCL>`)
	}))
	t.Cleanup(o.Close)
	u, err := url.Parse(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	return o, &node.Document{UUID: "u", Name: "web1", DriverInfo: map[string]any{fieldAddress: u.Hostname(), fieldPort: u.Port(), fieldUser: "admin", fieldPassword: "pw",
		fieldVerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw}))}}
}

// An iLO that speaks RIBCL only is watched by it, and what it has no command for is refused by name.
func TestAnOldILOIsWatchedByRIBCL(t *testing.T) {
	o, n := newOld(t)
	a, f := auto(t), &drivertest.Fence{}
	if found, err := a.Sensors(t.Context(), n); err != nil || found["Fan"]["Fan 1"]["health"] != hardware.Warning {
		t.Errorf("sensors %v, %v", found, err)
	}
	if list, mark, err := a.LogEntries(t.Context(), n, ""); err != nil || len(list) != 1 || list[0].Text != "POST Message: POST Error: 1785" {
		t.Errorf("log %+v, %v", list, err)
	} else if end, err := a.LogEnd(t.Context(), n); err != nil || end != mark {
		t.Errorf("the end of the log %q, %v, want %q", end, err, mark)
	}
	if list, err := a.Indicators(t.Context(), n); err != nil || len(list) != 1 {
		t.Errorf("lights %v, %v", list, err)
	}
	if err := a.SetIndicator(t.Context(), f, n, "system", "led", "on"); err != nil {
		t.Error(err)
	}
	if is, err := a.Indicator(t.Context(), n, "system", "led"); err != nil || is != "on" {
		t.Errorf("light %q, %v", is, err)
	}
	if health, err := a.Health(t.Context(), n); err != nil || health != hardware.Warning {
		t.Errorf("health %q, %v", health, err)
	}
	_, events := a.Events(t.Context(), n)
	_, clock := a.Clock(t.Context(), n)
	for what, err := range map[string]error{"events of the BMC": events, "the BMC's clock": clock, "set_bmc_clock": a.SetClock(t.Context(), f, n, time.Now(), ""),
		"boot by UEFI HTTP": a.SetHTTPBoot(t.Context(), f, n, "", false), " events of the BMC": a.SendEvents(t.Context(), f, n, "https://192.0.2.1/x", func(string) bool { return false })} {
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "does not support "+strings.TrimSpace(what)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The vendor interface's methods are of the same log.
	v := AutoVendor{Vendor: redfish.Vendor{Driver: a.Redfish.Management.Driver}, Auto: a}
	methods := map[string]int{}
	for _, m := range v.VendorMethods() {
		if methods[m.Name]++; m.Name != "get_event_log" {
			continue
		}
		if got, err := m.Call(t.Context(), f, n, nil); err != nil || !strings.Contains(fmt.Sprint(got), "POST Error") {
			t.Errorf("get_event_log: %v, %v", got, err)
		}
	}
	if methods["get_event_log"] != 1 || methods["clear_event_log"] != 1 || methods["eject_vmedia"] != 1 {
		t.Errorf("methods %v", methods)
	}
	if steps := v.NamedSteps(n); len(steps) != 1 {
		t.Errorf("%d steps", len(steps))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.scripts) == 0 {
		t.Error("the iLO was not asked by RIBCL")
	}
}

// The health takes an iLO some seconds, so it is not read at each look at the power.
func TestTheHealthByRIBCLIsReadFromTimeToTime(t *testing.T) {
	o, n := newOld(t)
	a := auto(t)
	for look := range 3 {
		seen, err := a.Observe(t.Context(), n)
		if err != nil || seen.BootMode == nil || *seen.BootMode != "bios" {
			t.Fatalf("%+v, %v", seen, err)
		}
		if told := seen.Health != nil; told != (look == 0) || told && *seen.Health != hardware.Warning {
			t.Errorf("look %d: health %v", look, seen.Health)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if reads := strings.Count(strings.Join(o.scripts, " "), "GET_EMBEDDED_HEALTH"); reads != 1 {
		t.Errorf("the health was read %d times", reads)
	}
}

// The console by SSH has fields of the iLO's own name: a secret does not go where fields of another driver say.
func TestTheConsoleBySSHHasTheILOsFields(t *testing.T) {
	d := newDouble(t)
	d.Do(func() {
		delete(d.At["/redfish/v1"], "Vendor")
		d.At[redfishtest.System]["Manufacturer"] = "HP" // as an iLO 4 calls it
		d.At[manager]["SerialConsole"] = map[string]any{"ServiceEnabled": true, "ConnectTypesSupported": []any{"SSH", "IPMI"}}
	})
	c := redfish.Console{Driver: management(t).Management.Driver}
	for field := range c.Properties() {
		if strings.HasPrefix(field, "redfish_") {
			t.Errorf("it reads %s", field)
		}
	}
	info := d.info(redfishtest.Password)
	open := func(says string) {
		t.Helper()
		_, err := c.OpenConsole(t.Context(), &drivertest.Fence{}, &node.Document{UUID: "u", Name: "web1", DriverInfo: info})
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an ErrInvalid that says %q", err, says)
		}
	}
	open("set driver_info " + fieldSSHHostKey)
	info[fieldSSHHostKey] = "false"
	open("set driver_info " + fieldSSHSharedCLI + " to true")
	info[fieldSSHSharedCLI] = "perhaps"
	open(fieldSSHSharedCLI + ` is "perhaps"`)
}
