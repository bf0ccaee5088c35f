package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

const sessionsAt = "/redfish/v1/SessionService/Sessions"

// desk keeps the sessions of an emulator, whose clock is off, and loses answers to logins.
type desk struct {
	mu    sync.Mutex
	shown map[string]map[string]any // by path
	lose  int                       // answers to logins
	posts int
	bare  bool // it shows users only
}

func (d *desk) now() string { return time.Now().Add(-3 * time.Hour).Format(time.RFC3339) }

// over is what becomes of the emulator's answers.
func (d *desk) over(e *emulator) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case r.Method == http.MethodPost && r.URL.Path == sessionsAt:
			d.posts++
			e.set(func() { e.hook = nil })
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, r)
			e.set(func() { e.hook = d.over(e) })
			at := rec.Header().Get("Location")
			d.shown[at] = map[string]any{"@odata.id": at, "UserName": "admin", "SessionType": "Redfish"}
			if !d.bare {
				d.shown[at]["CreatedTime"], d.shown[at]["ClientOriginIPAddress"] = d.now(), "10.0.0.1"
			}
			if d.lose > 0 {
				d.lose--
				panic(http.ErrAbortHandler)
			}
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(rec.Code)
		case r.Method == http.MethodGet && r.URL.Path == sessionsAt:
			var list []any
			for at := range d.shown {
				list = append(list, map[string]any{"@odata.id": at})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"Members": list})
		case r.Method == http.MethodGet && d.shown[r.URL.Path] != nil:
			_ = json.NewEncoder(w).Encode(d.shown[r.URL.Path])
		case r.Method == http.MethodDelete && d.shown[r.URL.Path] != nil:
			delete(d.shown, r.URL.Path)
			return false
		default:
			return false
		}
		return true
	}
}

func (d *desk) paths() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := range d.shown {
		list = append(list, strings.TrimPrefix(at, sessionsAt+"/"))
	}
	slices.Sort(list)
	return list
}

func newDesk(t *testing.T) (*desk, *emulator) {
	e := newEmulator(t)
	d := &desk{shown: map[string]map[string]any{}}
	e.set(func() { e.hook = d.over(e) })
	return d, e
}

// The session of a login whose answer was lost is ended by the next login. Those of others stay: another user's, another address's,
// those of an hour ago, those of another kind, and those that the BMC tells too little of.
func TestTheSessionOfALostLogin(t *testing.T) {
	k, e := newDesk(t)
	d := newDriver(t, Options{})
	k.lose = 1
	if _, err := d.PowerState(t.Context(), e.node(nil)); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("%v, want ErrUnreachable", err)
	}
	for name, change := range map[string]map[string]any{
		"others-user":    {"UserName": "eve"},
		"others-address": {"ClientOriginIPAddress": "10.0.0.2"},
		"before":         {"CreatedTime": time.Now().Add(-4 * time.Hour).Format(time.RFC3339)},
		"persons":        {"SessionType": "WebUI"},
		"no-time":        {"CreatedTime": nil},
	} {
		at := sessionsAt + "/" + name
		k.shown[at] = map[string]any{"@odata.id": at, "UserName": "admin", "SessionType": "Redfish", "CreatedTime": k.now(), "ClientOriginIPAddress": "10.0.0.1"}
		for field, v := range change {
			k.shown[at][field] = v
		}
	}
	if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil {
		t.Fatal(err)
	}
	want := []string{"before", "no-time", "others-address", "others-user", "persons", "token-2"}
	if got := k.paths(); !slices.Equal(got, want) {
		t.Errorf("the BMC has the sessions %v, want %v", got, want)
	}
	if lost := d.pool.logins.of(e.URL); len(lost) != 0 {
		t.Errorf("%d lost logins are remembered", len(lost))
	}
}

// However many answers to logins are lost, and however little a BMC tells of its sessions, few are left.
func TestLostLoginsAreBounded(t *testing.T) {
	for auth, want := range map[string]struct {
		posts int
		reads bool
	}{"auto": {mostLost, true}, "session": {mostLost, false}, "basic": {0, true}} {
		t.Run(auth, func(t *testing.T) {
			k, e := newDesk(t)
			d := newDriver(t, Options{})
			k.lose, k.bare = 100, true
			var err error
			for range 20 {
				_, err = d.PowerState(t.Context(), e.node(map[string]any{fieldAuth: auth}))
			}
			if k.posts != want.posts || (err == nil) != want.reads {
				t.Errorf("%d logins, the last call: %v", k.posts, err)
			}
			if err != nil && (!errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "does not log in again before") || strings.Contains(err.Error(), "s3cret")) {
				t.Error(err)
			}
		})
	}
}

// A login that is lost now and then, at a BMC that tells too little: after two of them there are no sessions for half an hour.
func TestLostLoginsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lostLogins
		auto, only := account{endpoint: "b", auth: "auto", names: Values{Auth: fieldAuth}}, account{endpoint: "b", auth: "session", names: Values{Auth: fieldAuth}}
		opened := 0
		for range 24 * 60 {
			if _, err := l.allow(only); err == nil {
				opened++
				l.add("b", lostLogin{time.Now(), time.Now().Add(time.Second)})
			}
			if n := len(l.of("b")); n > 5 {
				t.Fatalf("%d sessions may be left", n)
			}
			time.Sleep(time.Minute)
		}
		if opened < 100 {
			t.Errorf("only %d logins in a day", opened)
		}
		if basic, err := l.allow(auto); !basic || err != nil {
			t.Errorf("%t, %v", basic, err)
		}
		time.Sleep(sessionLife + time.Minute)
		if basic, err := l.allow(auto); basic || err != nil {
			t.Errorf("half an hour later: %t, %v", basic, err)
		}
		l.add("c", lostLogin{time.Now(), time.Now()})
		if fmt.Sprint(len(l.at)) != "1" {
			t.Errorf("%d BMCs are remembered", len(l.at))
		}
	})
}
