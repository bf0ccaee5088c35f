package agentclient

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is a ramdisk's agent that ends each command when it is asked a second time.
type agent struct {
	*httptest.Server
	mu       sync.Mutex
	commands map[string]*agentapi.Command
	posts    int
	hook     func(w http.ResponseWriter, r *http.Request) bool
	fails    bool
	by       string // work and epoch of the last post
}

const token = "to-ken-very-secret"

func newAgent(t *testing.T) (*agent, *Client) {
	a := &agent{commands: map[string]*agentapi.Command{}}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	state := &work.Agent{URL: a.URL, LastSeen: time.Now(),
		VerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))}
	return a, client(func() *work.Agent { return state })
}

func given(tokens ...string) func() []string { return func() []string { return tokens } }

func client(state func() *work.Agent) *Client {
	return New(Config{State: state, Tokens: given(token), Timeout: 5 * time.Second, Pause: time.Millisecond, Poll: time.Millisecond})
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPost {
		a.posts++
		a.by = r.Header.Get(work.IDHeader) + "/" + r.Header.Get(work.EpochHeader)
	}
	if a.hook != nil && a.hook(w, r) {
		return
	}
	if r.URL.Query().Get("agent_token") != token {
		w.WriteHeader(401)
		_ = json.NewEncoder(w).Encode(agentapi.Fault{Code: "Unauthorized", String: "wrong token " + token})
		return
	}
	var c *agentapi.Command
	if r.Method == http.MethodGet && r.URL.Path == agentapi.CommandsPath {
		list := []*agentapi.Command{}
		for _, id := range slices.Sorted(maps.Keys(a.commands)) {
			list = append(list, a.commands[id])
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"commands": list})
		return
	}
	if r.Method == http.MethodPost {
		var req agentapi.CommandRequest
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &req)
		if c = a.commands[req.ID]; c == nil {
			c = &agentapi.Command{ID: req.ID, Name: req.Name, Status: agentapi.CommandRunning}
			a.commands[req.ID] = c
		}
	} else if c = a.commands[strings.TrimPrefix(r.URL.Path, agentapi.CommandsPath)]; c == nil {
		w.WriteHeader(404)
		return
	} else if c.Status = agentapi.CommandSucceeded; a.fails {
		c.Status, c.Error = agentapi.CommandFailed, &agentapi.CommandError{Message: "failed", Details: "disk is on fire"}
	}
	_ = json.NewEncoder(w).Encode(c)
}

func TestCallRunsACommandToItsEnd(t *testing.T) {
	a, c := newAgent(t)
	cmd, err := c.Call(t.Context(), &drivertest.Fence{}, "w/1", "standby.sync", map[string]any{})
	if err != nil || cmd.Status != agentapi.CommandSucceeded || cmd.ID != "w/1" {
		t.Fatalf("%+v, %v", cmd, err)
	}
	if a.by != "work-1/7" {
		t.Errorf("the command carries work and epoch %q, want work-1/7", a.by)
	}
	a.fails = true
	if _, err := c.Call(t.Context(), &drivertest.Fence{}, "w/2", "standby.sync", nil); err == nil || !strings.Contains(err.Error(), "disk is on fire") {
		t.Errorf("%v, want the agent's reason", err)
	}
	if _, ok, err := c.Command(t.Context(), "w/none"); ok || err != nil {
		t.Errorf("unknown id: %v, %v; want not ok and no error", ok, err)
	}
}

func TestCommandsAreListed(t *testing.T) {
	a, c := newAgent(t)
	if list, err := c.Commands(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v; want none", list, err)
	}
	for _, id := range []string{"w/1", "w/2"} {
		if _, err := c.Start(t.Context(), &drivertest.Fence{}, id, "x.y", nil); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.Commands(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "w/1" || list[1].ID != "w/2" || list[1].Status != agentapi.CommandRunning {
		t.Errorf("%+v, %v", list, err)
	}
	a.hook = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true }
	if _, err := c.Commands(t.Context()); err == nil || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("an agent without a list: %v", err)
	}
}

func TestLostAnswerIsAskedForAgain(t *testing.T) {
	a, c := newAgent(t)
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if a.posts < 3 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	if _, err := c.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); !errors.Is(err, driver.ErrUnreachable) || a.posts != 1 {
		t.Errorf("%v after %d posts, want one: a second may begin a second command", err, a.posts)
	}
	if _, err := c.Call(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); err != nil || a.posts != 3 || len(a.commands) != 1 {
		t.Errorf("%v after %d posts, %d commands", err, a.posts, len(a.commands))
	}
	a.Close()
	if _, _, err := c.Command(t.Context(), "w/1"); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable", err)
	} else if strings.Contains(err.Error(), token) {
		t.Errorf("%q holds the token", err)
	}
}

func TestLostFenceSendsNothing(t *testing.T) {
	a, c := newAgent(t)
	f := &drivertest.Fence{}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		f.Lose() // taken away while the first attempt is under way
		panic(http.ErrAbortHandler)
	}
	if _, err := c.Call(t.Context(), f, "w/1", "x.y", nil); !errors.Is(err, driver.ErrFenced) || a.posts != 1 {
		t.Errorf("%v after %d posts, want ErrFenced after 1", err, a.posts)
	}
}

func TestOnlyTheHeartbeatsCertificateIsTrusted(t *testing.T) {
	a, _ := newAgent(t)
	for name, state := range map[string]*work.Agent{
		"none":      {URL: a.URL},
		"another":   {URL: a.URL, VerifyCA: anotherCertificate(t)},
		"http":      {URL: "http://127.0.0.1:1"},
		"not asked": nil,
	} {
		c := client(func() *work.Agent { return state })
		if _, err := c.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if a.posts != 0 {
		t.Errorf("the agent got %d posts", a.posts)
	}
}

// A certificate that the heartbeat's one has signed is trusted for the address of the agent, and for no other.
func TestCertificateForAnotherAddress(t *testing.T) {
	authority, ca := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, nil)
	for address, trusted := range map[string]bool{"127.0.0.1": true, "127.0.0.2": false} {
		leaf, _ := certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.ParseIP(address)}}, &authority)
		a := &agent{commands: map[string]*agentapi.Command{}}
		a.Server = httptest.NewUnstartedServer(a)
		a.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
		a.StartTLS()
		c := client(func() *work.Agent { return &work.Agent{URL: a.URL, VerifyCA: ca} })
		if _, err := c.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); (err == nil) != trusted || (a.posts > 0) != trusted {
			t.Errorf("a certificate for %s at %s: %v, %d posts", address, a.URL, err, a.posts)
		}
		a.Close()
	}
}

// anotherCertificate is valid for the same addresses and signed by somebody else.
func anotherCertificate(t *testing.T) string {
	_, text := certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil)
	return text
}

// certificate makes one, also as PEM, signed by that of by or, without, by itself.
func certificate(t *testing.T, template *x509.Certificate, by *tls.Certificate) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey.(*ecdsa.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestRefusalsAreExplained(t *testing.T) {
	a, _ := newAgent(t)
	_, good := newAgent(t)
	state := *good.cfg.State()
	state.URL = a.URL
	wrong := New(Config{State: func() *work.Agent { return &state }, Tokens: given("another"), Pause: time.Millisecond})
	_, err := wrong.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil)
	if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "another") {
		t.Errorf("%v, want ErrDenied without the token", err)
	}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(409)
		_, _ = io.WriteString(w, `{"faultcode":"AgentIsBusy","faultstring":"busy\nwith write"}`)
		return true
	}
	if _, err := good.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); err != nil {
		t.Fatal(err)
	}
	wrong = New(Config{State: func() *work.Agent { return &state }, Tokens: given(token), Pause: time.Millisecond})
	if _, err := wrong.Start(t.Context(), &drivertest.Fence{}, "w/1", "x.y", nil); err == nil || !strings.Contains(err.Error(), "busy with write") {
		t.Errorf("%v, want the fault on one line", err)
	}
}

// While the key is replaced an agent has the token of one generation or the other. A command is
// begun once all the same, the next one is sent with the token that fitted, and no error shows any.
func TestAgentHasOneOfTheTokens(t *testing.T) {
	for _, tokens := range [][]string{{"newer-token", token}, {token, "older-token"}} {
		a, good := newAgent(t)
		c := New(Config{State: good.cfg.State, Tokens: given(tokens...), Pause: time.Millisecond, Poll: time.Millisecond})
		for _, id := range []string{"w/1", "w/2"} {
			before := a.posts
			if _, err := c.Start(t.Context(), &drivertest.Fence{}, id, "x.y", nil); err != nil {
				t.Fatalf("tokens %q: %v", tokens, err)
			}
			if n := a.posts - before; id == "w/2" && n != 1 {
				t.Errorf("tokens %q: the second command was sent %d times", tokens, n)
			}
		}
		if len(a.commands) != 2 {
			t.Errorf("tokens %q: %d commands were begun", tokens, len(a.commands))
		}
		c = New(Config{State: good.cfg.State, Tokens: given("none", "of-them"), Pause: time.Millisecond})
		if _, err := c.Start(t.Context(), &drivertest.Fence{}, "w/3", "x.y", nil); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "none") || strings.Contains(err.Error(), "of-them") {
			t.Errorf("%v, want ErrDenied without a token", err)
		}
	}
}

// An agent whose heartbeat gave no certificate is not called.
func TestAgentWithoutACertificate(t *testing.T) {
	_, good := newAgent(t)
	state := *good.cfg.State()
	state.VerifyCA = ""
	c := New(Config{State: func() *work.Agent { return &state }, Tokens: given(token), Pause: time.Millisecond})
	if _, err := c.Commands(t.Context()); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "gave no certificate") {
		t.Errorf("%v, want a refusal that says why", err)
	}
}

// An agent lives while something shows its certificate at its URL, whatever that answers. What shows
// another certificate there is another agent.
func TestLives(t *testing.T) {
	a, c := newAgent(t)
	state := *c.cfg.State()
	if !Lives(t.Context(), state) {
		t.Error("an agent that answers does not live")
	}
	a.hook = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
	if !Lives(t.Context(), state) {
		t.Error("an agent that answers with an error does not live")
	}
	other := state
	other.VerifyCA = anotherCertificate(t)
	if Lives(t.Context(), other) {
		t.Error("an agent with another certificate is taken for the one of before")
	}
	a.Close()
	if Lives(t.Context(), state) {
		t.Error("an agent that is gone lives")
	}
}

func TestBooted(t *testing.T) {
	now := time.Now()
	seen := &work.Agent{URL: "https://a", LastSeen: now}
	c := client(func() *work.Agent { return seen })
	if !c.Booted(now) || c.Booted(now.Add(time.Second)) {
		t.Error("Booted does not compare with the last heartbeat")
	}
	seen = nil
	if c.Booted(time.Time{}) {
		t.Error("an agent that never called has booted")
	}
}

func FuzzFault(f *testing.F) {
	f.Add([]byte(`{"faultstring":"x"}`))
	c := New(Config{Tokens: given(token)})
	f.Fuzz(func(t *testing.T, body []byte) {
		if got := c.fault(body); len([]rune(got)) > 1001 || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%q", got)
		}
	})
}

func FuzzCertificates(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		if known, _, err := certificates(text); err == nil && len(known) == 0 {
			t.Error("no certificate and no error")
		}
	})
}
