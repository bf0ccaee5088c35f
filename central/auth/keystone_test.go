package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// identity is the part of Keystone's Identity API v3 that concerns tokens.
type identity struct {
	t         *testing.T
	url       string
	service   string // the only token of our account that is good
	tokens    map[string]string
	asked     atomic.Int32
	loggedIn  atomic.Int32
	broken    atomic.Bool
	wantScope string
}

func newIdentity(t *testing.T) *identity {
	i := &identity{t: t, service: "service-1", wantScope: `{"system":{"all":true}}`, tokens: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", i.login)
	mux.HandleFunc("GET /v3/auth/tokens", i.validate)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	return i
}

func (i *identity) login(w http.ResponseWriter, r *http.Request) {
	i.loggedIn.Add(1)
	var body struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						Name, Password string
						Domain         struct{ Name string }
					}
				}
			}
			Scope json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		i.t.Errorf("login: %v", err)
	}
	u := body.Auth.Identity.Password.User
	if u.Name != "ironyard" || u.Password != "secret" || u.Domain.Name != "Default" || strings.Join(body.Auth.Identity.Methods, "") != "password" || string(body.Auth.Scope) != i.wantScope {
		http.Error(w, `{"error":{"code":401}}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-Subject-Token", i.service)
	w.WriteHeader(http.StatusCreated)
}

func (i *identity) validate(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	token, known := i.tokens[r.Header.Get("X-Subject-Token")]
	switch {
	case i.broken.Load():
		http.Error(w, "", http.StatusInternalServerError)
	case r.Header.Get("X-Auth-Token") != i.service:
		http.Error(w, "", http.StatusUnauthorized)
	case !known:
		http.Error(w, "", http.StatusNotFound)
	default:
		w.Write([]byte(token))
	}
}

func (i *identity) strategy(now func() time.Time) *Keystone {
	i.t.Helper()
	k, err := NewKeystone(KeystoneConfig{URL: i.url + "/v3", Username: "ironyard", Password: "secret", Now: now})
	if err != nil {
		i.t.Fatal(err)
	}
	return k
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/nodes", nil)
	r.Header.Set("X-Auth-Token", token)
	return r
}

const (
	ofProject = `{"token":{"expires_at":"2026-01-02T13:00:00.000000Z","user":{"id":"u-1","name":"ann","domain":{"id":"default","name":"Default"}},
		"roles":[{"id":"r","name":"Member"},{"id":"q","name":"reader"}],"project":{"id":"p-1","name":"lab","domain":{"id":"d-2"}},"methods":["password"]}}`
	ofSystem = `{"token":{"expires_at":"2026-01-02T12:02:00.000000Z","user":{"id":"u-2","name":"bob","domain":{"id":"default"}},"roles":[{"name":"admin"}],"system":{"all":true}}}`
)

func TestKeystone(t *testing.T) {
	i := newIdentity(t)
	i.tokens["P"], i.tokens["S"] = ofProject, ofSystem
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := i.strategy(func() time.Time { return now })
	for range 3 {
		c, err := k.Authenticate(withToken("P"))
		if err != nil || c.User != "ann" || c.UserID != "u-1" || c.Project != "p-1" || c.ProjectName != "lab" || c.Domain != "default" || c.ProjectDomain != "d-2" ||
			c.System || !c.Has("member") || c.Has("admin") {
			t.Fatalf("of a project: %+v, %v", c, err)
		}
	}
	if c, err := k.Authenticate(withToken("S")); err != nil || !c.System || c.Project != "" || !c.Has("admin") {
		t.Fatalf("of the system: %+v, %v", c, err)
	}
	if i.asked.Load() != 2 || i.loggedIn.Load() != 1 {
		t.Errorf("Keystone was asked %d times, and logged in to %d times", i.asked.Load(), i.loggedIn.Load())
	}
	if _, err := k.Authenticate(httptest.NewRequest("GET", "/", nil)); !errors.Is(err, ErrNone) {
		t.Errorf("without a token: %v", err)
	}
	for range 2 {
		if _, err := k.Authenticate(withToken("X")); status(err) != 401 {
			t.Errorf("an unknown token: %v", err)
		}
	}
	if i.asked.Load() != 3 {
		t.Errorf("a bad token is asked about each time")
	}
	// Past its end a token is not good, whatever was remembered; the other is asked about anew.
	now = now.Add(3 * time.Minute)
	i.tokens["S"] = ofSystem
	if _, err := k.Authenticate(withToken("S")); status(err) != 401 {
		t.Errorf("an expired token: %v", err)
	}
	delete(i.tokens, "P") // revoked
	if _, err := k.Authenticate(withToken("P")); err != nil {
		t.Errorf("within five minutes: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := k.Authenticate(withToken("P")); status(err) != 401 {
		t.Errorf("a revoked token after five minutes: %v", err)
	}
}

func TestKeystoneRenewsItsOwnToken(t *testing.T) {
	i := newIdentity(t)
	i.tokens["P"], i.tokens["S"] = ofProject, ofSystem
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := i.strategy(func() time.Time { return now })
	if _, err := k.Authenticate(withToken("P")); err != nil {
		t.Fatal(err)
	}
	i.service = "service-2"
	if _, err := k.Authenticate(withToken("S")); err != nil {
		t.Fatalf("with an expired token of its own: %v", err)
	}
	if i.loggedIn.Load() != 2 {
		t.Errorf("logged in %d times", i.loggedIn.Load())
	}
}

func TestKeystoneThatFailsIsNotADenial(t *testing.T) {
	i := newIdentity(t)
	i.tokens["P"] = ofProject
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := i.strategy(func() time.Time { return now })
	i.broken.Store(true)
	if _, err := k.Authenticate(withToken("P")); status(err) != 503 {
		t.Errorf("with Keystone broken: %v", err)
	}
	i.broken.Store(false)
	if _, err := k.Authenticate(withToken("P")); err != nil {
		t.Errorf("with Keystone well again: %v", err)
	}
	i.wantScope = "none"
	stranger := i.strategy(func() time.Time { return now })
	if _, err := stranger.Authenticate(withToken("P")); status(err) != 503 || !strings.Contains(err.Error(), "check the account's name, password, domain and scope") {
		t.Errorf("with an account that is not let in: %v", err)
	}
}

func TestKeystoneIsAskedOnceByManyRequests(t *testing.T) {
	i := newIdentity(t)
	i.tokens["P"] = ofProject
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := i.strategy(func() time.Time { return now })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := k.Authenticate(withToken("P")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := i.loggedIn.Load(); n != 1 {
		t.Errorf("logged in %d times", n)
	}
}
