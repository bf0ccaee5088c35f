package irmc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// aReport is a report in the form of those of an iRMC S4 that python-scciclient's tests have.
func aReport(activities ...string) string {
	drives := ""
	for i, a := range activities {
		drives += fmt.Sprintf("<LogicalDrive><LogDriveNumber>%d</LogDriveNumber><Activity>%s</Activity></LogicalDrive>", i, a)
	}
	return `<?xml version="1.0" encoding="UTF-8"?><Root Schema="2" OS="iRMC S4"><System/><Software><ServerView><ServerViewRaid Schema="1">` +
		`<amEMSV Version="2"><System><Adapter Nr="0"><Activity>Idle</Activity>` + drives + `</Adapter></System></amEMSV></ServerViewRaid></ServerView></Software></Root>`
}

// A step that makes drives waits until the controller has initialised them, with the machine on, and tells how far it is.
func TestNewDrivesAreInitialised(t *testing.T) {
	d, r := withRAID(t)
	r.SetPowerState(driver.PowerOff)
	r.Node.TargetRAID = target(disk("1", 100.0))
	d.store.reports = []string{aReport(), aReport("Initializing (10%)", "Idle"), aReport("Initializing (60%)", "Idle"), aReport("Idle", "Idle")}
	raid, far := newRAID(t), []string{}
	err := runWith(t, func() driver.StepSource {
		if h, ok := handleOf(r); ok && h.Stage == stageInitialise {
			far = append(far, r.Busy...)
			if !d.store.powered() {
				t.Error("the machine is off")
			}
		}
		return raid
	}, r, "create_configuration", nil)
	if err != nil || !strings.Contains(strings.Join(far, "\n"), "drive 0: Initializing (60%)") || len(r.Busy) > 0 || d.store.powered() {
		t.Errorf("%v; told %q, busy %q, on %v", err, far, r.Busy, d.store.powered())
	}
}

// A report that says nothing of drives ends the wait after a while, and the history says so.
func TestAReportWithoutDrives(t *testing.T) {
	for name, reports := range map[string][]string{"none": nil, "without RAID": {"<Root/>"}, "without drives": {aReport()}} {
		d, r := withRAID(t)
		d.store.reports = reports
		r.Node.TargetRAID = target(disk("1", 100.0))
		raid := newRAID(t)
		err := runWith(t, func() driver.StepSource {
			if h, ok := handleOf(r); ok && h.Stage == stageInitialise {
				h.Since = time.Now().Add(-initialisingShows - time.Minute)
				if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), way{ELCM: &h}); err != nil {
					t.Fatal(err)
				}
			}
			return raid
		}, r, "create_configuration", nil)
		if err != nil || !slices.ContainsFunc(r.Phases, func(p string) bool { return strings.Contains(p, "does not tell how far") }) {
			t.Errorf("%s: %v, %q", name, err, r.Phases)
		}
	}
	d, r := withRAID(t)
	d.store.reports = []string{"no XML"}
	r.Node.TargetRAID = target(disk("1", 100.0))
	if err := runRAID(t, r, "create_configuration", nil); err == nil || !strings.Contains(err.Error(), "its report is no XML that can be read") {
		t.Errorf("no XML: %v", err)
	}
}

// What an iRMC says of its drives is bounded, and the password is in no part of it.
func TestWhatAnIRMCSaysOfItsDrives(t *testing.T) {
	long := strings.Repeat(redfishtest.Password+" ", 1000)
	d, r := withRAID(t, fakeDrive{number: 239, size: 10, level: "0", name: long, disks: []string{"0"}})
	d.store.adapters[0].disks[1].kind = long
	d.store.reports = []string{aReport(long), aReport("Idle")}
	r.Node.TargetRAID = target(disk("0", 100.0, "disk_type", "ssd"))
	if err := runRAID(t, r, "create_configuration", nil); err != nil {
		t.Fatal(err)
	}
	r.Node.TargetRAID = target(disk("0", 100.0, "controller", "RAIDAdapter0", "physical_disks", []any{"77"}))
	err := runRAID(t, r, "create_configuration", nil)
	shown, _ := json.Marshal(r.Observed)
	said := fmt.Sprint(err, string(shown), r.Phases)
	if err == nil || strings.Contains(said, redfishtest.Password) || len(said) > 10000 {
		t.Errorf("%d characters: %.3000s", len(said), said)
	}
}
