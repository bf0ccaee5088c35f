package ociimage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// keeper is a registry with one image, which it gives for its user's password, or for the token of a token server.
type keeper struct {
	realm string // of the token server; empty: the registry itself asks for the password
	tls   bool

	mu    sync.Mutex
	asked int
	shown []string // the credentials that came
	host  string
}

func (k *keeper) start(t *testing.T) *http.Client {
	t.Helper()
	s := httptest.NewUnstartedServer(k)
	if k.tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	_, k.host, _ = strings.Cut(s.URL, "://")
	return s.Client()
}

// was returns how often the registry was asked, and the credentials that it was shown.
func (k *keeper) was() (asked int, shown []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked, slices.Clone(k.shown)
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.asked++
	if a := r.Header.Get("Authorization"); a != "" {
		k.shown = append(k.shown, a)
	}
	k.mu.Unlock()
	const file = "private"
	layer := fmt.Sprintf(`{"mediaType":"a/disk","digest":%q,"size":%d}`, digestOf([]byte(file)), len(file))
	switch {
	case k.realm != "" && r.Header.Get("Authorization") != "Bearer t0ken":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+k.realm+`",service="s"`)
		w.WriteHeader(http.StatusUnauthorized)
	case k.realm == "" && r.Header.Get("Authorization") != basic:
		w.Header().Set("WWW-Authenticate", "Basic realm=r")
		w.WriteHeader(http.StatusUnauthorized)
	case strings.Contains(r.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", manifestType)
		io.WriteString(w, `{"mediaType":"`+manifestType+`","artifactType":"a/disk","layers":[`+layer+`]}`)
	default:
		io.WriteString(w, file)
	}
}

// realmOf serves a token server, and counts the requests that show credentials.
func realmOf(t *testing.T, answer http.HandlerFunc) (host string, shown func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			mu.Lock()
			n++
			mu.Unlock()
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func giveToken(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != basic {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"token": "t0ken"})
}

// A registry without TLS is shown credentials where its host may be shown them in the clear. Else it is not asked at all.
func TestARegistryWithoutTLSIsShownCredentialsByConsent(t *testing.T) {
	k := &keeper{}
	web := k.start(t)
	c, at := &Client{HTTP: web, Plain: []string{k.host}}, "oci://"+k.host+"/os"
	_, port, _ := strings.Cut(k.host, ":")
	for name, open := range map[string]string{"none": "", "another host": "reg.example:" + port, "another port": "127.0.0.1:1", "the host without its port": "127.0.0.1", "a pattern": "*"} {
		for way, ask := range map[string]func(Access) error{
			"Resolve": func(a Access) error { _, err := c.Resolve(t.Context(), at, "", a); return err },
			"Open": func(a Access) error {
				_, _, err := c.Open(t.Context(), at+"@"+digestOf([]byte("private")), a)
				return err
			},
		} {
			err := ask(Access{Authorization: basic, InTheClear: open})
			if asked, _ := k.was(); !errors.Is(err, ErrInTheClear) || !strings.Contains(err.Error(), "write http://"+k.host+" there") || asked != 0 {
				t.Errorf("%s, in the clear to %s: %v; the registry was asked %d times", way, name, err, asked)
			}
		}
	}
	for _, open := range []string{AnyHost, k.host, "reg.example," + k.host} {
		if got, err := get(t, c, at, "", Access{Authorization: basic, InTheClear: open}); err != nil || got != "private" {
			t.Errorf("in the clear to %q: %q, %v", open, got, err)
		}
	}
	// Without credentials there is nothing to hide.
	if _, err := get(t, c, at, "", Access{}); !errors.Is(err, ErrRefused) {
		t.Errorf("without credentials: %v", err)
	}
	a := Access{InTheClear: "Reg.example:80"}
	if !a.mayShow("reg.EXAMPLE") || !a.mayShow("reg.example:80") || a.mayShow("reg.example:8080") {
		t.Error("the usual port is another host, or another port is none")
	}
}

// A registry with TLS needs no consent.
func TestARegistryWithTLSIsShownCredentials(t *testing.T) {
	k := &keeper{tls: true}
	c := &Client{HTTP: k.start(t)}
	if got, err := get(t, c, "oci://"+k.host+"/os", "", Access{Authorization: basic}); err != nil || got != "private" {
		t.Errorf("%q, %v", got, err)
	}
}

// The token server of a registry is another host: it is shown credentials without TLS by a consent of its own, and by none where the
// registry speaks TLS. Where it leads on to another host, that host is shown none.
func TestATokenServerWithoutTLSIsShownCredentialsByConsent(t *testing.T) {
	server, shown := realmOf(t, giveToken)
	k := &keeper{realm: "http://" + server + "/token"}
	c, at := &Client{HTTP: k.start(t), Plain: []string{k.host}}, "oci://"+k.host+"/os"
	_, err := c.Resolve(t.Context(), at, "", Access{Authorization: basic, InTheClear: k.host})
	if !errors.Is(err, ErrInTheClear) || !strings.Contains(err.Error(), "add http://"+server+" to image_server_hosts") || shown() != 0 {
		t.Errorf("by the registry's consent: %v; the token server was shown credentials %d times", err, shown())
	}
	if got, err := get(t, c, at, "", Access{Authorization: basic, InTheClear: k.host + "," + server}); err != nil || got != "private" || shown() == 0 {
		t.Errorf("by its own consent: %q, %v; the token server was shown credentials %d times", got, err, shown())
	}
	if _, all := k.was(); len(all) == 0 || slices.ContainsFunc(all, func(a string) bool { return a != "Bearer t0ken" }) {
		t.Errorf("the registry was shown %q, and what is not a token is for its token server", all)
	}

	server, shown = realmOf(t, giveToken)
	k = &keeper{tls: true, realm: "http://" + server + "/token"}
	c = &Client{HTTP: k.start(t)}
	if _, err := c.Resolve(t.Context(), "oci://"+k.host+"/os", "", anywhere(basic)); err == nil || !strings.Contains(err.Error(), "uses http") || shown() != 0 {
		t.Errorf("of a registry with TLS: %v; the token server was shown credentials %d times", err, shown())
	}

	away, shownAway := realmOf(t, giveToken)
	server, _ = realmOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+away+"/token", http.StatusTemporaryRedirect)
	})
	k = &keeper{realm: "http://" + server + "/token"}
	c = &Client{HTTP: k.start(t), Plain: []string{k.host}}
	if _, err := c.Resolve(t.Context(), "oci://"+k.host+"/os", "", anywhere(basic)); err == nil || shownAway() != 0 {
		t.Errorf("a token server that leads on: %v; the other was shown credentials %d times", err, shownAway())
	}
}

// A token that a token server gives to all is no credential of a node. A registry without TLS is shown it.
func TestATokenForAllIsNoCredential(t *testing.T) {
	server, _ := realmOf(t, func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"token": "t0ken"})
	})
	k := &keeper{realm: "http://" + server + "/token"}
	c := &Client{HTTP: k.start(t), Plain: []string{k.host}}
	if got, err := get(t, c, "oci://"+k.host+"/os", "", Access{}); err != nil || got != "private" {
		t.Errorf("%q, %v", got, err)
	}
}
