package redfish

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

const (
	biosAt    = systemAt + "/Bios"
	stagedAt  = biosAt + "/Settings"
	tasksAt   = "/redfish/v1/TaskService/Tasks"
	resetBios = biosAt + "/Actions/Bios.ResetBios"
)

// withBIOS gives a model a BIOS with settings of each type and a registry that explains them.
func withBIOS(m *model) *model {
	const registries = "/redfish/v1/Registries"
	entry := func(name, kind string, more map[string]any) map[string]any {
		e := map[string]any{"AttributeName": name, "Type": kind, "ReadOnly": false}
		merge(e, more)
		return e
	}
	merge(m.at["/redfish/v1"], map[string]any{"Registries": link(registries), "Tasks": link("/redfish/v1/TaskService")})
	merge(m.at[systemAt], map[string]any{"Bios": link(biosAt)})
	return m.put(map[string]map[string]any{
		biosAt: {"@odata.id": biosAt, "AttributeRegistry": "BiosAttributeRegistryX.v1_0_0",
			"Attributes": map[string]any{"Virtualization": "Disabled", "Cores": 4.0, "Quiet": false, "AssetTag": "old", "Serial": "S1", "AdminPassword": nil},
			"@Redfish.Settings": map[string]any{"SettingsObject": link(stagedAt), "SupportedApplyTimes": []any{"OnReset"},
				"Messages": []any{map[string]any{"MessageId": "Base.1.0.Success"}}},
			"Actions": map[string]any{"#Bios.ResetBios": map[string]any{"target": resetBios}}},
		stagedAt:                   {"@odata.id": stagedAt, "Attributes": map[string]any{}},
		registries:                 links(registries+"/Base.1.0.0", registries+"/BiosAttributeRegistryX.v1_0_0"),
		registries + "/Base.1.0.0": {"Registry": "Base.1.0.0"},
		registries + "/BiosAttributeRegistryX.v1_0_0": {"Location": []any{
			map[string]any{"Language": "ja", "Uri": registries + "/ja.json"}, map[string]any{"Language": "en", "Uri": registries + "/en.json"}}},
		registries + "/en.json": {"RegistryEntries": map[string]any{"Attributes": []any{
			entry("Virtualization", "Enumeration", map[string]any{"DefaultValue": "Enabled", "ResetRequired": true,
				"Value": []any{map[string]any{"ValueName": "Enabled"}, map[string]any{"ValueDisplayName": "Disabled"}}}),
			entry("Cores", "Integer", map[string]any{"DefaultValue": 0.0, "LowerBound": 0, "UpperBound": 64}),
			entry("Quiet", "Boolean", map[string]any{"DefaultValue": true}),
			entry("AssetTag", "String", map[string]any{"DefaultValue": "", "MinLength": 0, "MaxLength": 8, "IsSystemUniqueProperty": true}),
			entry("Serial", "String", map[string]any{"ReadOnly": true}),
			entry("AdminPassword", "Password", nil),
		}}},
		"/redfish/v1/TaskService": {"Tasks": link(tasksAt)},
		tasksAt:                   links(),
	})
}

// biosFirmware is what a BIOS does with what is staged for it when the machine starts.
type biosFirmware struct {
	t      *testing.T
	rig    *drivertest.Rig
	starts int
	// forgets: it drops what is staged. slow is for how many reads it shows the old settings after a start.
	forgets bool
	slow    int
	reset   bool // to the factory's settings, at the next start
	keeps   map[string]any
	task    string // its state; empty: it makes none
}

// serve carries out what is staged once the machine has started, and then answers.
func (f *biosFirmware) serve(m *model) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if starts := len(f.rig.Writes("power power on")); starts > f.starts {
			if f.slow--; f.slow < 0 {
				f.starts = starts
				m.set(func() { f.start(m) })
			}
		}
		return m.serve(w, r)
	}
}

func (f *biosFirmware) start(m *model) {
	staged := m.at[stagedAt]["Attributes"].(map[string]any)
	now := m.at[biosAt]["Attributes"].(map[string]any)
	if f.reset && !f.forgets {
		merge(now, map[string]any{"Virtualization": "Enabled", "Cores": 0.0, "Quiet": true})
	}
	if !f.forgets {
		merge(now, staged)
	}
	merge(now, f.keeps)
	f.reset = false
	m.at[stagedAt]["Attributes"] = map[string]any{}
	for at, task := range m.at {
		if strings.HasPrefix(at, tasksAt+"/") {
			task["TaskState"] = "Completed"
		}
	}
}

// biosRig is a machine whose BIOS takes settings when it starts.
func biosRig(t *testing.T, m *model) (*drivertest.Rig, BIOS, *biosFirmware) {
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	f := &biosFirmware{t: t, rig: r}
	e.set(func() { e.hook = f.serve(m) })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	m.after = func(m *model, q *http.Request, _ map[string]any) {
		if q.URL.Path == resetBios {
			f.reset = true
		}
	}
	m.before = func(m *model, w http.ResponseWriter, q *http.Request, body map[string]any) bool {
		if f.task == "" || q.URL.Path != stagedAt {
			return false
		}
		merge(m.at[stagedAt], map[string]any{"Attributes": body["Attributes"]})
		at := fmt.Sprintf("%s/%d", tasksAt, len(m.writes))
		m.at[at] = map[string]any{"@odata.id": at, "TaskState": f.task}
		m.at[tasksAt] = links(at)
		w.Header().Set("Location", at)
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	return r, BIOS{Driver: d}, f
}

func settings(pairs ...any) map[string]any {
	list := []any{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"name": pairs[i], "value": pairs[i+1]})
	}
	return map[string]any{"settings": list}
}

func valueOf(list []hardware.Setting, name string) string {
	for _, s := range list {
		if s.Name == name && s.Value != nil {
			return *s.Value
		}
	}
	return ""
}

// Settings are shown with what the registry says of them.
func TestBIOSSettings(t *testing.T) {
	m := withBIOS(newModel("Contoso"))
	r, b, _ := biosRig(t, m)
	list, err := b.Settings(t.Context(), r.Node)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"AdminPassword","value":null,"attribute_type":"Password","read_only":false},` +
		`{"name":"AssetTag","value":"old","attribute_type":"String","min_length":0,"max_length":8,"read_only":false,"unique":true},` +
		`{"name":"Cores","value":"4","attribute_type":"Integer","lower_bound":0,"upper_bound":64,"read_only":false},` +
		`{"name":"Quiet","value":"False","attribute_type":"Boolean","read_only":false},` +
		`{"name":"Serial","value":"S1","attribute_type":"String","read_only":true},` +
		`{"name":"Virtualization","value":"Disabled","attribute_type":"Enumeration","allowable_values":["Enabled","Disabled"],"read_only":false,"reset_required":true}]`
	if string(raw) != want {
		t.Errorf("settings\n%s, want\n%s", raw, want)
	}
	// Without a registry there are names and values.
	m.set(func() { delete(m.at["/redfish/v1"], "Registries") })
	if list, err = b.Settings(t.Context(), r.Node); err != nil || len(list) != 6 || list[2].Type != nil || *list[2].Value != "4" {
		t.Errorf("without a registry: %+v, %v", list, err)
	}
	m.set(func() { delete(m.at[systemAt], "Bios") })
	if _, err = b.Settings(t.Context(), r.Node); err == nil || !strings.Contains(err.Error(), driver.ErrUnsupported.Error()) {
		t.Errorf("without a BIOS: %v", err)
	}
}

// Settings count as made once the BIOS shows them, after the restart that it needs.
func TestBIOSApplyConfiguration(t *testing.T) {
	const patch = `PATCH /Systems/1/Bios/Settings {"@Redfish.SettingsApplyTime":{"@odata.type":"#Settings.v1_0_0.PreferredApplyTime","ApplyTime":"OnReset"},"Attributes":{"Cores":8,"Quiet":true,"Virtualization":"Enabled"}}`
	all := settings("Virtualization", "Enabled", "Cores", "8", "Quiet", "true")
	for name, c := range map[string]struct {
		set    func(*model, *biosFirmware)
		args   map[string]any
		power  driver.PowerState
		writes []string
		starts int
		says   string // in the error; empty: it succeeds
		ends   map[string]string
	}{
		"settings of each type":             {nil, all, driver.PowerOn, []string{patch}, 1, "", map[string]string{"Virtualization": "Enabled", "Cores": "8", "Quiet": "True", "AssetTag": "old"}},
		"a machine that is off":             {nil, all, driver.PowerOff, []string{patch}, 1, "", map[string]string{"Cores": "8"}},
		"a firmware that is slow":           {func(_ *model, f *biosFirmware) { f.slow = 100 }, all, driver.PowerOn, []string{patch}, 1, "", map[string]string{"Cores": "8"}},
		"a task that waits for the restart": {func(_ *model, f *biosFirmware) { f.task = "Pending" }, all, driver.PowerOn, []string{patch}, 1, "", map[string]string{"Cores": "8"}},
		"what is so already":                {nil, settings("Cores", 4.0, "AssetTag", "old"), driver.PowerOn, nil, 0, "", map[string]string{"Cores": "4"}},
		"what is so, but not for long": {func(m *model, _ *biosFirmware) { m.at[stagedAt]["Attributes"] = map[string]any{"Cores": 2.0} }, settings("Cores", 4.0), driver.PowerOn,
			[]string{`PATCH /Systems/1/Bios/Settings {"@Redfish.SettingsApplyTime":{"@odata.type":"#Settings.v1_0_0.PreferredApplyTime","ApplyTime":"OnReset"},"Attributes":{"Cores":4}}`}, 0, "", map[string]string{"Cores": "4"}},
		"a BMC that forgets what is staged": {func(_ *model, f *biosFirmware) { f.forgets = true }, all, driver.PowerOn, []string{patch}, 1,
			"Redfish BIOS apply_configuration step failed: Attributes are not updated: Cores is 4; Quiet is False; Virtualization is Disabled", nil},
		"a BIOS that keeps one of them": {func(_ *model, f *biosFirmware) { f.keeps = map[string]any{"Cores": 6.0} }, all, driver.PowerOn, []string{patch}, 1, "Attributes are not updated: Cores is 6", nil},
		"a task that fails":             {func(_ *model, f *biosFirmware) { f.task = "Exception" }, all, driver.PowerOn, []string{patch}, 0, "ended as Exception", nil},
		"no settings object": {func(m *model, _ *biosFirmware) {
			delete(m.at[biosAt], "@Redfish.Settings")
		}, settings("Cores", 8.0), driver.PowerOn, []string{`PATCH /Systems/1/Bios {"Attributes":{"Cores":8}}`}, 0, "", map[string]string{"Cores": "8"}},
		"an unknown setting":      {nil, settings("Nonesuch", "1"), driver.PowerOn, nil, 0, "Nonesuch: there is no such setting", nil},
		"a value that is none":    {nil, settings("Virtualization", "Maybe", "Cores", "9"), driver.PowerOn, nil, 0, `Virtualization: it is one of Enabled, Disabled, not "Maybe"`, nil},
		"a number out of bounds":  {nil, settings("Cores", 65.0), driver.PowerOn, nil, 0, "Cores: 65 is outside of its bounds, 0 to 64", nil},
		"a text that is too long": {nil, settings("AssetTag", "123456789"), driver.PowerOn, nil, 0, "AssetTag: it has 9 characters", nil},
		"a setting to read":       {nil, settings("Serial", "S2"), driver.PowerOn, nil, 0, "Serial: it is read-only", nil},
		"a password":              {nil, settings("AdminPassword", "hush"), driver.PowerOn, nil, 0, "AdminPassword: it is a password", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := withBIOS(newModel("Contoso"))
			r, b, f := biosRig(t, m)
			if c.set != nil {
				c.set(m, f)
			}
			r.SetPowerState(c.power)
			err := runStep(t, r, stepNamed(t, b.NamedSteps(r.Node), "apply_configuration"), c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if got := m.written(); !slices.Equal(got, c.writes) {
				t.Errorf("the BMC got\n%q, want\n%q", got, c.writes)
			}
			if pending := strings.Contains(strings.Join(r.Phases, "\n"), "pending from before, for the next start: Cores is to be 2"); pending != (name == "what is so, but not for long") {
				t.Errorf("history %q", r.Phases)
			}
			if starts := len(r.Writes("power power on")); starts != c.starts {
				t.Errorf("%d starts, want %d: %q", starts, c.starts, r.Writes("power"))
			}
			for name, value := range c.ends {
				if got := valueOf(r.Observed.BIOS, name); got != value {
					t.Errorf("%s was observed as %q, want %q", name, got, value)
				}
			}
			if err == nil && len(r.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", r.Busy)
			}
			if err == nil && c.power == driver.PowerOff && c.starts > 0 && !slices.Contains(r.Writes("power"), "power power off") {
				t.Errorf("a machine that was off is on: %q", r.Writes("power"))
			}
		})
	}
	for _, bad := range []map[string]any{{}, {"settings": []any{}}, {"settings": []any{map[string]any{"name": "a"}}}, {"settings": []any{map[string]any{"name": "a", "value": []any{}}}},
		settings("a", "1", "a", "2")} {
		r, b, _ := biosRig(t, withBIOS(newModel("Contoso")))
		if err := stepNamed(t, b.NamedSteps(r.Node), "apply_configuration").Check(r.Node, bad); err == nil {
			t.Errorf("settings %v are taken", bad)
		}
	}
}

// A reset counts as made once the BIOS shows other settings than before. What the registry cannot tell is said.
func TestBIOSFactoryReset(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*model, *biosFirmware)
		says  string
		phase string
	}{
		"to the registry's defaults": {nil, "", ""},
		"to other defaults":          {func(_ *model, f *biosFirmware) { f.keeps = map[string]any{"Cores": 2.0} }, "", "Cores is 2"},
		"nothing happens":            {func(_ *model, f *biosFirmware) { f.forgets = true }, "other than the registry's defaults: Cores is 4; Quiet is False; Virtualization is Disabled", ""},
		"no registry":                {func(m *model, _ *biosFirmware) { delete(m.at["/redfish/v1"], "Registries") }, "", "it does not say what the factory's settings are"},
		"no action":                  {func(m *model, _ *biosFirmware) { delete(m.at[biosAt], "Actions") }, "no action ResetBios", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := withBIOS(newModel("Contoso"))
			r, b, f := biosRig(t, m)
			if c.set != nil {
				c.set(m, f)
			}
			r.SetPowerState(driver.PowerOn)
			err := runStep(t, r, stepNamed(t, b.NamedSteps(r.Node), "factory_reset"), nil)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if !strings.Contains(strings.Join(r.Phases, "\n"), c.phase) {
				t.Errorf("history %q, want %q in it", r.Phases, c.phase)
			}
			if err == nil && (len(m.written()) != 1 || len(r.Writes("power power on")) != 1 || len(r.Observed.BIOS) != 6) {
				t.Errorf("the BMC got %q, the machine %q, observed %v", m.written(), r.Writes("power"), r.Observed.BIOS)
			}
		})
	}
}

// Whatever a BMC does to answers, the settings are there at the end, or the step says that they are not.
func TestBIOSOnABMCWithFaults(t *testing.T) {
	lose := func(times int) func(*model, *biosFirmware) {
		return func(m *model, _ *biosFirmware) {
			m.after = func(_ *model, q *http.Request, _ map[string]any) {
				if times--; times >= 0 {
					panic(http.ErrAbortHandler) // it has done what it was asked for
				}
			}
		}
	}
	answers := func(code, times int) func(*model, *biosFirmware) {
		return func(m *model, _ *biosFirmware) {
			m.before = func(_ *model, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
				if times--; times < 0 {
					return false
				}
				refuse(w, code, "not now")
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		set    func(*model, *biosFirmware)
		says   string
		orders int
	}{
		"a lost answer":                        {lose(1), "", 1},
		"503, twice":                           {answers(http.StatusServiceUnavailable, 2), "", 3},
		"400":                                  {answers(http.StatusBadRequest, 1), "HTTP 400", 1},
		"503 for good":                         {answers(http.StatusServiceUnavailable, 1000), "is busy", 5},
		"silence while the machine starts":     {func(m *model, f *biosFirmware) { silentAfter(m, 10) }, "", 1},
		"a task, and a lost answer":            {func(m *model, f *biosFirmware) { f.task = "Pending"; loseTask(m) }, "", 1},
		"a BMC that forgets its tasks at once": {func(m *model, f *biosFirmware) { f.task = "Pending"; forgetTasks(m) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := withBIOS(newModel("Contoso"))
			r, b, f := biosRig(t, m)
			c.set(m, f)
			r.SetPowerState(driver.PowerOn)
			err := tried(t, r, stepNamed(t, b.NamedSteps(r.Node), "apply_configuration"), settings("Cores", 8.0))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q in it", err, c.says)
			}
			if got := m.written(); len(got) != c.orders {
				t.Errorf("the BMC got %q, want %d orders", got, c.orders)
			}
			if err == nil && valueOf(r.Observed.BIOS, "Cores") != "8" {
				t.Errorf("observed %v", r.Observed.BIOS)
			}
		})
	}
}

// silentAfter makes the BMC silent for so many requests after its first order.
func silentAfter(m *model, requests int) {
	m.after = func(m *model, _ *http.Request, _ map[string]any) { m.silent = requests }
}

// loseTask loses the answer that tells of a task.
func loseTask(m *model) {
	inner := m.before
	m.before = func(m *model, w http.ResponseWriter, r *http.Request, body map[string]any) bool {
		if inner(m, discard{http.Header{}}, r, body) {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// forgetTasks has the BMC know no task once it has told of it.
func forgetTasks(m *model) {
	inner := m.before
	m.before = func(m *model, w http.ResponseWriter, r *http.Request, body map[string]any) bool {
		done := inner(m, w, r, body)
		for at := range m.at {
			if strings.HasPrefix(at, tasksAt+"/") {
				delete(m.at, at)
			}
		}
		m.at[tasksAt] = links()
		return done
	}
}
