package ribcl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var (
	_ driver.Sensors      = (*Driver)(nil)
	_ driver.EventLog     = (*Driver)(nil)
	_ driver.Indicators   = (*Driver)(nil)
	_ driver.HealthReader = (*Driver)(nil)
)

// healthParts is in the form of what an iLO 3 1.82 tells of a BL460c G7 (python-hpilo), and an iLO 4 of power supplies.
const healthParts = `<GET_EMBEDDED_HEALTH_DATA>
<FANS><FAN><ZONE VALUE = "Virtual"/><LABEL VALUE = "Virtual Fan"/><STATUS VALUE = "OK"/><SPEED VALUE = "29" UNIT="Percentage"/></FAN>
<FAN><ZONE VALUE = "System"/><LABEL VALUE = "Fan 2"/><STATUS VALUE = "Not Installed"/><SPEED VALUE = "N/A"/></FAN></FANS>
<TEMPERATURE><TEMP><LABEL VALUE = "01-Inlet Ambient"/><LOCATION VALUE = "Ambient"/><STATUS VALUE = "OK"/><CURRENTREADING VALUE = "20" UNIT="Celsius"/>
<CAUTION VALUE = "42" UNIT="Celsius"/><CRITICAL VALUE = "46" UNIT="Celsius"/></TEMP>
<TEMP><LABEL VALUE = "02-CPU 1"/><LOCATION VALUE = "CPU"/><STATUS VALUE = "Degraded"/><CURRENTREADING VALUE = "82" UNIT="Celsius"/></TEMP>
<TEMP><LABEL VALUE = "03-CPU 2"/><LOCATION VALUE = "CPU"/><STATUS VALUE = "Not Installed"/><CURRENTREADING VALUE = "N/A"/></TEMP>
<TEMP><LABEL VALUE = "04-Odd"/><LOCATION VALUE = "CPU"/><STATUS VALUE = "OK"/><CURRENTREADING VALUE = "82" UNIT="Fahrenheit"/></TEMP></TEMPERATURE>
<POWER_SUPPLIES><POWER_SUPPLY_SUMMARY><PRESENT_POWER_READING VALUE = "109 Watts"/></POWER_SUPPLY_SUMMARY>
<SUPPLY><LABEL VALUE = "Power Supply 1"/><STATUS VALUE = "OK"/><CAPACITY VALUE = "460 Watts"/><SERIAL_NUMBER VALUE = "5BXRD0"/></SUPPLY>
<SUPPLY><LABEL VALUE = "Power Supply 2"/><STATUS VALUE = "Unknown"/></SUPPLY></POWER_SUPPLIES>
</GET_EMBEDDED_HEALTH_DATA>`

func TestSensors(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.health = healthParts
	found, err := r.Sensors(t.Context(), d.node(password))
	if err != nil {
		t.Fatal(err)
	}
	want := "map[Fan:map[Virtual Fan:map[health:OK identity:Virtual Fan physical_context:Virtual reading:29 reading_units:Percentage state:Enabled]] " +
		"Power:map[Power Supply 1:map[health:OK identity:Power Supply 1 power_capacity_watts:460 serial_number:5BXRD0 state:Enabled]] " +
		"Temperature:map[01-Inlet Ambient:map[health:OK identity:01-Inlet Ambient physical_context:Ambient reading_celsius:20 state:Enabled] " +
		"02-CPU 1:map[health:Warning identity:02-CPU 1 physical_context:CPU reading_celsius:82 state:Enabled]]]"
	if fmt.Sprint(found) != want {
		t.Errorf("sensors %v,\nwant %s", found, want)
	}
	d.do(func() { d.health = "<GET_EMBEDDED_HEALTH_DATA></GET_EMBEDDED_HEALTH_DATA>" })
	if _, err := r.Sensors(t.Context(), d.node(password)); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("none: %v", err)
	}
}

// The worst part tells the health, or what the iLO sums up.
func TestHealth(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	for body, want := range map[string]string{
		healthParts: hardware.Warning,
		strings.ReplaceAll(healthParts, "Degraded", "OK"): hardware.OK,
		`<GET_EMBEDDED_HEALTH_DATA><HEALTH_AT_A_GLANCE><FANS STATUS= "OK"/><FANS REDUNDANCY= "Redundant"/><STORAGE STATUS= "Failed"/></HEALTH_AT_A_GLANCE>` +
			strings.TrimPrefix(healthParts, "<GET_EMBEDDED_HEALTH_DATA>"): hardware.Critical,
		"<GET_EMBEDDED_HEALTH_DATA></GET_EMBEDDED_HEALTH_DATA>": "",
	} {
		d.do(func() { d.health = body })
		if is, err := r.Health(t.Context(), d.node(password)); err != nil || is != want {
			t.Errorf("health %q, %v, want %q of %s", is, err, want, body)
		}
	}
}

func TestLight(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.uid = "OFF"
	n, f := d.node(password), &drivertest.Fence{}
	list, err := r.Indicators(t.Context(), n)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for range 2 {
		if err := r.SetIndicator(t.Context(), f, n, list[0].Component, list[0].Name, "on"); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := r.Indicator(t.Context(), n, "system", "led"); err != nil || is != "on" || len(d.writes) != 1 {
		t.Errorf("%q, %v; writes %v, want one", is, err, d.writes)
	}
	if err := r.SetIndicator(t.Context(), f, n, "system", "led", "off"); err != nil || d.uid != "OFF" {
		t.Errorf("%v, the light is %s", err, d.uid)
	}
	for is, want := range map[string]string{"FLASHING": "blinking", "": "unknown"} {
		d.do(func() { d.uid = is })
		if state, err := r.Indicator(t.Context(), n, "system", "led"); err != nil || state != want {
			t.Errorf("%q: %q, %v", is, state, err)
		}
	}
	d.do(func() { d.uid = "STUCK" })
	if err := r.SetIndicator(t.Context(), f, n, "system", "led", "on"); err == nil || !strings.Contains(err.Error(), "its light is unknown") {
		t.Errorf("a light that does not go on: %v", err)
	}
	for _, c := range [][3]string{{"chassis", "led", "on"}, {"system", "lamp", "on"}, {"system", "led", "blinking"}} {
		if err := r.SetIndicator(t.Context(), f, n, c[0], c[1], c[2]); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", c, err)
		}
	}
	lost := &drivertest.Fence{}
	lost.Lose()
	d.do(func() { d.uid, d.writes = "OFF", nil })
	if err := r.SetIndicator(t.Context(), lost, n, "system", "led", "on"); !errors.Is(err, driver.ErrFenced) || len(d.writes) > 0 {
		t.Errorf("without the fence: %v, writes %v", err, d.writes)
	}
}

func TestEventLog(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	n, f := d.node(password), &drivertest.Fence{}
	fan := event("Critical", "Environment", "05/06/2025 22:41", "05/06/2025 22:41", 1, "Fan failure (Fan 2)")
	post := event("Caution", "POST Message", "[NOT SET] ", "[NOT SET] ", 1, "POST Error: 1785-Drive Array not Configured")
	d.log = []string{fan, post}
	mark, err := r.LogEnd(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	all, next, err := r.LogEntries(t.Context(), n, "")
	if err != nil || next != mark || len(all) != 2 || all[0].Text != "Environment: Fan failure (Fan 2)" || all[0].Severity != hardware.Critical ||
		all[0].At.Format(written) != "05/06/2025 22:41" || all[1].ID != "2" || !all[1].At.IsZero() || all[1].Severity != hardware.Warning {
		t.Fatalf("%+v, %q, %v; the end is %q", all, next, err, mark)
	}
	if none, next, err := r.LogEntries(t.Context(), n, mark); err != nil || len(none) > 0 || next != mark {
		t.Errorf("nothing is new: %+v, %q, %v", none, next, err)
	}
	// One comes, and one that was there happens again.
	d.do(func() {
		d.log = []string{event("Repaired", "Environment", "06/06/2025 08:00", "05/06/2025 22:41", 3, "Fan failure (Fan 2)"), post,
			event("Informational", "Rack Infrastructure", "06/06/2025 07:00", "06/06/2025 07:00", 1, "Name Changed")}
	})
	fresh, next, err := r.LogEntries(t.Context(), n, mark)
	if err != nil || len(fresh) != 2 || fresh[0].Text != "Environment: Fan failure (Fan 2) (3 times)" || fresh[0].Severity != hardware.OK || fresh[1].ID != "3" {
		t.Errorf("%+v, %v", fresh, err)
	}
	if again, same, err := r.LogEntries(t.Context(), n, next); err != nil || len(again) > 0 || same != next {
		t.Errorf("told once: %+v, %v", again, err)
	}
	if err := r.ClearLog(t.Context(), f, n); err != nil || len(d.writes) != 1 {
		t.Fatal(err, d.writes)
	}
	// A log that says that it was cleared is left alone, also in the same minute.
	if err := r.ClearLog(t.Context(), f, n); err != nil || len(d.writes) != 1 {
		t.Errorf("%v, writes %v", err, d.writes)
	}
	after, _, err := r.LogEntries(t.Context(), n, next)
	if err != nil || len(after) != 1 || !strings.Contains(after[0].Text, "IML Cleared") {
		t.Errorf("a log that no longer has the mark's entry is told from its beginning: %+v, %v", after, err)
	}
	d.do(func() { d.log, d.keepsLog = []string{fan}, true })
	if err := r.ClearLog(t.Context(), f, n); err == nil || !strings.Contains(err.Error(), "shows 1 entries of before") {
		t.Errorf("a log that is not cleared: %v", err)
	}
}

// The log quotes what the iLO was sent, and is in the node's history.
func TestTheEventLogTellsNoPassword(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.log = []string{event("Caution", "Security", "05/06/2025 22:41", "05/06/2025 22:41", 1, "Login with "+escape(password)+" and "+escape(escape(password))+" refused")}
	all, _, err := r.LogEntries(t.Context(), d.node(password), "")
	if err != nil || len(all) != 1 || all[0].Text != "Security: Login with ****** and ****** refused" {
		t.Errorf("%+v, %v", all, err)
	}
}

// What a reading has no room for comes with the next, and nothing is left out.
func TestEventLogInPieces(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	n := d.node(password)
	const many = driver.MostLogEntries + 7
	entry := func(at string, count, i int) string {
		return event("Informational", "System", at, "05/06/2025 22:41", count, fmt.Sprintf("happened %d", i))
	}
	for i := range driver.MostLogEntries {
		d.log = append(d.log, entry("05/06/2025 22:41", 1, i))
	}
	for i := driver.MostLogEntries; i < many; i++ {
		d.log = append(d.log, entry("07/06/2025 22:41", 1, i))
	}
	first, mark, err := r.LogEntries(t.Context(), n, "")
	if err != nil || len(first) != driver.MostLogEntries {
		t.Fatal(len(first), err)
	}
	d.do(func() { d.log[3] = entry("06/06/2025 22:41", 2, 3) }) // it happens again, and not last
	rest, mark, err := r.LogEntries(t.Context(), n, mark)
	if err != nil || len(rest) != 8 || rest[0].ID != "4" || rest[7].Text != fmt.Sprintf("System: happened %d", many-1) {
		t.Errorf("%d entries, %v", len(rest), err)
	}
	if end, err := r.LogEnd(t.Context(), n); err != nil || end != mark {
		t.Errorf("the end is %q, %v, want %q", end, err, mark)
	}
}
