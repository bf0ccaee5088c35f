package ilo

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
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const (
	storageAt = redfishtest.System + "/SmartStorage"
	arrayAt   = storageAt + "/ArrayControllers/0"
	configAt  = "/redfish/v1/systems/1/smartstorageconfig"
)

// shelf is a Smart Array with its drives behind a double, as an iLO 5 has them: an order is staged, the controller begins it at a start of
// the machine, and each look brings a drive forward.
type shelf struct {
	*double
	staged []map[string]any // the actions that wait for a start
	ends   string           // what drives end with
	quiet  bool             // drives show the end at once
	looks  map[string]int
	starts int
}

func newShelf(t *testing.T, media ...string) *shelf {
	t.Helper()
	s := &shelf{double: newDouble(t), ends: eraseDone, looks: map[string]int{}}
	link := redfishtest.Link
	s.Do(func() {
		s.At[redfishtest.System]["Oem"] = map[string]any{"Hpe": map[string]any{"Links": map[string]any{"SmartStorage": link(storageAt + "/")}, "SmartStorageConfig": []any{link(configAt + "/")}}}
		s.At[storageAt] = map[string]any{"Links": map[string]any{"ArrayControllers": link(storageAt + "/ArrayControllers/")}}
		s.At[storageAt+"/ArrayControllers"] = redfishtest.Links(arrayAt + "/")
		s.At[arrayAt] = map[string]any{"Location": "Slot 0", "Model": "HPE Smart Array P408i-a SR Gen10", "Links": map[string]any{"PhysicalDrives": link(arrayAt + "/DiskDrives/")}}
		s.At[configAt] = map[string]any{"Location": "Slot 0", "LogicalDrives": []any{}, "@Redfish.Settings": map[string]any{"ETag": "78F92741",
			"Messages": []any{map[string]any{"MessageId": "SmartStorageMessages.2.0.0.Success"}}, "SettingsObject": link(configAt + "/settings/"), "Time": "2017-10-31T12:12:35+00:00"}}
		s.At[configAt+"/settings"] = map[string]any{"Location": "Slot 0", "LogicalDrives": []any{}}
		var paths []string
		for i, kind := range media {
			at := fmt.Sprintf("%s/DiskDrives/%d", arrayAt, i)
			paths = append(paths, at+"/")
			s.At[at] = map[string]any{"Location": fmt.Sprintf("1I:0:%d", i+1), "MediaType": kind, "SerialNumber": fmt.Sprintf("KWGER%d", i), "DiskDriveUse": "Raw",
				"DiskDriveStatusReasons": []any{"None"}, "EraseCompletionPercentage": nil}
		}
		s.At[arrayAt+"/DiskDrives"] = redfishtest.Links(paths...)
		write := s.Write
		s.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if strings.TrimSuffix(r.URL.Path, "/") != configAt+"/settings" {
				return write(w, r, body)
			}
			s.staged = nil
			for _, a := range body["Actions"].([]any) {
				s.staged = append(s.staged, a.(map[string]any))
			}
			fmt.Fprint(w, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"iLO.2.8.SystemResetRequired"}]}}`)
			return true
		}
		s.Get = func(_ http.ResponseWriter, r *http.Request) bool {
			if at := strings.TrimSuffix(r.URL.Path, "/"); strings.HasPrefix(at, arrayAt+"/DiskDrives/") {
				s.bring(s.At[at])
			}
			return false
		}
	})
	return s
}

// bring brings a drive forward that is being erased.
func (s *shelf) bring(d map[string]any) {
	if slices.Equal(d["DiskDriveStatusReasons"].([]any), []any{eraseRuns}) {
		at := fmt.Sprint(d["Location"])
		if s.looks[at]++; s.looks[at] >= 3 {
			d["DiskDriveStatusReasons"], d["EraseCompletionPercentage"] = []any{s.ends}, nil
			return
		}
		d["EraseCompletionPercentage"] = 40 * s.looks[at]
	}
}

// start is a start of the machine: the controller begins what is staged.
func (s *shelf) start() {
	s.Do(func() {
		s.starts++
		for _, a := range s.staged {
			for _, location := range a["PhysicalDriveList"].([]any) {
				for at, d := range s.At {
					if strings.HasPrefix(at, arrayAt+"/DiskDrives/") && d["Location"] == location {
						d["DiskDriveStatusReasons"] = []any{eraseRuns}
						if s.quiet {
							d["DiskDriveStatusReasons"] = []any{s.ends}
						}
					}
				}
			}
			s.At[configAt]["@Redfish.Settings"].(map[string]any)["Time"] = fmt.Sprintf("2026-01-01T00:00:%02d+00:00", s.starts)
		}
		s.staged = nil
	})
}

// orders are those that the controller was given.
func (s *shelf) orders() (list []string) {
	for _, w := range s.Written() {
		if _, body, found := strings.Cut(w, configAt+"/settings "); found {
			list = append(list, body)
		}
	}
	return list
}

// run runs the step to its end, each time as another owner. The rig's machine is that of the shelf.
func (s *shelf) run(t *testing.T, m Management, r *drivertest.Rig, args map[string]any) error {
	t.Helper()
	steps := m.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == eraseDevices })]
	if err := step.Check(r.Node, args); err != nil {
		return err
	}
	for range 100 {
		on := len(r.Writes("power power on"))
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := step.Run(t.Context(), task)
		if len(r.Writes("power power on")) > on {
			s.start()
		}
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
	return errors.New("it still waits")
}

func (s *shelf) rig() *drivertest.Rig {
	r := drivertest.NewRig()
	r.Node.DriverInfo = s.info(redfishtest.Password)
	return r
}

// Hard disks are erased first, then the others, with a restart for each kind. The order is that of proliantutils. It is over when each
// drive shows the end.
func TestEraseDevices(t *testing.T) {
	for name, c := range map[string]struct {
		media []string
		args  map[string]any
		want  []string
	}{
		"both kinds": {[]string{"SSD", "HDD", "SSD"}, nil, []string{"SanitizeRestrictedOverwrite 1I:0:2", "SanitizeRestrictedBlockErase 1I:0:1 1I:0:3"}},
		"zeros":      {[]string{"HDD", "HDD"}, map[string]any{"hdd": "zero"}, []string{"OnePass 1I:0:1 1I:0:2"}},
		"crypto":     {[]string{"SSD", "HDD"}, map[string]any{"hdd": "crypto", "ssd": "crypto"}, []string{"SanitizeRestrictedCryptoScramble 1I:0:2", "SanitizeRestrictedCryptoScramble 1I:0:1"}},
		"one kind":   {[]string{"HDD", "SSD"}, map[string]any{"ssd": "zero"}, []string{"SanitizeRestrictedOverwrite 1I:0:1", "OnePass 1I:0:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newShelf(t, c.media...), management(t)
			r := s.rig()
			var args map[string]any
			if c.args != nil {
				args = map[string]any{argPattern: c.args}
			}
			if err := s.run(t, m, r, args); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, body := range s.orders() {
				var o struct {
					DataGuard string
					Actions   []struct {
						Action, ErasePattern string
						PhysicalDriveList    []string
					}
				}
				if err := json.Unmarshal([]byte(body), &o); err != nil || o.DataGuard != "Disabled" || len(o.Actions) != 1 || o.Actions[0].Action != "PhysicalDriveErase" {
					t.Fatalf("order %s, %v", body, err)
				}
				got = append(got, strings.Join(append([]string{o.Actions[0].ErasePattern}, o.Actions[0].PhysicalDriveList...), " "))
			}
			if !slices.Equal(got, c.want) || len(r.Writes("power power on")) != len(c.want) {
				t.Errorf("orders %q, want %q; power %v", got, c.want, r.Writes("power"))
			}
			if log := r.Writes("power"); log[len(log)-1] != "power power off" {
				t.Errorf("the machine was off before: %v", log)
			}
			if !strings.Contains(strings.Join(r.Phases, "\n"), "erased") || len(r.Busy) > 0 {
				t.Errorf("the history has %q, busy %v", r.Phases, r.Busy)
			}
		})
	}
}

// What drives showed of an earlier erasing is not the end of this one. One that ends at once is.
func TestEraseDevicesAgain(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		s, m := newShelf(t, "SSD"), management(t)
		s.quiet = quiet
		s.Do(func() { s.At[arrayAt+"/DiskDrives/0"]["DiskDriveStatusReasons"] = []any{eraseDone} })
		if err := s.run(t, m, s.rig(), nil); err != nil || len(s.orders()) != 1 {
			t.Errorf("at once %t: %v, orders %q", quiet, err, s.orders())
		}
	}
	s, m := newShelf(t, "SSD"), management(t)
	s.Do(func() { s.At[arrayAt+"/DiskDrives/0"]["DiskDriveStatusReasons"] = []any{eraseDone} })
	r := s.rig()
	r.Fail = func(call string) error {
		if call == "set_power" { // the controller never takes the order
			s.Do(func() { s.staged = nil })
		}
		return nil
	}
	if err := s.run(t, m, r, nil); err == nil || !strings.Contains(err.Error(), "1I:0:1 show nothing of it 20m0s after") {
		t.Errorf("a controller that begins nothing: %v", err)
	}
}

// Both kinds have one place for the controller's answer. What it has answered for the hard disks says nothing of the others, which still
// show the end of the cleaning before.
func TestEraseDevicesSecondRoundIsNotTheFirst(t *testing.T) {
	s, m := newShelf(t, "HDD", "SSD"), management(t)
	s.Do(func() { s.At[arrayAt+"/DiskDrives/1"]["DiskDriveStatusReasons"] = []any{eraseDone} })
	r, rounds := s.rig(), 0
	r.Fail = func(call string) error {
		if call == "set_power" {
			if rounds++; rounds > 2 { // off and on for the hard disks; the controller never takes the second order
				s.Do(func() { s.staged = nil })
			}
		}
		return nil
	}
	if err := s.run(t, m, r, nil); err == nil || !strings.Contains(err.Error(), "1I:0:2 show nothing of it") {
		t.Errorf("drive 1I:0:2 was not erased: %v; power %v, the history has %q", err, r.Writes("power"), r.Phases)
	}
}

// The controller has answered, and iLO still shows what it read of the drive before: that is not the end.
func TestEraseDevicesShownLate(t *testing.T) {
	s, m := newShelf(t, "SSD"), management(t)
	drive, late := arrayAt+"/DiskDrives/0", 0
	s.Do(func() {
		s.At[drive]["DiskDriveStatusReasons"] = []any{eraseDone}
		s.Get = func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.TrimSuffix(r.URL.Path, "/") != drive || s.starts == 0 {
				return false
			}
			switch late++; {
			case late <= 3:
				s.At[drive]["DiskDriveStatusReasons"] = []any{eraseDone}
			case late == 4:
				s.At[drive]["DiskDriveStatusReasons"] = []any{eraseRuns}
			default:
				s.bring(s.At[drive])
			}
			return false
		}
	})
	r := s.rig()
	if err := s.run(t, m, r, nil); err != nil || s.looks["1I:0:1"] < 3 {
		t.Errorf("%v; the step ended after %d looks at a drive that was being erased; power %v", err, s.looks["1I:0:1"], r.Writes("power"))
	}
}

// A drive has failed while another is being erased: the machine keeps its power, whatever the cleaning ends in.
func TestEraseDevicesFailsBesideOthers(t *testing.T) {
	s, m := newShelf(t, "HDD", "HDD"), management(t)
	drive := arrayAt + "/DiskDrives/0"
	s.Do(func() {
		s.Get = func(_ http.ResponseWriter, r *http.Request) bool {
			if at := strings.TrimSuffix(r.URL.Path, "/"); at == drive && s.starts > 0 {
				s.At[drive]["DiskDriveStatusReasons"] = []any{eraseFailed}
			}
			return false
		}
	})
	r := s.rig()
	if err := s.run(t, m, r, nil); err == nil || !strings.Contains(err.Error(), "drive 1I:0:1") || len(r.Busy) == 0 {
		t.Errorf("%v; the BMC is at work: %q", err, r.Busy)
	}
}

// A drive that fails is named. A controller that refuses is quoted.
func TestEraseDevicesFails(t *testing.T) {
	for _, ends := range []string{eraseFailed, eraseAborted} {
		s, m := newShelf(t, "HDD", "SSD"), management(t)
		s.ends = ends
		if err := s.run(t, m, s.rig(), nil); err == nil || !strings.Contains(err.Error(), "drive 1I:0:1 (serial number KWGER0) is not erased: "+ends) || len(s.orders()) != 1 {
			t.Errorf("%v, orders %q", err, s.orders())
		}
	}
	s, m := newShelf(t, "HDD"), management(t)
	r := s.rig()
	r.Fail = func(call string) error {
		if call == "set_power" {
			s.Do(func() {
				s.staged = nil
				is := s.At[configAt]["@Redfish.Settings"].(map[string]any)
				is["Time"], is["Messages"] = "2026-01-01T00:00:00+00:00", []any{map[string]any{"MessageId": "SmartStorageMessages.2.0.0.EraseFailed"}}
			})
		}
		return nil
	}
	if err := s.run(t, m, r, nil); err == nil || !strings.Contains(err.Error(), "has refused the order for 1I:0:1: SmartStorageMessages.2.0.0.EraseFailed") {
		t.Errorf("%v", err)
	}
}

// An iLO that is busy or away now and then ends no erasing of days.
func TestEraseDevicesWithAnILOThatIsAway(t *testing.T) {
	s, m := newShelf(t, "HDD"), management(t)
	looks := 0
	s.Do(func() {
		get := s.Get
		s.Get = func(w http.ResponseWriter, r *http.Request) bool {
			if s.starts > 0 && strings.HasPrefix(r.URL.Path, arrayAt) {
				if looks++; looks%2 == 1 && looks < 30 {
					redfishtest.Refuse(w, http.StatusServiceUnavailable, "busy")
					return true
				}
			}
			return get(w, r)
		}
	})
	if err := s.run(t, m, s.rig(), nil); err != nil || len(s.orders()) != 1 || looks < 20 {
		t.Errorf("%v after %d looks, orders %q", err, looks, s.orders())
	}
}

// An order whose answer is lost is given again, before the restart. The restart happens once.
func TestEraseDevicesWithoutAnAnswer(t *testing.T) {
	s, m := newShelf(t, "HDD"), management(t)
	write, lost := s.Write, false
	s.Do(func() {
		s.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if strings.Contains(r.URL.Path, "smartstorageconfig") && !lost {
				lost = true
				write(httptest.NewRecorder(), r, body)
				panic(http.ErrAbortHandler)
			}
			return write(w, r, body)
		}
	})
	r := s.rig()
	if err := s.run(t, m, r, nil); !errors.Is(err, driver.ErrUnknown) {
		t.Fatal(err)
	}
	if err := s.run(t, m, r, nil); err != nil || len(s.orders()) != 2 || len(r.Writes("power power on")) != 1 {
		t.Errorf("%v, orders %q, power %v", err, s.orders(), r.Writes("power"))
	}
}

// What the controllers cannot do is refused before anything is written.
func TestEraseDevicesIsRefused(t *testing.T) {
	drive := arrayAt + "/DiskDrives/0"
	for says, c := range map[string]struct {
		set func(s *shelf)
		is  error
	}{
		"logical drives use 1I:0:1":             {func(s *shelf) { s.At[configAt]["LogicalDrives"] = []any{map[string]any{"DataDrives": []any{"1I:0:1"}}} }, driver.ErrInvalid},
		"delete them before (step raid.delete_": {func(s *shelf) { s.At[drive]["DiskDriveUse"] = "Spare" }, driver.ErrInvalid},
		"is a controller in software":           {func(s *shelf) { s.At[arrayAt]["Model"] = "HPE Smart Array S100i SR Gen10" }, driver.ErrUnsupported},
		"takes no orders":                       {func(s *shelf) { s.At[configAt]["Location"] = "Slot 7" }, driver.ErrUnsupported},
		`of the kind "SMR"`:                     {func(s *shelf) { s.At[drive]["MediaType"] = "SMR" }, driver.ErrUnsupported},
		"is being erased already":               {func(s *shelf) { s.At[drive]["DiskDriveStatusReasons"] = []any{eraseQueued} }, driver.ErrInvalid},
		"nothing to erase":                      {func(s *shelf) { s.At[arrayAt+"/DiskDrives"] = redfishtest.Links() }, driver.ErrInvalid},
		"let the ramdisk's agent erase":         {func(s *shelf) { delete(s.At[redfishtest.System], "Oem") }, driver.ErrUnsupported},
	} {
		s, m := newShelf(t, "HDD"), management(t)
		s.Do(func() { c.set(s) })
		r := s.rig()
		if err := s.run(t, m, r, nil); !errors.Is(err, c.is) || !strings.Contains(err.Error(), says) || len(s.Written()) > 0 || len(r.Log) > 0 {
			t.Errorf("%s: %v after %q and %v", says, err, s.Written(), r.Log)
		}
	}
	s, m := newShelf(t, "HDD"), management(t)
	for _, pattern := range []any{"overwrite", map[string]any{"hdd": "block"}, map[string]any{"nvme": "zero"}, map[string]any{"ssd": 7.0}, []any{}} {
		if err := s.run(t, m, s.rig(), map[string]any{argPattern: pattern}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "is invalid. Clean step 'erase_devices' is not executed for 5f0c. Supported patterns are, for 'hdd'") {
			t.Errorf("%v: %v", pattern, err)
		}
	}
	r := s.rig()
	r.Node.Properties = map[string]any{"skip_block_devices": []any{map[string]any{"name": "/dev/sda"}}}
	if err := s.run(t, m, r, nil); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "keeps disks") {
		t.Errorf("%v", err)
	}
	if len(s.Written()) > 0 {
		t.Errorf("written %q", s.Written())
	}
}

// Percentages, or hours where there are none, tell that drives get on.
func TestEraseTellsHowFarItIs(t *testing.T) {
	half := 50.0
	h := &erasing{Orders: []eraseOrder{{Result: "c", Media: "HDD", Drives: []string{"1", "2"}, Given: true}}}
	now := map[string]arrayDrive{"c 1": {Location: "1", Reasons: []string{eraseRuns}, Percentage: &half}, "c 2": {Location: "2", Reasons: []string{eraseQueued}}}
	s, err := judgeErase(h, now, nil)
	if err != nil || s.far(time.Now().Add(-90*time.Minute)) != "erasing: 1 50 %, 2, 1 h" || len(h.Begun) != 2 {
		t.Errorf("%q, %v, begun %v", s.far(time.Now().Add(-90*time.Minute)), err, h.Begun)
	}
	if early, late := s.far(time.Now().Add(-80*time.Hour)), s.far(time.Now().Add(-90*time.Hour)); early != late {
		t.Errorf("drives that never end get on for ever: %q, then %q", early, late)
	}
}
