package vbmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// fake is a computer that obeys at once.
type fake struct {
	mu     sync.Mutex
	on     bool
	device string
	once   bool
	calls  []string
	starts uint64
	err    error
}

func (f *fake) act(name string, on bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if f.err == nil {
		if on && (!f.on || name == "reset" || name == "restart") {
			f.starts++
		}
		f.on = on
	}
	return f.err
}

func (f *fake) On() bool                        { f.mu.Lock(); defer f.mu.Unlock(); return f.on }
func (f *fake) Start(context.Context) error     { return f.act("start", true) }
func (f *fake) Stop(context.Context) error      { return f.act("stop", false) }
func (f *fake) Reset(context.Context) error     { return f.act("reset", true) }
func (f *fake) Shutdown(context.Context) error  { return f.act("shutdown", false) }
func (f *fake) Restart(context.Context) error   { return f.act("restart", true) }
func (f *fake) Interrupt(context.Context) error { return f.act("nmi", true) }
func (f *fake) Starts() uint64                  { f.mu.Lock(); defer f.mu.Unlock(); return f.starts }
func (f *fake) BootOverride() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.device, f.once
}
func (f *fake) SetBootOverride(device string, once bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.device, f.once = device, once
	return nil
}

func serve(t *testing.T) (*BMC, *fake, string) {
	t.Helper()
	computer := &fake{}
	b, err := New(Config{
		Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", UUID: "4c4c4544-0000-2010-8020-80c04f000001",
		Manufacturer: "Ironyard", Product: "Virtual Rack", Serial: "S1", MAC: "52:54:00:00:00:01", MemoryMiB: 1024,
	}, computer)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b, computer, l.Addr().String()
}

func connect(t *testing.T, address string, basic bool) *schemas.ComputerSystem {
	t.Helper()
	c, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true, BasicAuth: basic})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Logout)
	systems, err := c.Service.Systems()
	if err != nil || len(systems) != 1 {
		t.Fatalf("%d systems, %v", len(systems), err)
	}
	return systems[0]
}

func TestGofish(t *testing.T) {
	t.Parallel()
	for _, basic := range []bool{false, true} {
		b, computer, address := serve(t)
		s := connect(t, address, basic)
		if s.PowerState != schemas.OffPowerState || s.SerialNumber != "S1" || gofish.Deref(s.MemorySummary.TotalSystemMemoryGiB) != 1 {
			t.Errorf("system %+v", s)
		}
		nics, err := s.EthernetInterfaces()
		if err != nil || len(nics) != 1 || nics[0].MACAddress != "52:54:00:00:00:01" {
			t.Errorf("network cards %v, %v", nics, err)
		}
		managers, err := s.ManagedBy()
		if err != nil || len(managers) != 1 {
			t.Errorf("managers %v, %v", managers, err)
		}
		if err := s.SetBoot(&schemas.Boot{BootSourceOverrideTarget: "Pxe", BootSourceOverrideEnabled: "Once"}); err != nil {
			t.Fatal(err)
		}
		if device, once := computer.BootOverride(); device != Network || !once {
			t.Errorf("override %q, once %t", device, once)
		}
		// The state changed, so the tag that s still has is old.
		if err := s.SetBoot(&schemas.Boot{BootSourceOverrideTarget: "Hdd"}); err == nil {
			t.Error("a write with an old ETag passed")
		}
		for _, kind := range []schemas.ResetType{"On", "ForceRestart", "GracefulRestart", "PowerCycle", "Nmi", "GracefulShutdown", "On", "ForceOff"} {
			if _, err := connect(t, address, true).Reset(kind); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if got := strings.Join(computer.calls, " "); got != "start reset restart reset nmi shutdown start stop" {
			t.Errorf("computer was told: %s", got)
		}
		if n := len(b.Journal.Matching("ComputerSystem.Reset")); n != 8 {
			t.Errorf("journal has %d resets, want 8", n)
		}
		for _, w := range b.Journal.Writes() {
			if strings.Contains(w.Body, "secret-word") {
				t.Error("the journal holds a password")
			}
		}
	}
}

// ask sends one request straight to the service's handler.
func ask(b *BMC, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if len(header) == 0 {
		r.SetBasicAuth("admin", "secret-word")
	}
	w := httptest.NewRecorder()
	b.noted(http.HandlerFunc(b.answer)).ServeHTTP(w, r)
	return w
}

func TestRefusals(t *testing.T) {
	b, computer, _ := serve(t)
	reset := systemPath + "/Actions/ComputerSystem.Reset"
	for _, c := range []struct {
		method, path, body string
		want               int
		header             []string
	}{
		{"GET", "/redfish/v1/", "", 200, []string{"X-None", ""}},
		{"GET", systemPath, "", 401, []string{"X-None", ""}},
		{"GET", systemPath, "", 401, []string{"X-Auth-Token", "made-up"}},
		{"GET", "/redfish/v1/Nothing", "", 404, nil},
		{"PUT", systemPath, "{}", 405, nil},
		{"POST", sessionsPath, `{"UserName":"admin","Password":"wrong"}`, 401, []string{"X-None", ""}},
		{"POST", reset, `{"ResetType":"Explode"}`, 400, nil},
		{"POST", reset, `{"ResetType":`, 400, nil},
		{"POST", reset, `{"ResetType":"ForceRestart"}`, 409, nil},
		{"PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Floppy"}}`, 400, nil},
		{"PATCH", systemPath, `{"Boot":{"BootSourceOverrideMode":"Legacy"}}`, 400, nil},
		{"PATCH", systemPath, `{"AssetTag":"x"}`, 400, nil},
		{"PATCH", systemPath, strings.Repeat(" ", maxBody+1), 413, nil},
		{"DELETE", sessionsPath + "/none", "", 404, nil},
	} {
		w := ask(b, c.method, c.path, c.body, c.header...)
		if w.Code != c.want || c.want >= 400 && !strings.Contains(w.Body.String(), "@Message.ExtendedInfo") {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.want)
		}
	}
	if len(computer.calls) != 0 {
		t.Errorf("refused requests reached the computer: %v", computer.calls)
	}
	computer.err = errors.New("no fuse")
	if w := ask(b, "POST", reset, `{"ResetType":"On"}`); w.Code != 500 || !strings.Contains(w.Body.String(), "no fuse") {
		t.Errorf("failed action: %d %s", w.Code, w.Body)
	}
	computer.on, computer.err = true, fmt.Errorf("no such wire: %w", errors.ErrUnsupported)
	if w := ask(b, "POST", reset, `{"ResetType":"Nmi"}`); w.Code != 400 || !strings.Contains(w.Body.String(), "no such wire") {
		t.Errorf("an action that the computer cannot do: %d %s", w.Code, w.Body)
	}
}

func TestSessionsAreScarce(t *testing.T) {
	b, _, _ := serve(t)
	login := func() *httptest.ResponseRecorder {
		return ask(b, "POST", sessionsPath, `{"UserName":"admin","Password":"secret-word"}`)
	}
	first := login()
	for range maxSessions - 1 {
		login()
	}
	if w := login(); w.Code != http.StatusServiceUnavailable {
		t.Errorf("session above the limit: %d", w.Code)
	}
	token := first.Header().Get("X-Auth-Token")
	if w := ask(b, "DELETE", first.Header().Get("Location"), "", "X-Auth-Token", token); w.Code != http.StatusNoContent {
		t.Errorf("delete: %d", w.Code)
	}
	if w := ask(b, "GET", systemPath, "", "X-Auth-Token", token); w.Code != http.StatusUnauthorized {
		t.Errorf("deleted session: %d", w.Code)
	}
	if w := login(); w.Code != http.StatusCreated {
		t.Errorf("session after one was closed: %d", w.Code)
	}
}

func TestFaults(t *testing.T) {
	b, _, address := serve(t)
	dial := func() error {
		c, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true})
		if err == nil {
			c.Logout()
		}
		return err
	}
	for what, fault := range map[string]func(bool){
		"refuse":      b.Faults.Refuse,
		"credentials": b.Faults.RejectCredentials,
		"500": func(on bool) {
			if on {
				b.Faults.Fail(1)
			}
		},
	} {
		fault(true)
		if dial() == nil {
			t.Errorf("%s: connected all the same", what)
		}
		fault(false)
		if err := dial(); err != nil {
			t.Errorf("%s: not healed: %v", what, err)
		}
	}
	b.Faults.Hang(true)
	client := &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	began := time.Now()
	resp, err := client.Get("https://" + address + "/redfish/v1/")
	var timeout interface{ Timeout() bool }
	if err == nil {
		resp.Body.Close()
		t.Error("hang: answered all the same")
	} else if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) < client.Timeout {
		t.Errorf("hang: %v after %v, want silence until the client's time-out", err, time.Since(began))
	}
	b.Faults.Hang(false)
	if resp, err = client.Get("https://" + address + "/redfish/v1/"); err != nil {
		t.Errorf("hang: not healed: %v", err)
	} else {
		resp.Body.Close()
	}
}

func FuzzRequestBodies(f *testing.F) {
	b, err := New(Config{Username: "admin", Password: "secret-word"}, &equipped{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"Boot":{"BootSourceOverrideTarget":"Pxe"}}`, `{"ResetType":"On"}`, `{"SecureBootEnable":true}`, `{"ResetKeysType":"DeletePK"}`, `{"Image":"http://x/a"}`,
		`{"iSCSIBoot":{"InitiatorName":"i","PrimaryTargetName":"t","PrimaryTargetIPAddress":"10.0.0.1","InitiatorIPAddress":"fd00::1","InitiatorNetmask":"ffff::"}}`,
		`{"CertificateType":"PEM","CertificateString":"-----BEGIN CERTIFICATE-----"}`, `{"Boot":{"BootOrder":["Boot0001"]}}`, `{"Boot":null}`, `null`, `[]`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, to := range []struct{ method, path string }{
			{"PATCH", systemPath}, {"POST", systemPath + "/Actions/ComputerSystem.Reset"}, {"PATCH", secureBootPath},
			{"POST", secureBootPath + "/Actions/SecureBoot.ResetKeys"}, {"PATCH", settingsPath}, {"POST", cdPath + "/Actions/VirtualMedia.InsertMedia"},
			{"POST", cdPath + "/Actions/VirtualMedia.EjectMedia"}, {"POST", databasesPath + "/db/Certificates"},
		} {
			if w := ask(b, to.method, to.path, body); w.Code >= 500 {
				t.Errorf("%s %s with %q: %d", to.method, to.path, body, w.Code)
			}
		}
	})
}
