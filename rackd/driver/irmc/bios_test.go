package irmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// aBIOS is the settings of a machine, in the form that python-scciclient's tests have.
const aBIOS = `{"Server":{"SystemConfig":{"BiosConfig":{"@Version":"1.02","CpuConfig":{"HyperThreadingEnabled":true,"VtEnabled":true,"ActiveProcessorCores":0,` +
	`"CpuSecret":"x"},"MemoryConfig":{"MemoryMode":"Normal"},"SecurityConfig":{"SecureBootControlEnabled":false}}},"@Version":"1.01"}}`

// newBIOSInterface is the interface of a rackd of its own.
func newBIOSInterface(t *testing.T) BIOS {
	t.Helper()
	i := newInterface(t, lan{})
	return BIOS{redfish.BIOS{Driver: i.Driver}, i.scci}
}

// withBIOS is a double of a machine that is on, and its rig.
func withBIOS(t *testing.T) (*double, *drivertest.Rig) {
	t.Helper()
	d := withStore(t)
	d.store.bios = aBIOS
	r := rigOf(d)
	r.SetPowerState(driver.PowerOn)
	return d, r
}

// settings are the argument of apply_configuration.
func settings(pairs ...any) map[string]any {
	list := []any{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"name": pairs[i], "value": pairs[i+1]})
	}
	return map[string]any{"settings": list}
}

// apply runs apply_configuration by several rackds in turn: each look is another's.
func apply(t *testing.T, r *drivertest.Rig, args map[string]any) error {
	t.Helper()
	rackds, turn := []BIOS{newBIOSInterface(t), newBIOSInterface(t)}, 0
	return runWith(t, func() driver.StepSource { turn++; return rackds[turn%2] }, r, "apply_configuration", args)
}

// cached are the settings that a step has reported.
func cached(r *drivertest.Rig) (list []string) {
	for _, s := range r.Observed.BIOS {
		list = append(list, s.Name+"="+*s.Value)
	}
	return list
}

// Settings of Ironic's names are set in one session, and those that the BIOS has already are not. The API shows what was read back.
func TestBIOSSettingsAreSet(t *testing.T) {
	d, r := withBIOS(t)
	args := settings("hyper_threading_enabled", "False", "cpu_active_processor_cores", json.Number("4"), "memory_mode", "Mirroring", "cpu_vt_enabled", true)
	want := []string{"cpu_active_processor_cores=4", "cpu_vt_enabled=True", "hyper_threading_enabled=False", "memory_mode=Mirroring", "secure_boot_control_enabled=False"}
	order := `{"Server":{"@Version":"1.01","SystemConfig":{"BiosConfig":{"@Processing":"execute","@Version":"1.02","CpuConfig":{"ActiveProcessorCores":4,"HyperThreadingEnabled":false},"MemoryConfig":{"MemoryMode":"Mirroring"}}}}}`
	for range 2 { // the second time all is there
		if err := apply(t, r, args); err != nil {
			t.Fatal(err)
		}
		if got := cached(r); !slices.Equal(got, want) || !slices.Equal(d.store.put, []string{order}) {
			t.Fatalf("shown %q\nwant %q\nsent %s\nwant %s", got, want, d.store.put, order)
		}
	}
	if len(r.Busy) > 0 || len(d.store.sessions) != 1 || d.store.profile != "" {
		t.Errorf("busy %v, sessions %v, in the store %q", r.Busy, d.store.sessions, d.store.profile)
	}
}

// What an iRMC tells as done and does not show is an error, and nothing is reported.
func TestBIOSSettingsAreReadBack(t *testing.T) {
	for says, spoil := range map[string]func(*store){
		"the BIOS does not show them: hyper_threading_enabled is True, asked for was False": func(s *store) { s.deaf = true },
		`session 1 is "terminated with error"`:                                              func(s *store) { s.ends = "terminated with error" },
		"the profile BiosConfig has no settings":                                            func(s *store) { s.odd = `{"other":1}` },
		"The eLCM of an iRMC needs a licence":                                               func(s *store) { s.licence = false },
	} {
		d, r := withBIOS(t)
		spoil(d.store)
		err := apply(t, r, settings("hyper_threading_enabled", false))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "node web1") || r.Observed.BIOS != nil || strings.Contains(err.Error(), redfishtest.Password) {
			t.Errorf("%s: %v, shown %v", says, err, cached(r))
		}
	}
}

// Wrong settings are refused before anything is asked of the iRMC, and those that the machine does not have before anything is changed.
func TestBIOSSettingsThatAreRefused(t *testing.T) {
	for says, c := range map[string]struct {
		args map[string]any
		sent bool
	}{
		"settings is not a list of BIOS settings":                             {map[string]any{"settings": map[string]any{"a": "b"}}, false},
		"VtEnabled are no settings of eLCM, as the others of the request are": {settings("cpu_vt_enabled", true, "VtEnabled", true), false},
		"the BIOS forgets pending_tpm_operation":                              {settings("pending_tpm_operation", "Clear"), false},
		"is there twice":                                                      {settings("cpu_vt_enabled", true, "cpu_vt_enabled", false), false},
		"this machine's BIOS has no quiet_boot_enabled: leave it out":         {settings("quiet_boot_enabled", true), true},
		`cpu_vt_enabled is true or false, not "often"`:                        {settings("cpu_vt_enabled", "often"), true},
		`cpu_active_processor_cores is a number, not "all"`:                   {settings("cpu_active_processor_cores", "all"), true},
	} {
		d, r := withBIOS(t)
		err := apply(t, r, c.args)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) || len(d.store.put) > 0 || (len(d.store.writes) > 0) != c.sent {
			t.Errorf("%s: %v; written %q", says, err, d.store.writes)
		}
	}
	d, r := withBIOS(t)
	for name, args := range map[string]map[string]any{"apply_configuration": settings("VtEnabled", true), "factory_reset": nil} {
		bios := newBIOSInterface(t)
		err := runWith(t, func() driver.StepSource { return bios }, r, name, args)
		if !errors.Is(err, redfish.ErrNoService) || !strings.Contains(err.Error(), "by eLCM") || len(d.store.writes) > 0 {
			t.Errorf("%s on an iRMC without Redfish: %v; written %q", name, err, d.store.writes)
		}
	}
}

// An order whose answer is lost is given once, or, where no session shows it, after a look at the BIOS.
func TestBIOSSettingsWithoutAnAnswer(t *testing.T) {
	for _, lose := range []string{"", "-"} {
		d, r := withBIOS(t)
		d.store.lose = lose + profilesAt + "set"
		bios, waited := newBIOSInterface(t), false
		err := runWith(t, func() driver.StepSource {
			var h configuring
			if json.Unmarshal([]byte(r.HandleText()), &h) == nil && h.Stage == stageSet && h.Session.Asked && h.Session.ID == "" && !waited {
				waited = true
				h.Session.Since = time.Now().Add(-sessionShows - time.Minute)
				if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
			return bios
		}, r, "apply_configuration", settings("hyper_threading_enabled", false))
		sets := 0
		for _, w := range d.store.writes {
			if strings.HasSuffix(w, "/set") {
				sets++
			}
		}
		if err != nil || len(d.store.put) != 1 || sets != 1+len(lose) || !slices.Contains(cached(r), "hyper_threading_enabled=False") {
			t.Errorf("lost %q: %v; %d orders, %d asked for", lose, err, len(d.store.put), sets)
		}
	}
}

// Orders that are lost each time end in an error.
func TestBIOSSettingsThatNeverArrive(t *testing.T) {
	d, r := withBIOS(t)
	bios := newBIOSInterface(t)
	err := runWith(t, func() driver.StepSource {
		d.do(func() { d.store.lose = "-" + profilesAt + "set" })
		var h configuring
		if json.Unmarshal([]byte(r.HandleText()), &h) == nil && h.Session.Asked && h.Session.ID == "" {
			h.Session.Since = time.Now().Add(-sessionShows - time.Minute)
			if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		return bios
	}, r, "apply_configuration", settings("hyper_threading_enabled", false))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the answers to %d orders were lost", mostLost)) || len(d.store.put) > 0 {
		t.Errorf("%v; %d orders", err, len(d.store.put))
	}
}

// A lost fence lets no order pass.
func TestBIOSSettingsBehindTheFence(t *testing.T) {
	d, r := withBIOS(t)
	bios := newBIOSInterface(t)
	err := runWith(t, func() driver.StepSource {
		var h configuring
		if json.Unmarshal([]byte(r.HandleText()), &h) == nil && h.Stage == stageSet {
			r.Lose()
		}
		return bios
	}, r, "apply_configuration", settings("hyper_threading_enabled", false))
	if !errors.Is(err, driver.ErrFenced) || len(d.store.put) > 0 {
		t.Errorf("%v after %q", err, d.store.put)
	}
}

// The backup of a BIOS shows its settings as well, where no Redfish service does.
func TestABackupShowsTheSettings(t *testing.T) {
	d, r := withBIOS(t)
	i := newInterface(t, lan{d})
	if _, err := i.PowerState(t.Context(), r.Node); err != nil { // it learns that there is no Redfish service
		t.Fatal(err)
	}
	task := r.Task(networkboot.IPXE())
	registry, err := driver.NewRegistry(driver.Type{Name: "rig", Interfaces: map[string][]driver.Named{"power": {{Name: "rig", Impl: task.Hardware.Power()}},
		"management": {{Name: "rig", Impl: task.Hardware.Management()}}, "boot": {{Name: "rig", Impl: task.Hardware.Boot()}}, "deploy": {{Name: "rig", Impl: task.Hardware.Deploy()}},
		"bios": {{Name: "irmc", Impl: BIOS{redfish.BIOS{Driver: i.Driver}, i.scci}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if task.Hardware, err = registry.Resolve(r.Node); err != nil {
		t.Fatal(err)
	}
	i.show(task, []byte(aBIOS), asItIs)
	if got := cached(r); !slices.Contains(got, "memory_mode=Normal") {
		t.Errorf("shown %q", got)
	}
}

// A profile of any form is read or refused.
func FuzzReadBIOS(f *testing.F) {
	f.Add([]byte(aBIOS))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := readBIOS(raw, asItIs)
		if err == nil && len(c.list()) > len(settingNames) {
			t.Errorf("%d settings", len(c.list()))
		}
	})
}
