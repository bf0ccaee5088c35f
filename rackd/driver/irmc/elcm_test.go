package irmc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// profile is a profile of a BIOS in the form that python-scciclient's tests have.
const profile = `{"Server":{"SystemConfig":{"BiosConfig":{"@Version":"1.02","BootConfig":{"BootOptionFilter":"UefiAndLegacy"},"SecurityConfig":{"SecureBootControlEnabled":false}}},"@Version":"1.01"}}`

// store is the eLCM of a double: a profile store with one place, and sessions that end at the third look.
type store struct {
	profile  string
	sessions map[string]int // looks, by id
	next     int
	ends     string
	put      []string
	writes   []string
	lose     string // the order that loses its answer; "-" before it: the order does not come in
	licence  bool
	odd      string // what the profile is, if set
	twice    bool   // an order begins another session, too
	id       string // of the session, as it is answered; empty: its number
	log      string // of sessions
	away     func() bool
	orders   map[string]func() // what sessions do at their end, by id
	bios     string            // the settings of the machine; empty: profile
	adapters []*fakeAdapter    // of the machine
	shows    string            // the profile RAIDAdapter in the store
	powered  func() bool       // whether the machine is on; nil: it is not
	reports  []string          // what the report says of the controller, one after the other; none: there is no report
	deaf     bool              // orders end well and do nothing
	twist    func(*fakeDrive)  // what a controller makes of a new drive
}

// eLCM answers for the double's eLCM. mu of the double is held.
func (s *store) eLCM(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+r.URL.RequestURI())
	}
	answer := func(code int, body string) {
		w.WriteHeader(code)
		fmt.Fprint(w, "Server: iRMC\r\n\r\n"+body)
	}
	begin := func() {
		if !s.licence {
			answer(http.StatusNotImplemented, `{"error":"no eLCM license"}`)
			return
		}
		if s.lose == "-"+r.URL.Path {
			s.lose = ""
			panic(http.ErrAbortHandler)
		}
		s.next++
		id := fmt.Sprint(s.next)
		s.sessions[id] = 0
		if s.orders == nil {
			s.orders = map[string]func(){}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/set"):
			s.put = append(s.put, string(raw))
			if !s.deaf {
				s.orders[id] = func() { s.carryOut(raw) }
			}
		case r.URL.Query().Get("PARAM_PATH") == raidPath:
			s.orders[id] = func() { s.shows = cmp.Or(s.odd, s.raidProfile()) }
		default:
			s.orders[id] = func() { s.profile = cmp.Or(s.odd, s.bios, profile) }
		}
		if s.twice {
			s.sessions["800"] = 0
		}
		if s.lose == r.URL.Path {
			s.lose = ""
			panic(http.ErrAbortHandler)
		}
		answer(http.StatusAccepted, `{"Session":{"Id":`+cmp.Or(s.id, id)+`,"Status":"activated"}}`)
	}
	id, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, sessionsAt), "/")
	switch at := r.Method + " " + r.URL.Path; {
	case at == "GET "+profilesAt+biosProfile && s.profile != "":
		answer(http.StatusOK, s.profile)
	case at == "DELETE "+profilesAt+biosProfile && s.profile != "":
		s.profile = ""
		answer(http.StatusOK, "{}")
	case at == "GET /report.xml" && len(s.reports) > 0:
		fmt.Fprint(w, s.reports[0])
		if len(s.reports) > 1 {
			s.reports = s.reports[1:]
		}
	case at == "GET "+profilesAt+raidProfile && s.shows != "":
		answer(http.StatusOK, s.shows)
	case at == "DELETE "+profilesAt+raidProfile && s.shows != "":
		s.shows = ""
		answer(http.StatusOK, "{}")
	case at == "POST "+profilesAt+"get" && (r.URL.Query().Get("PARAM_PATH") == biosPath && s.profile != "" || r.URL.Query().Get("PARAM_PATH") == raidPath && s.shows != ""):
		answer(http.StatusConflict, `{"error":"the profile is there"}`)
	case at == "POST "+profilesAt+"set" && strings.Contains(string(raw), raidProfile) && s.powered != nil && s.powered():
		answer(http.StatusNotAcceptable, `{"error":"the server is on"}`)
	case at == "POST "+profilesAt+"get" && slices.Contains([]string{biosPath, raidPath}, r.URL.Query().Get("PARAM_PATH")), at == "POST "+profilesAt+"set":
		begin()
	case at == "GET "+sessionsAt:
		var list []string
		for id := range s.sessions {
			if s.id != "" && id != "900" {
				id = s.id
			}
			list = append(list, `{"Id":`+id+`,"Name":"n"}`)
		}
		answer(http.StatusOK, `{"SessionList":{"Contains":[`+strings.Join(list, ",")+`]}}`)
	case r.Method == http.MethodGet && what == "status" && s.away != nil && s.away():
		answer(http.StatusServiceUnavailable, "{}")
	case r.Method == http.MethodGet && what == "status":
		s.sessions[id]++
		status := sessionRuns
		if s.sessions[id] >= 3 {
			if status = s.ends; status == sessionEnded && s.orders[id] != nil {
				s.orders[id]()
				s.orders[id] = nil
			}
		}
		answer(http.StatusOK, `{"Session":{"Id":`+id+`,"Status":"`+status+`"}}`)
	case r.Method == http.MethodGet && what == "log":
		answer(http.StatusOK, `{"Session":{"Id":`+id+`,"WorkSequenceLog":{"LogEntries":{"Entry":[{"#text":`+cmp.Or(s.log, `"the BIOS has not answered"`)+`}]}}}}`)
	case r.Method == http.MethodDelete && what == "remove":
		delete(s.sessions, id)
		answer(http.StatusOK, "{}")
	default:
		answer(http.StatusNotFound, "{}")
	}
}

func withStore(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.store = &store{sessions: map[string]int{"900": 0}, ends: sessionEnded, licence: true}
	return d
}

// runStep runs a step to its end, each time as another owner of the work, but with the same rackd.
func runStep(t *testing.T, i driver.StepSource, r *drivertest.Rig, name string) error {
	t.Helper()
	return runWith(t, func() driver.StepSource { return i }, r, name, nil)
}

// runWith runs a step with arguments to its end, each time by the rackd that source returns.
func runWith(t *testing.T, source func() driver.StepSource, r *drivertest.Rig, name string, args map[string]any) error {
	t.Helper()
	r.NextStep()
	for range 100 {
		steps := source().NamedSteps(r.Node)
		step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == name })]
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := step.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
	t.Fatal("it still waits")
	return nil
}

func rigOf(d *double) *drivertest.Rig {
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	return r
}

// What is read out of a BIOS is kept with the node, also for other rackds, and put back as it was. The machine's power is as before.
func TestBackupAndRestoreOfTheBIOS(t *testing.T) {
	for _, auth := range []string{"basic", "digest"} {
		t.Run(auth, func(t *testing.T) {
			d := withStore(t)
			d.digest, d.store.profile = auth == "digest", profile // of before
			r := rigOf(d)
			r.Node.DriverInfo[fieldAuth] = auth
			i := newInterface(t, lan{d})
			r.Keeps = func() json.RawMessage { return i.Kept(r.Node) }
			r.SetPowerState(driver.PowerOn)
			if err := runStep(t, i, r, backupBIOS); err != nil {
				t.Fatal(err)
			}
			kept := i.Kept(r.Node)
			if len(kept) == 0 || len(d.store.sessions) != 1 || d.store.profile != "" {
				t.Fatalf("kept %s; sessions %v, profile %q", kept, d.store.sessions, d.store.profile)
			}
			other := newInterface(t, lan{d})
			r.Node.Kept = kept
			r.Keeps = func() json.RawMessage { return other.Kept(r.Node) }
			if err := runStep(t, other, r, restoreBIOS); err != nil {
				t.Fatal(err)
			}
			var put, want map[string]any
			if len(d.store.put) != 1 || json.Unmarshal([]byte(d.store.put[0]), &put) != nil || json.Unmarshal([]byte(profile), &want) != nil {
				t.Fatalf("put back: %q", d.store.put)
			}
			want["Server"].(map[string]any)["SystemConfig"].(map[string]any)[biosProfile].(map[string]any)["@Processing"] = "execute"
			if fmt.Sprint(put) != fmt.Sprint(want) {
				t.Errorf("put back %v\nwant %v", put, want)
			}
			r.Node.Kept = other.Kept(r.Node)
			if err := runStep(t, other, r, restoreBIOS); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no backup of them is kept") {
				t.Errorf("once more: %v", err)
			}
			if w := r.Writes("power"); len(w) > 0 {
				t.Errorf("the machine was on: %v", w)
			}
		})
	}
}

// An order whose answer is lost: its session is found, or, where there is none, it is given again after a while.
func TestBackupOfTheBIOSWithoutAnAnswer(t *testing.T) {
	d := withStore(t)
	d.store.lose = profilesAt + "get"
	i, r := newInterface(t, lan{d}), rigOf(d)
	if err := runStep(t, i, r, backupBIOS); err != nil || d.store.next != 1 {
		t.Errorf("%v, %d sessions", err, d.store.next)
	}
	if w := d.store.writes; !slices.Equal(w, []string{"POST " + profilesAt + "get?PARAM_PATH=Server%2FSystemConfig%2FBiosConfig", "DELETE " + sessionsAt + "1/remove", "DELETE " + profilesAt + biosProfile}) {
		t.Errorf("written %q", w)
	}
}

// A session that fails is told with its log. An iRMC without a licence is quoted, and nothing is kept.
func TestBackupOfTheBIOSFails(t *testing.T) {
	for says, spoil := range map[string]func(*store){
		`"terminated with error": {"Id":1,"WorkSequenceLog"`: func(s *store) { s.ends = "terminated with error" },
		"no eLCM license":             func(s *store) { s.licence = false },
		"the profile has no Server":   func(s *store) { s.odd = `{"other":1}` },
		"is not known which of the n": func(s *store) { s.lose, s.twice = profilesAt+"get", true },
	} {
		d := withStore(t)
		spoil(d.store)
		i, r := newInterface(t, lan{d}), rigOf(d)
		err := runStep(t, i, r, backupBIOS)
		if err == nil || !strings.Contains(err.Error(), says) || len(i.Kept(r.Node)) > 0 || strings.Contains(err.Error(), redfishtest.Password) {
			t.Errorf("%s: %v, kept %s", says, err, i.Kept(r.Node))
		}
	}
}

// What an iRMC says of its sessions is bounded, and the password is in no part of it.
func TestWhatAnIRMCSaysOfItsSessions(t *testing.T) {
	d := withStore(t)
	d.store.ends, d.store.log = strings.Repeat("failed ", 1000), `"for `+redfishtest.User+`, `+redfishtest.Password+`"`
	i, r := newInterface(t, lan{d}), rigOf(d)
	if err := runStep(t, i, r, backupBIOS); err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), redfishtest.Password) || !strings.Contains(err.Error(), "for "+redfishtest.User) {
		t.Errorf("%.3000v", err)
	}
	for what, id := range map[string]string{"a long name": `"` + strings.Repeat("7", 1<<20) + `"`, "no name": `{"a":1}`, "a path": `"../x"`, "nothing": "null"} {
		d := withStore(t)
		d.store.id = id
		i, r := newInterface(t, lan{d}), rigOf(d)
		err := runStep(t, i, r, backupBIOS)
		if err == nil || len(r.HandleText()) > 1000 || len(d.store.writes) > 1 {
			t.Errorf("%s: %.300v, handle of %d bytes, written %q", what, err, len(r.HandleText()), d.store.writes)
		}
	}
	d = withStore(t)
	for n := range 2000 {
		d.store.sessions[fmt.Sprint(1000+n)] = 0
	}
	r = rigOf(d)
	if err := runStep(t, newInterface(t, lan{d}), r, backupBIOS); err == nil || !strings.Contains(err.Error(), "2001 sessions") || len(d.store.writes) > 0 {
		t.Errorf("%v, written %q", err, d.store.writes)
	}
}

// An iRMC that is busy or away now and then ends no backup.
func TestBackupOfTheBIOSWithAnIRMCThatIsAway(t *testing.T) {
	d := withStore(t)
	looks := 0
	d.store.away = func() bool { looks++; return looks%2 == 1 && looks < 20 }
	if err := runStep(t, newInterface(t, lan{d}), rigOf(d), backupBIOS); err != nil || looks < 4 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

// An order whose answer is lost, and of which no session is seen. An iRMC may take five minutes to answer: python-scciclient lets it. Then
// the order is given again.
func TestBackupOfTheBIOSThatNeverCameIn(t *testing.T) {
	d := withStore(t)
	d.store.lose = "-" + profilesAt + "get"
	i, r := newInterface(t, lan{d}), rigOf(d)
	steps := i.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == backupBIOS })]
	run := func() {
		t.Helper()
		out, err := step.Run(t.Context(), r.Task(networkboot.IPXE()))
		if _, waits := out.Waiting(); err != nil || !waits {
			t.Fatal(err)
		}
	}
	ago := func(since time.Duration) {
		var h session
		if err := json.Unmarshal([]byte(r.HandleText()), &h); err != nil || !h.Asked {
			t.Fatalf("the handle is %s, %v", r.HandleText(), err)
		}
		h.Since = time.Now().Add(-since)
		if err := r.Task(networkboot.IPXE()).Record.SaveHandle(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	run()
	ago(4 * time.Minute)
	run()
	if len(d.store.writes) != 1 {
		t.Fatalf("after four minutes: written %q", d.store.writes)
	}
	ago(7 * time.Minute)
	run()
	run()
	if len(d.store.writes) != 2 || d.store.next != 1 {
		t.Errorf("after seven: written %q, %d sessions", d.store.writes, d.store.next)
	}
}

// A lost fence lets no write pass.
func TestBackupOfTheBIOSBehindTheFence(t *testing.T) {
	d := withStore(t)
	d.store.profile = profile
	i, r := newInterface(t, lan{d}), rigOf(d)
	r.Lose()
	if err := runStep(t, i, r, backupBIOS); !errors.Is(err, driver.ErrFenced) || len(d.store.writes) > 0 {
		t.Errorf("%v after %q", err, d.store.writes)
	}
}

func FuzzUnpack(f *testing.F) {
	good, err := pack([]byte(profile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("H4sI")
	f.Fuzz(func(t *testing.T, text string) {
		if settings, err := unpack(text); err == nil && len(settings) > maxBIOS {
			t.Errorf("%d bytes", len(settings))
		}
	})
}
