package irmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var sinceText = regexp.MustCompile(`"since":"[^"]*"`)

// age makes the handle of a step older than an order without an answer may be.
func age(t *testing.T, r *drivertest.Rig) {
	t.Helper()
	if r.HandleText() == "" {
		return
	}
	old := fmt.Sprintf(`"since":%q`, time.Now().Add(-sessionShows-time.Minute).UTC().Format(time.RFC3339Nano))
	_ = r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), json.RawMessage(sinceText.ReplaceAllString(r.HandleText(), old)))
}

// insist runs a step as a conductor does: again while it waits, and some times after an error that may pass.
func insist(t *testing.T, source func() driver.StepSource, r *drivertest.Rig, name string, args map[string]any) error {
	t.Helper()
	r.NextStep()
	left := 4
	for range 200 {
		steps := source().NamedSteps(r.Node)
		step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == name })]
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := step.Run(t.Context(), task)
		if _, waits := out.Waiting(); err == nil && !waits {
			return nil
		}
		passes := errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrFenced)
		if err != nil && (!passes || left == 0) {
			return err
		}
		if err != nil {
			left--
		}
		age(t, r)
	}
	return errors.New("it still waits")
}

// losing has a double lose the answer to its request number n, counted from 1. in: the request is carried out.
func losing(d *double, n int, in bool) *int {
	count := new(int)
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *count++; *count != n {
			d.serve(w, r)
			return
		}
		if in {
			d.serve(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	})
	return count
}

// Wherever an answer is lost, each order has its effect once, and the machine is on again. Each second request is carried out.
func TestAttackLostAnswerToEachRequest(t *testing.T) {
	t.Parallel()
	old := fakeDrive{number: 239, size: 446, level: "0", name: "old", disks: []string{"0"}}
	for n := 1; n < 60; n++ {
		d, r := withRAID(t, old)
		count := losing(d, n, n%2 == 0)
		r.Node.TargetRAID = target(disk("1", 100.0), disk("0", 50.0))
		raid := newRAID(t)
		err := insist(t, func() driver.StepSource { return raid }, r, "create_configuration", map[string]any{"delete_existing": true})
		w, drives := r.Writes("power"), d.store.adapters[0].drives
		if err != nil || len(drives) != 2 || len(d.store.put) != 2 || len(r.Busy) > 0 || len(w) == 0 || w[len(w)-1] != "power power on" {
			t.Errorf("RAID, request %d: %v; drives %+v, %d orders, busy %q, %q", n, err, drives, len(d.store.put), r.Busy, w)
		}
		if *count < n {
			break
		}
	}
	for n := 1; n < 60; n++ {
		d, r := withBIOS(t)
		count := losing(d, n, n%2 == 0)
		bios := newBIOSInterface(t)
		err := insist(t, func() driver.StepSource { return bios }, r, "apply_configuration", settings("hyper_threading_enabled", false))
		if err != nil || len(d.store.put) != 1 || len(r.Busy) > 0 || !slices.Contains(cached(r), "hyper_threading_enabled=False") {
			t.Errorf("BIOS, request %d: %v; %d orders, busy %q", n, err, len(d.store.put), r.Busy)
		}
		if *count < n {
			break
		}
	}
}

// Wherever its rackd is lost, in front of a save or behind it, a successor goes on, and each order has its effect once.
func TestAttackLostRackdAtEachSave(t *testing.T) {
	t.Parallel()
	old := fakeDrive{number: 239, size: 446, level: "0", name: "old", disks: []string{"0"}}
	for n := 1; n < 40; n++ {
		d, r := withRAID(t, old)
		saves := 0
		r.Fail = func(call string) error {
			if call != "save" {
				return nil
			}
			if saves++; saves == n && n%2 == 0 {
				r.Lose()
			} else if saves == n {
				return driver.ErrFenced
			}
			return nil
		}
		r.Node.TargetRAID = target(disk("1", 100.0))
		rackds, turn := []RAID{newRAID(t), newRAID(t)}, 0
		err := insist(t, func() driver.StepSource {
			r.Fence = drivertest.Fence{}
			turn++
			return rackds[turn%2]
		}, r, "create_configuration", map[string]any{"delete_existing": true})
		if drives := d.store.adapters[0].drives; err != nil || len(drives) != 1 || len(d.store.put) != 2 || len(r.Busy) > 0 {
			t.Errorf("save %d: %v; drives %+v, %d orders, busy %q", n, err, drives, len(d.store.put), r.Busy)
		}
		if saves < n {
			return
		}
	}
}

// A list that names the session of the order twice has one session.
func TestAttackSessionListedTwice(t *testing.T) {
	d := withStore(t)
	d.store.lose = profilesAt + "get"
	serve := d.Config.Handler
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == sessionsAt {
			d.do(func() {
				var list []string
				for id := range d.store.sessions {
					list = append(list, `{"Id":`+id+`},{"Id":"`+id+`"}`)
				}
				fmt.Fprint(w, `{"SessionList":{"Contains":[`+strings.Join(list, ",")+`]}}`)
			})
			return
		}
		serve.ServeHTTP(w, r)
	})
	r := rigOf(d)
	if err := runStep(t, newInterface(t, lan{d}), r, backupBIOS); err != nil {
		t.Error(err)
	}
}

// Orders to read that are lost each time end in an error.
func TestAttackReadsThatNeverArrive(t *testing.T) {
	d, r := withBIOS(t)
	bios := newBIOSInterface(t)
	err := insist(t, func() driver.StepSource {
		d.do(func() { d.store.lose = "-" + profilesAt + "get" })
		return bios
	}, r, "apply_configuration", settings("hyper_threading_enabled", false))
	if err == nil || !strings.Contains(err.Error(), "were lost") || len(r.Busy) > 0 {
		t.Errorf("%v; written %d, busy %q", err, len(d.store.writes), r.Busy)
	}
	d = withStore(t)
	r = rigOf(d)
	i := newInterface(t, lan{d})
	err = insist(t, func() driver.StepSource {
		d.do(func() { d.store.lose = "-" + profilesAt + "get" })
		return i
	}, r, backupBIOS, nil)
	if err == nil || !strings.Contains(err.Error(), "were lost") {
		t.Errorf("%v; written %d", err, len(d.store.writes))
	}
}

// A session that fails, or a profile that cannot be read afterwards, leaves no machine off, and no work of the iRMC.
func TestAttackAFailedSessionLeavesThePower(t *testing.T) {
	for name, spoil := range map[string]func(*store){
		"failed":     func(s *store) { s.ends = "terminated with error" },
		"no profile": func(s *store) { s.odd = `{"Server":[]}` },
	} {
		d, r := withRAID(t)
		r.Node.TargetRAID = target(disk("1", 100.0))
		raid := newRAID(t)
		err := runWith(t, func() driver.StepSource {
			if h, ok := handleOf(r); ok && h.Stage == stageCreate && h.Session.ID != "" {
				d.do(func() { spoil(d.store) })
			}
			return raid
		}, r, "create_configuration", nil)
		w := r.Writes("power")
		if err == nil || len(w) == 0 || w[len(w)-1] != "power power on" || len(r.Busy) > 0 {
			t.Errorf("%s: %v; %q, busy %q", name, err, w, r.Busy)
		}
	}
}

// Half an answer about a session is no end of it.
func TestAttackHalfAStatus(t *testing.T) {
	for _, half := range []string{"{}", `{"Session":{}}`, `{"Session":{"Id":1,"Status":null}}`, "[]", `"x"`, ""} {
		d := withStore(t)
		serve := d.Config.Handler
		d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/status") {
				fmt.Fprint(w, half)
				return
			}
			serve.ServeHTTP(w, r)
		})
		r := rigOf(d)
		err := runStep(t, newInterface(t, lan{d}), r, backupBIOS)
		if err == nil || len(r.Busy) == 0 {
			t.Errorf("%q: %v; busy %q", half, err, r.Busy)
		}
	}
}

// A handle of the program that knew no eLCM for RAID is gone on with.
func TestAttackHandleOfBefore(t *testing.T) {
	d := withStore(t)
	r := rigOf(d)
	i := newInterface(t, lan{d})
	r.SetPowerState(driver.PowerOn)
	steps := i.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == backupBIOS })]
	r.NextStep()
	if _, err := step.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	for _, old := range []string{
		`{"asked":true,"others":["900"],"session":"1","since":"` + now + `","power_noted":true,"was_off":true}`,
		`{"asked":true,"others":["900"],"since":"` + now + `","power_noted":true,"was_off":true}`,
	} {
		if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), json.RawMessage(old)); err != nil {
			t.Fatal(err)
		}
		out, err := step.Run(t.Context(), r.Task(networkboot.IPXE()))
		var h struct {
			session
			powered
		}
		_ = json.Unmarshal([]byte(r.HandleText()), &h)
		if _, waits := out.Waiting(); err != nil || !waits || h.ID != "1" || !h.WasOff || d.store.next != 1 {
			t.Errorf("%v, %v, %s", out, err, r.HandleText())
		}
	}
}

// An order whose session is named has begun, whichever success the answer is called. The machine keeps its power meanwhile.
func TestAttackAnOrderThatIsAnswered200(t *testing.T) {
	d, r := withRAID(t)
	serve := d.Config.Handler
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPost {
			serve.ServeHTTP(w, q)
			return
		}
		as := httptest.NewRecorder()
		serve.ServeHTTP(as, q)
		fmt.Fprint(w, as.Body.String())
	})
	r.Node.TargetRAID = target(disk("1", 100.0))
	if err := runRAID(t, r, "create_configuration", nil); err != nil || len(observed(r)) != 1 || len(d.store.put) != 1 {
		t.Errorf("%v; made %q, %d orders, %q", err, observed(r), len(d.store.put), r.Writes("power"))
	}
}
