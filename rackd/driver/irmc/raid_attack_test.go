package irmc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// A size that is no number is not the size that was asked for, and is shown as none.
func TestAttackSizesThatAreNoNumbers(t *testing.T) {
	for _, text := range []string{"NaN", "Inf", "-Inf", "1e300", "-5", "0x1p999"} {
		d, r := withRAID(t)
		serve := d.Config.Handler
		d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodGet && q.URL.Path == profilesAt+raidProfile {
				d.do(func() {
					if len(d.store.adapters[0].drives) > 0 && d.store.shows != "" {
						d.store.shows = strings.ReplaceAll(d.store.shows, `"#text":100,`, `"#text":"`+text+`",`)
					}
				})
			}
			serve.ServeHTTP(w, q)
		})
		r.Node.TargetRAID = target(disk("1", 100.0))
		err := runRAID(t, r, "create_configuration", nil)
		// What cannot be read is not compared, and is not shown as a size either.
		if strings.Contains(fmt.Sprint(observed(r)), "-9223") {
			t.Errorf("%s: %v, %q", text, err, observed(r))
		}
	}
}

// Arrays and disks that refer to each other many times cost no more than they are long.
func TestAttackReferencesWithoutMeasure(t *testing.T) {
	const many = 2000
	refs := strings.Repeat(`{"@Number":0},`, many)
	refs = refs[:len(refs)-1]
	raw := `{"Server":{"HWConfigurationIrmc":{"Adapters":{"RAIDAdapter":{"@AdapterId":"a",` +
		`"Arrays":{"Array":{"@Number":0,"PhysicalDiskRefs":{"PhysicalDiskRef":[` + refs +
		`]}}},"LogicalDrives":{"LogicalDrive":{"@Number":0,"ArrayRefs":{"ArrayRef":[` + refs + `]}}}}}}}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := readLayout([]byte(raw), asItIs)
	if err == nil {
		l.shown(nil, nil)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 50<<20 {
		t.Errorf("%d bytes of JSON took %d MiB, %v", len(raw), got>>20, err)
	}
}

// A profile without controllers shows that nothing is there, and not that all is deleted.
func TestAttackHalfAProfileIsNoDeletion(t *testing.T) {
	old := fakeDrive{number: 239, size: 446, level: "0", name: "old", disks: []string{"0"}}
	for _, half := range []string{"{}", `{"Server":{}}`, `{"Server":{"HWConfigurationIrmc":{"Adapters":{"RAIDAdapter":[]}}}}`, "[]", "7", `""`,
		`{"Server":null}`} {
		d, r := withRAID(t, old)
		d.store.odd = half
		err := runRAID(t, r, "delete_configuration", nil)
		if err == nil {
			t.Errorf("%s: told as deleted: %v, shown %v", half, len(d.store.put), r.Observed.RAID)
		}
	}
	// one controller of two is missing in the look afterwards
	d, r := withRAID(t, old)
	d.store.adapters = append(d.store.adapters, anAdapter("RAIDAdapter1"))
	d.store.adapters[1].drives = []fakeDrive{old}
	d.store.deaf = true
	raid := newRAID(t)
	err := runWith(t, func() driver.StepSource {
		if h, ok := handleOf(r); ok && h.Emptied {
			d.do(func() { a := *d.store.adapters[0]; a.drives = nil; d.store.adapters = []*fakeAdapter{&a} })
		}
		return raid
	}, r, "delete_configuration", nil)
	if err == nil {
		t.Errorf("one of two controllers is gone, and told as deleted: shown %v", r.Observed.RAID)
	}
}

// The password stands in no number of a profile that is shown.
func TestAttackSecretsInNumbers(t *testing.T) {
	p := redfishtest.Password
	profile := `{"Server":{"@Version":"` + p + `","HWConfigurationIrmc":{"@Version":"` + p + `","Adapters":{"RAIDAdapter":[
	{"@AdapterId":"RAIDAdapter0","Features":{"RaidLevel":"0,1"},
	"Arrays":{"Array":{"@Number":0,"PhysicalDiskRefs":{"PhysicalDiskRef":{"@Number":"` + p + `"}}}},
	"LogicalDrives":{"LogicalDrive":[{"@Number":"` + p + `","RaidLevel":"` + p + `","Size":{"@Unit":"GB","#text":"` + p + `"},
		"ArrayRefs":{"ArrayRef":{"@Number":0}}}]},
	"PhysicalDisks":{"PhysicalDisk":[{"@Number":"` + p + `x","Type":"SSD","Size":{"@Unit":"GB","#text":"` + p + `"}}]}}]}}}}`
	if !json.Valid([]byte(profile)) {
		t.Fatal("no JSON")
	}
	for _, step := range []string{"create_configuration"} {
		d, r := withRAID(t)
		d.store.odd = profile
		r.Node.TargetRAID = target(disk("1", 100.0))
		raid, handles := newRAID(t), ""
		err := runWith(t, func() driver.StepSource { handles += r.HandleText(); return raid }, r, step, nil)
		shown, _ := json.Marshal(r.Observed)
		if said := fmt.Sprint(err, string(shown), r.Phases, handles); strings.Contains(said, p) {
			t.Errorf("%s: %s", step, said)
		}
	}
}

// A report with a drive that tells no activity ends the wait, as one without drives does.
func TestAttackADriveWithoutActivity(t *testing.T) {
	d, r := withRAID(t)
	d.store.reports = []string{aReport("", "Idle")}
	r.Node.TargetRAID = target(disk("1", 100.0))
	raid, long := newRAID(t), ""
	steps := raid.NamedSteps(r.Node)
	r.NextStep()
	var err error
	for range 60 {
		var out driver.Outcome
		out, err = steps[0].Run(t.Context(), r.Task(networkboot.IPXE()))
		if _, waits := out.Waiting(); err != nil || !waits {
			return
		}
		if h, ok := handleOf(r); ok && h.Stage == stageInitialise {
			h.Since = time.Now().Add(-initialisingShows - time.Minute)
			_ = r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), way{ELCM: &h})
		}
		long = fmt.Sprint(r.Busy)
	}
	t.Errorf("it still waits: %s", long)
}

// Disks that are named are of the type that is asked for, or the request is refused.
func TestAttackNamedDisksOfAnotherType(t *testing.T) {
	for _, more := range [][]any{{"disk_type", "hdd"}, {"interface_type", "sas"}} {
		d, r := withRAID(t)
		r.Node.TargetRAID = target(disk("0", 10.0, append([]any{"controller", "RAIDAdapter0", "physical_disks", []any{"0"}}, more...)...))
		if err := runRAID(t, r, "create_configuration", nil); err == nil {
			t.Errorf("%v: made %q, %d orders", more, observed(r), len(d.store.put))
		}
	}
}

// Numbers that are none are refused before the BIOS is asked for them.
func TestAttackNumbersOfTheBIOS(t *testing.T) {
	for _, text := range []any{"NaN", "inf", "-Inf", "1e999"} {
		d, r := withBIOS(t)
		err := apply(t, r, settings("cpu_active_processor_cores", text))
		if err == nil || !strings.Contains(err.Error(), "is a number, not") || len(d.store.put) > 0 {
			t.Errorf("%v: %v, written %q", text, err, d.store.writes)
		}
	}
}

// A logical drive that is shown twice is one.
func TestAttackADriveShownTwice(t *testing.T) {
	d, r := withRAID(t)
	serve := d.Config.Handler
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet && q.URL.Path == profilesAt+raidProfile {
			d.do(func() {
				if a := d.store.adapters[0]; len(a.drives) > 0 && d.store.shows != "" {
					all := a.drives
					a.drives = []fakeDrive{all[0], all[0]}
					d.store.shows = d.store.raidProfile()
					a.drives = all
				}
			})
		}
		serve.ServeHTTP(w, q)
	})
	r.Node.TargetRAID = target(disk("1", 100.0), disk("1", 100.0))
	err := runRAID(t, r, "create_configuration", nil)
	if err == nil || observed(r) != nil {
		t.Errorf("told as made: %q", observed(r))
	}
}

func TestAttackDeepJSON(t *testing.T) {
	for _, raw := range []string{
		strings.Repeat("[", 2<<20), strings.Repeat(`{"Server":`, 300000),
		`{"Server":{"HWConfigurationIrmc":{"Adapters":{"RAIDAdapter":` + strings.Repeat("[", 1<<20) + `}}}}`,
		`{"Server":{"HWConfigurationIrmc":{"Adapters":{"RAIDAdapter":{"LogicalDrives":{"LogicalDrive":` +
			strings.Repeat(`{"ArrayRefs":{"ArrayRef":`, 5000) + "1" + strings.Repeat("}}", 5000) + `}}}}}}`,
	} {
		began := time.Now()
		_, err := readLayout([]byte(raw), asItIs)
		_, err2 := readBIOS([]byte(raw), asItIs)
		if err == nil || err2 == nil || time.Since(began) > 5*time.Second || len(err.Error()) > 1000 {
			t.Errorf("%.200v, %.200v, %s", err, err2, time.Since(began))
		}
	}
}

// Reports in other ways of writing, and bombs, are read or refused in bounded time. What is no report is none.
func TestAttackReports(t *testing.T) {
	bomb := `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>` +
		`<Root><System><Memory><Installed>&b;</Installed></Memory></System></Root>`
	utf16 := "\xff\xfe"
	for _, c := range `<?xml version="1.0" encoding="UTF-16"?><Root/>` {
		utf16 += string([]byte{byte(c), 0})
	}
	for name, c := range map[string]struct {
		raw  string
		read bool
	}{
		"entities": {bomb, false}, "UTF-16": {utf16, false},
		"depth": {strings.Repeat("<Root>", 1<<17), false}, "an end": {"</Root>", false},
		"Latin 1": {"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><Root><Name>K\xf6ln</Name></Root>", false},
		"a text":  {"Please log in", false}, "a page": {"<html><body>Please log in</body></html>", false},
		"attributes": {"<Root " + strings.Repeat(`a="b" `, 50000) + "/>", true},
		"a comment":  {"<Root><!--" + strings.Repeat("x", 1<<20) + "--></Root>", true},
		"a mark":     {"\ufeff<Root/>", true},
		"a section":  {"<Root><System><Memory><Installed><![CDATA[12]]></Installed></Memory></System></Root>", true},
	} {
		began := time.Now()
		r, err := parseReport(c.raw)
		far, _, err2 := readReport([]byte(c.raw))
		long := len(fmt.Sprint(err)) > 300 || len(fmt.Sprint(err2)) > 300 || time.Since(began) > 10*time.Second
		if (err == nil) != c.read || far != "" || long {
			t.Errorf("%s: %+v, %v; %q, %v; %s", name, r, err, far, err2, time.Since(began))
		}
	}
}

// A report that shows no drive yet is an answer: no deadline of the state ends the step before its own time.
func TestAttackAReportWithoutDrivesIsWork(t *testing.T) {
	d, r := withRAID(t)
	d.store.reports = []string{aReport()}
	r.Node.TargetRAID = target(disk("1", 100.0))
	step := newRAID(t).NamedSteps(r.Node)[0]
	r.NextStep()
	for range 30 {
		told := r.Told
		if h, ok := handleOf(r); ok && h.Stage == stageInitialise {
			if _, err := step.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || r.Told == told || len(r.Busy) == 0 {
				t.Errorf("%v; busy %q", err, r.Busy)
			}
			return
		}
		if _, err := step.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("it never waits for the report")
}
