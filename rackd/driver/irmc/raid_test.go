package irmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// newRAID is the interface of a rackd of its own.
func newRAID(t *testing.T) RAID {
	t.Helper()
	i := newInterface(t, lan{})
	return RAID{redfish.RAID{Driver: i.Driver}, i.scci}
}

// withRAID is a double with a controller, and the rig of its machine.
func withRAID(t *testing.T, drives ...fakeDrive) (*double, *drivertest.Rig) {
	t.Helper()
	d := withStore(t)
	a := anAdapter("RAIDAdapter0")
	a.drives = drives
	d.store.adapters = []*fakeAdapter{a}
	r := rigOf(d)
	r.SetPowerState(driver.PowerOn)
	d.store.powered = func() bool {
		state, err := r.Task(networkboot.IPXE()).Hardware.Power().PowerState(t.Context(), r.Node)
		return err != nil || state == driver.PowerOn
	}
	return d, r
}

// runRAID runs a step of RAID by several rackds in turn: each look is another's.
func runRAID(t *testing.T, r *drivertest.Rig, name string, args map[string]any) error {
	t.Helper()
	rackds, turn := []RAID{newRAID(t), newRAID(t)}, 0
	return runWith(t, func() driver.StepSource { turn++; return rackds[turn%2] }, r, name, args)
}

func target(disks ...map[string]any) map[string]any {
	list := []any{}
	for _, d := range disks {
		list = append(list, d)
	}
	return map[string]any{"logical_disks": list}
}

func disk(level string, size any, more ...any) map[string]any {
	d := map[string]any{"raid_level": level, "size_gb": size}
	for i := 0; i < len(more); i += 2 {
		d[more[i].(string)] = more[i+1]
	}
	return d
}

// observed are the logical disks that a step has reported.
func observed(r *drivertest.Rig) (list []string) {
	disks, _ := r.Observed.RAID["logical_disks"].([]any)
	for _, item := range disks {
		d := item.(map[string]any)
		list = append(list, fmt.Sprintf("%v %v %v GiB on %v %v", d["id"], d["raid_level"], d["size_gb"], d["controller"], d["physical_disks"]))
	}
	return list
}

// Logical disks are made on the disks that are named, or on such as are chosen by number, type and size. What is there is deleted if
// that is asked for, and stays otherwise. The machine has its power of before.
func TestLogicalDrivesAreMade(t *testing.T) {
	t.Parallel()
	old := fakeDrive{number: 239, size: 446, level: "0", name: "old", disks: []string{"0"}}
	all := map[string]any{"delete_existing": true}
	for name, c := range map[string]struct {
		drives []fakeDrive
		args   map[string]any
		target map[string]any
		want   []string
		orders int
	}{
		"named":        {nil, nil, target(disk("1", "MAX", "controller", "RAIDAdapter0", "physical_disks", []any{"3", "2"})), []string{"239 1 446 GiB on RAIDAdapter0 [2 3]"}, 1},
		"by size":      {nil, nil, target(disk("5", 1000.0)), []string{"239 5 1000 GiB on RAIDAdapter0 [0 1 2 3]"}, 1},
		"by number":    {nil, nil, target(disk("6", 100.0, "number_of_physical_disks", 5.0)), []string{"239 6 100 GiB on RAIDAdapter0 [0 1 2 3 4]"}, 1},
		"by type":      {nil, nil, target(disk("1", 900.0, "disk_type", "hdd", "interface_type", "sas")), []string{"239 1 900 GiB on RAIDAdapter0 [6 7]"}, 1},
		"the whole":    {nil, nil, target(disk("0", 447.0)), []string{"239 0 446 GiB on RAIDAdapter0 [0]"}, 1},
		"spans":        {nil, nil, target(disk("1+0", 500.0)), []string{"239 1+0 500 GiB on RAIDAdapter0 [0 1 2 3]"}, 1},
		"two":          {nil, nil, target(disk("1", 400.0), disk("0", 100.0, "is_root_volume", true)), []string{"239 1 400 GiB on RAIDAdapter0 [0 1]", "238 0 100 GiB on RAIDAdapter0 [2]"}, 1},
		"beside":       {[]fakeDrive{old}, nil, target(disk("1", 400.0)), []string{"239 0 446 GiB on RAIDAdapter0 [0]", "238 1 400 GiB on RAIDAdapter0 [1 2]"}, 1},
		"instead":      {[]fakeDrive{old}, all, target(disk("1", 400.0)), []string{"239 1 400 GiB on RAIDAdapter0 [0 1]"}, 2},
		"the root one": {nil, map[string]any{"create_nonroot_volumes": false}, target(disk("1", 400.0), disk("0", 100.0, "is_root_volume", true)), []string{"239 0 100 GiB on RAIDAdapter0 [0]"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := withRAID(t, c.drives...)
			r.Node.TargetRAID = c.target
			if err := runRAID(t, r, "create_configuration", c.args); err != nil {
				t.Fatal(err)
			}
			if got := observed(r); !slices.Equal(got, c.want) || len(d.store.put) != c.orders {
				t.Errorf("made %q\nwant %q; %d orders", got, c.want, len(d.store.put))
			}
			if w := r.Writes("power"); len(w) == 0 || w[len(w)-1] != "power power on" || len(r.Busy) > 0 || d.store.shows != "" {
				t.Errorf("the machine was on: %v; busy %v, in the store %q", w, r.Busy, d.store.shows)
			}
		})
	}
}

// The order has the form that python-scciclient sends, and Fujitsu's own modules.
func TestTheOrderForALogicalDrive(t *testing.T) {
	d, r := withRAID(t)
	args := map[string]any{"raid_config": target(disk("1", 100.0, "volume_name", "root"))}
	if err := runRAID(t, r, "apply_configuration", args); err != nil {
		t.Fatal(err)
	}
	want := `{"Server":{"@Version":"1.01","HWConfigurationIrmc":{"@Processing":"execute","@Version":"1.00","Adapters":{"RAIDAdapter":[{"@AdapterId":"RAIDAdapter0",` +
		`"@ConfigurationType":"Addressing","Arrays":{"Array":[{"@ConfigurationType":"Setting","@Number":0,"PhysicalDiskRefs":{"PhysicalDiskRef":[{"@Number":"0"},{"@Number":"1"}]}}]},` +
		`"LogicalDrives":{"LogicalDrive":[{"@Action":"Create","@Number":0,"ArrayRefs":{"ArrayRef":[{"@Number":0}]},"InitMode":"slow","Name":"root","RaidLevel":"1","Size":{"@Unit":"GB","#text":100}}]}}]}}}}`
	if len(d.store.put) != 1 || d.store.put[0] != want {
		t.Errorf("sent %s\nwant %s", d.store.put, want)
	}
}

// Deleting leaves nothing, and orders nothing where there is nothing.
func TestLogicalDrivesAreDeleted(t *testing.T) {
	d, r := withRAID(t, fakeDrive{number: 239, size: 446, level: "0", disks: []string{"0"}}, fakeDrive{number: 238, size: 446, level: "0", disks: []string{"1"}})
	d.store.adapters = append(d.store.adapters, anAdapter("RAIDAdapter1"))
	d.store.adapters[1].drives = []fakeDrive{{number: 239, size: 446, level: "0", disks: []string{"0"}}}
	r.SetPowerState(driver.PowerOff)
	for range 2 {
		if err := runRAID(t, r, "delete_configuration", nil); err != nil || len(d.store.put) != 1 || r.Observed.RAID == nil || len(r.Observed.RAID) > 0 {
			t.Fatalf("%v, %d orders, shown %v", err, len(d.store.put), r.Observed.RAID)
		}
	}
	if len(d.store.adapters[0].drives)+len(d.store.adapters[1].drives) > 0 || len(r.Writes("power power on")) > 0 {
		t.Errorf("left: %+v, %v", d.store.adapters[0].drives, r.Log)
	}
}

// What an iRMC tells as done and does not show, or shows otherwise, is an error.
func TestLogicalDrivesAreReadBack(t *testing.T) {
	t.Parallel()
	old := fakeDrive{number: 239, size: 446, level: "0", disks: []string{"0"}}
	for says, c := range map[string]struct {
		step   string
		drives []fakeDrive
		spoil  func(*store)
	}{
		"logical disk 1 is not there":               {"create_configuration", nil, func(s *store) { s.deaf = true }},
		"still shows logical drive 239 of":          {"delete_configuration", []fakeDrive{old}, func(s *store) { s.deaf = true }},
		`its RAID level is "0", asked for was 1`:    {"create_configuration", nil, func(s *store) { s.twist = func(d *fakeDrive) { d.level = "0" } }},
		"it has 50 GiB, asked for were 100":         {"create_configuration", nil, func(s *store) { s.twist = func(d *fakeDrive) { d.size = 50 } }},
		"lies on the disks 4, 5, asked for were 0":  {"create_configuration", nil, func(s *store) { s.twist = func(d *fakeDrive) { d.disks = []string{"4", "5"} } }},
		"the profile RAIDAdapter cannot be read":    {"create_configuration", nil, func(s *store) { s.odd = `{"Server":[]}` }},
		"session 1 is \"terminated - conflict with": {"create_configuration", nil, func(s *store) { s.ends = "terminated - conflict with another running eLCM activity" }},
		"no eLCM license":                           {"create_configuration", nil, func(s *store) { s.licence = false }},
	} {
		d, r := withRAID(t, c.drives...)
		c.spoil(d.store)
		r.Node.TargetRAID = target(disk("1", 100.0))
		err := runRAID(t, r, c.step, nil)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "node web1") || r.Observed.RAID != nil || strings.Contains(err.Error(), redfishtest.Password) || len(err.Error()) > 2000 {
			t.Errorf("%s: %v, shown %v", says, err, r.Observed.RAID)
		}
		if says == "no eLCM license" && (!errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "needs a licence")) {
			t.Errorf("without a licence: %v", err)
		}
	}
}

// An order whose answer is lost is given once: its session is found. Where none is found, the machine is looked at before the order is
// given again.
func TestAnOrderForLogicalDrivesWithoutAnAnswer(t *testing.T) {
	for _, lose := range []string{"", "-"} {
		d, r := withRAID(t)
		r.Node.TargetRAID = target(disk("1", 100.0))
		d.store.lose = lose + profilesAt + "set"
		raid := newRAID(t)
		waited := false
		err := runWith(t, func() driver.StepSource {
			if h, ok := handleOf(r); ok && h.Stage == stageCreate && h.Session.Asked && h.Session.ID == "" && !waited {
				waited = true
				h.Session.Since = time.Now().Add(-sessionShows - time.Minute)
				if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), way{ELCM: &h}); err != nil {
					t.Fatal(err)
				}
			}
			return raid
		}, r, "create_configuration", nil)
		sets := 0
		for _, w := range d.store.writes {
			if strings.HasSuffix(w, "/set") {
				sets++
			}
		}
		if err != nil || len(d.store.put) != 1 || len(observed(r)) != 1 || sets != 1+len(lose) || !waited {
			t.Errorf("lost %q: %v; %d orders, %d asked for, made %v", lose, err, len(d.store.put), sets, observed(r))
		}
	}
}

// handleOf is the handle of the step by eLCM.
func handleOf(r *drivertest.Rig) (h building, ok bool) {
	var w way
	if json.Unmarshal([]byte(r.HandleText()), &w) != nil || w.ELCM == nil {
		return h, false
	}
	return *w.ELCM, true
}

// A lost fence lets no write pass: neither in front of the first look nor of an order.
func TestLogicalDrivesBehindTheFence(t *testing.T) {
	d, r := withRAID(t)
	r.Node.TargetRAID = target(disk("1", 100.0))
	r.Lose()
	if err := runRAID(t, r, "create_configuration", nil); !errors.Is(err, driver.ErrFenced) || len(d.store.writes) > 0 {
		t.Errorf("%v after %q", err, d.store.writes)
	}
	d, r = withRAID(t)
	r.Node.TargetRAID = target(disk("1", 100.0))
	raid := newRAID(t)
	err := runWith(t, func() driver.StepSource {
		if h, ok := handleOf(r); ok && h.Stage == stageCreate {
			r.Lose()
		}
		return raid
	}, r, "create_configuration", nil)
	if !errors.Is(err, driver.ErrFenced) || len(d.store.put) > 0 || len(r.Writes("power")) > 0 {
		t.Errorf("%v after %q, %v", err, d.store.put, r.Log)
	}
}

// What is wrong in the request is refused before anything is asked of the iRMC, and what its disks do not allow before anything is changed.
func TestLogicalDrivesThatAreRefused(t *testing.T) {
	for says, c := range map[string]struct {
		target map[string]any
		sent   bool
	}{
		"there is no target_raid_config":                               {nil, false},
		"an iRMC makes no RAID level 2: give one of 0, 1, 1+0":         {target(disk("2", 10.0)), false},
		"RAID level 5 takes at least 3 physical disks, not 2":          {target(disk("5", 10.0, "number_of_physical_disks", 2.0)), false},
		"RAID level 1 takes at most 2 physical disks, not 3":           {target(disk("1", 10.0, "controller", "c", "physical_disks", []any{"0", "1", "2"})), false},
		`"disk0" is no physical disk of an iRMC`:                       {target(disk("0", 10.0, "controller", "c", "physical_disks", []any{"disk0"})), false},
		"it names the physical disk 1 twice":                           {target(disk("1", 10.0, "controller", "c", "physical_disks", []any{"1", "1"})), false},
		"chooses the disks of RAID level 1+0 itself":                   {target(disk("1+0", 10.0, "number_of_physical_disks", 6.0)), false},
		"leave out share_physical_disks":                               {target(disk("1", 10.0, "share_physical_disks", true)), false},
		"give one of the two":                                          {target(disk("0", 10.0, "controller", "c", "physical_disks", []any{"1"}, "number_of_physical_disks", 2.0)), false},
		`there is no controller "c", give one of ["RAIDAdapter0"]`:     {target(disk("1", 10.0, "controller", "c")), true},
		"has no free disk 9; free are 0 (447GB SSD), 1 (447GB SSD)":    {target(disk("0", 10.0, "controller", "RAIDAdapter0", "physical_disks", []any{"9"})), true},
		"has disks of different types, SSD and HDD":                    {target(disk("0", 10.0, "controller", "RAIDAdapter0", "physical_disks", []any{"0", "7"})), true},
		"has 447 GiB on the disks 0, 1 for RAID level 1, and 448":      {target(disk("1", 448.0, "controller", "RAIDAdapter0", "physical_disks", []any{"0", "1"})), true},
		"has no 3 free disks of one type for RAID level 5 with 99":     {target(disk("5", 99999.0)), true},
		"logical disk 2: RAIDAdapter0 has no 8 free disks of one type": {target(disk("0", 10.0), disk("6+0", 10.0)), true},
	} {
		d, r := withRAID(t)
		r.Node.TargetRAID = c.target
		err := runRAID(t, r, "create_configuration", nil)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) || len(d.store.put) > 0 || (len(d.store.writes) > 0) != c.sent {
			t.Errorf("%s: %v; written %q", says, err, d.store.writes)
		}
	}
}

// An order that is refused leaves no machine off that was on. One that was off stays off.
func TestARefusedOrderLeavesThePower(t *testing.T) {
	for state, writes := range map[driver.PowerState][]string{driver.PowerOn: {"power power off", "power power on"}, driver.PowerOff: nil} {
		d, r := withRAID(t)
		r.SetPowerState(state)
		d.store.powered = func() bool { return true } // it will not have it
		r.Node.TargetRAID = target(disk("1", 100.0))
		err := runRAID(t, r, "create_configuration", nil)
		if err == nil || !strings.Contains(err.Error(), "the server is on") || !slices.Equal(r.Writes("power"), writes) || len(r.Busy) > 0 {
			t.Errorf("%s: %v; %q, busy %q", state, err, r.Log, r.Busy)
		}
	}
}

// A target that is changed in the middle is another.
func TestATargetThatChanges(t *testing.T) {
	d, r := withRAID(t)
	r.Node.TargetRAID = target(disk("1", 100.0))
	raid := newRAID(t)
	err := runWith(t, func() driver.StepSource {
		if r.HandleText() != "" {
			r.Node.TargetRAID = target(disk("1", 200.0))
		}
		return raid
	}, r, "create_configuration", nil)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "was changed while") || len(d.store.put) > 0 {
		t.Errorf("%v; %d orders", err, len(d.store.put))
	}
}

// No machine is restarted while a person may be at it.
func TestLogicalDrivesWaitForTheEndOfMaintenance(t *testing.T) {
	d, r := withRAID(t)
	r.Node.TargetRAID = target(disk("1", 100.0))
	steps := newRAID(t).NamedSteps(r.Node)
	task := r.Task(networkboot.IPXE())
	task.Attended = func() bool { return true }
	out, err := steps[0].Run(t.Context(), task)
	if _, waits := out.Waiting(); err != nil || !waits || len(d.store.writes) > 0 {
		t.Errorf("%v, %v; written %q", out, err, d.store.writes)
	}
}

// An iRMC whose Redfish service makes volumes gets no order of eLCM. One whose service shows volumes and makes none gets them.
func TestRedfishComesFirst(t *testing.T) {
	for _, code := range []int{http.StatusMethodNotAllowed, http.StatusBadRequest} {
		s := &store{sessions: map[string]int{}, ends: sessionEnded, licence: true, adapters: []*fakeAdapter{anAdapter("RAIDAdapter0")}}
		system := "/redfish/v1/Systems/0"
		b := redfishtest.Start(t, "Fujitsu", nil)
		byELCM := func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if !strings.HasPrefix(r.URL.Path, profilesAt) && !strings.HasPrefix(r.URL.Path, sessionsAt) {
				return false
			}
			raw, _ := json.Marshal(body)
			s.eLCM(w, httptest.NewRequest(r.Method, r.URL.RequestURI(), strings.NewReader(string(raw))))
			return true
		}
		b.Do(func() {
			system = b.System
			b.At[system]["Storage"] = redfishtest.Link(system + "/Storage")
			b.At[system+"/Storage"] = redfishtest.Links(system + "/Storage/0")
			b.At[system+"/Storage/0"] = map[string]any{"Id": "0", "Drives": []any{redfishtest.Link(system + "/D0"), redfishtest.Link(system + "/D1")}, "Volumes": redfishtest.Link(system + "/Storage/0/Volumes")}
			for _, d := range []string{"/D0", "/D1"} {
				b.At[system+d] = map[string]any{"CapacityBytes": 480 << 30, "MediaType": "SSD", "Protocol": "SATA"}
			}
			b.At[system+"/Storage/0/Volumes"] = redfishtest.Links()
			b.Get = func(w http.ResponseWriter, r *http.Request) bool { return byELCM(w, r, nil) }
			b.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
				if strings.HasSuffix(r.URL.Path, "/Volumes") {
					redfishtest.Refuse(w, code, "no volumes here")
					return true
				}
				return byELCM(w, r, body)
			}
		})
		r := drivertest.NewRig()
		r.Node.DriverInfo = map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}
		r.Node.TargetRAID = target(disk("1", 100.0))
		err := runRAID(t, r, "create_configuration", nil)
		if code == http.StatusMethodNotAllowed && (err != nil || len(observed(r)) != 1 || len(s.put) != 1) {
			t.Errorf("%v; by eLCM %q, made %q", err, s.put, observed(r))
		}
		if code == http.StatusBadRequest && (err == nil || !strings.Contains(err.Error(), "no volumes here") || len(s.writes) > 0) {
			t.Errorf("%v; by eLCM %q", err, s.writes)
		}
	}
}

// A profile of any form is read or refused, and bounded.
func FuzzReadLayout(f *testing.F) {
	s := &store{adapters: []*fakeAdapter{anAdapter("RAIDAdapter0")}}
	f.Add([]byte(s.raidProfile()))
	f.Add([]byte(`{"Server":{"HWConfigurationIrmc":{"Adapters":{"RAIDAdapter":{"@AdapterId":"a","LogicalDrives":{"LogicalDrive":{"@Number":0}}}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := readLayout(raw, asItIs)
		if err != nil {
			return
		}
		if len(l.adapters) > mostAdapters {
			t.Errorf("%d adapters", len(l.adapters))
		}
		_, _ = l.plan([]any{disk("1", 100.0)})
		l.shown(nil, nil)
	})
}

// Where the ramdisk runs, it runs again afterwards.
func TestLogicalDrivesWhileTheRamdiskRuns(t *testing.T) {
	d, r := withRAID(t)
	r.Node.TargetRAID = target(disk("1", 100.0))
	r.Task(networkboot.IPXE()).Facts[driver.FactBoot] = driver.BootRamdisk
	d.store.reports = []string{aReport("Initializing (10%)"), aReport("Idle")}
	if err := runRAID(t, r, "create_configuration", nil); err != nil {
		t.Fatal(err)
	}
	if w := r.Writes("power"); !slices.Equal(w, []string{"power power off", "power power on"}) {
		t.Errorf("%q", w)
	}
	if !slices.ContainsFunc(r.Phases, func(p string) bool { return strings.Contains(p, "agent has called") }) {
		t.Errorf("%q", r.Phases)
	}
}
