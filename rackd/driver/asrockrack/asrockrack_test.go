package asrockrack

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		b, d := newDouble(t), newDriver(t)
		m := b.Play(&drivertest.Machine{Power: d, Management: Management{Driver: d}, Node: b.node(nil), Secret: b.password, Without: map[string]string{"Second": "a board's BMC has one machine"}})
		m.Deny = func() { b.Set(func() { b.password = "an0ther"; clear(b.sessions) }) }
		m.Logins = func() (n int) { b.Set(func() { n = b.refused }); return n }
		m.Sessions = func() (n int) { b.Set(func() { n = len(b.sessions) }); return n }
		m.Corrected = func() *node.Document { return b.node(map[string]any{fieldPassword: "an0ther"}) }
		return m
	})
}

// What the recorded board tells of itself.
func TestRecordedBoard(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	m := Management{Driver: d}
	id, err := m.Identity(t.Context(), b.node(nil))
	if want := (driver.Identity{Manufacturer: "ASRockRack", Model: "E3C246D4I-NL", Serial: "197965920000514"}); err != nil || id != want {
		t.Errorf("identity %+v, %v; want %+v", id, err, want)
	}
	if vendor, err := m.DetectVendor(t.Context(), b.node(nil)); err != nil || vendor != "ASRockRack" {
		t.Errorf("vendor %q, %v", vendor, err)
	}
	health := func(want string) {
		t.Helper()
		if is, err := m.Health(t.Context(), b.node(nil)); err != nil || is != want {
			t.Errorf("health %q, %v; want %q", is, err, want)
		}
	}
	health("OK")
	said := b.said["sensors"]
	b.Set(func() {
		b.answers["/api/sensors"] = func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(strings.Replace(string(said), `"name": "CPU_THERMTRIP"`, `"name": "CPU_THERMTRIP", "was": 0`, 1)))
		}
	})
	health("OK")
	b.Set(func() {
		b.answers["/api/sensors"] = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`[{"name": "CPU_THERMTRIP", "sensor_state": 1}]`)) }
	})
	health("Critical")
	b.Set(func() {
		b.answers["/api/sensors"] = func(w http.ResponseWriter) { http.Error(w, "none now", http.StatusNotFound) }
	})
	health("")
	b.Set(func() {
		if len(b.sessions) != 1 || b.opened != 1 {
			t.Errorf("%d logins, %d sessions; want one", b.opened, len(b.sessions))
		}
	})
}

// The numbers of the provider's orders, and that a boot device changes nothing.
func TestOrders(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	f, n := &drivertest.Fence{}, b.node(nil)
	for _, target := range []driver.PowerState{driver.PowerOn, driver.Rebooting, driver.SoftPowerOff, driver.Rebooting, driver.PowerOff} {
		if err := d.SetPower(t.Context(), f, n, target); err != nil {
			t.Fatalf("%s: %v", target, err)
		}
	}
	m := Management{Driver: d}
	if err := m.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil {
		t.Error(err)
	}
	if err := m.SetBootDevice(t.Context(), f, n, "cdrom", false); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Invalid boot device cdrom") {
		t.Errorf("a CD: %v", err)
	}
	if err := m.SetBootMode(t.Context(), f, n, "uefi"); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "another management_interface may") {
		t.Errorf("a boot mode: %v", err)
	}
	b.Set(func() {
		if want := []int{1, 3, 5, 1, 0}; !slices.Equal(b.orders, want) {
			t.Errorf("orders %v, want %v", b.orders, want)
		}
	})
}

// What a BMC answers that is no success, or that the provider would read as one.
func TestWhatABMCMayAnswer(t *testing.T) {
	say := func(code int, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code); _, _ = w.Write([]byte(text)) }
	}
	for name, c := range map[string]struct {
		at     string
		answer func(http.ResponseWriter)
		read   bool // the power state, else an order to switch on
		want   error
		says   string
	}{
		"another board":              {"/api/fru", say(200, `[{"board": {"product_name": "X570D4U"}}]`), true, driver.ErrUnsupported, "X570D4U): use another hardware type"},
		"no FRU":                     {"/api/fru", say(200, `[]`), true, nil, "no FRU data returned"},
		"a login without a token":    {loginPath, say(200, `{"ok": 1}`), true, driver.ErrUnreachable, "it answers the login without a token"},
		"a login that fails":         {loginPath, say(500, `{"error": "no room"}`), true, nil, "no room"},
		"a login that has no right":  {loginPath, say(403, `{"error": "not by this way"}`), true, driver.ErrDenied, "HTTP 403: "},
		"a login while it starts":    {loginPath, say(503, "starting"), true, driver.ErrUnreachable, "is busy, it answered HTTP 503: starting"},
		"a page":                     {"/api/chassis-status", say(200, "<html>starting</html>"), true, driver.ErrUnreachable, "starting"},
		"no state":                   {"/api/chassis-status", say(200, `{}`), true, nil, "no power_status"},
		"an unknown state":           {"/api/chassis-status", say(200, `{"power_status": 7}`), true, nil, "unknown status: 7"},
		"busy":                       {"/api/chassis-status", say(503, "later"), true, driver.ErrUnreachable, "is busy, it answered HTTP 503: later"},
		"no right to read":           {"/api/chassis-status", say(403, "not you"), true, driver.ErrDenied, "HTTP 403: not you"},
		"an order that is refused":   {"/api/actions/power", say(400, "no"), false, nil, "HTTP 400: no"},
		"an order behind a gateway":  {"/api/actions/power", say(502, "who?"), false, driver.ErrUnknown, "HTTP 502: who?"},
		"an order without the right": {"/api/actions/power", say(403, "not you"), false, driver.ErrDenied, "HTTP 403: not you"},
	} {
		t.Run(name, func(t *testing.T) {
			b, d := newDouble(t), newDriver(t)
			b.Set(func() { b.answers[c.at] = c.answer })
			var err error
			if c.read {
				_, err = d.PowerState(t.Context(), b.node(nil))
			} else {
				err = d.SetPower(t.Context(), &drivertest.Fence{}, b.node(nil), driver.PowerOn)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %v that says %q", err, c.want, c.says)
			}
			if c.want == nil && (errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown)) {
				t.Errorf("%v: asking again does not help", err)
			}
			if c.at == loginPath && c.want == driver.ErrDenied {
				_, err := d.PowerState(t.Context(), b.node(nil))
				if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "rackd does not try these credentials again before") || len(b.paths) != 1 {
					t.Errorf("the next call: %v; the BMC was asked %q", err, b.paths)
				}
			}
			_ = d.Close(t.Context())
			b.Set(func() {
				if len(b.sessions) > 0 {
					t.Errorf("%d sessions stay at the BMC", len(b.sessions))
				}
			})
		})
	}
}

// A BMC that repeats what it was sent, or what it gave, has it taken out of errors: passwords in either form, tokens and cookies.
func TestErrorsTellNoSecret(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	for _, at := range []string{"/api/chassis-status", "/api/fru"} {
		b.Set(func() {
			clear(b.sessions)
			clear(b.answers)
			b.answers[at] = func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusBadRequest)
				for cookie, token := range b.sessions {
					_, _ = w.Write([]byte("so says " + cookie + " with " + token + " and " + b.password + ", " + escape(b.password)))
				}
			}
		})
		_, err := d.PowerState(t.Context(), b.node(nil))
		if err == nil || !strings.Contains(err.Error(), "so says") {
			t.Fatalf("%s: %v; want what the BMC says", at, err)
		}
		for _, secret := range []string{"94ed00f482249dd77a", "l5L29IP7", b.password, escape(b.password), "s3cr"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds %q: %v", at, secret, err)
			}
		}
	}
	_, err := d.PowerState(t.Context(), b.node(map[string]any{fieldPassword: "wr0ng&one"}))
	if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestVendorMethods(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	v, f, n := Vendor{d}, &drivertest.Fence{}, b.node(nil)
	call := func(name string, args map[string]any) (any, error) {
		for _, m := range v.VendorMethods() {
			if m.Name == name {
				if err := m.Check(n, args); err != nil {
					return nil, err
				}
				return m.Call(t.Context(), f, n, args)
			}
		}
		t.Fatalf("there is no %s", name)
		return nil, nil
	}
	told, err := call("post_code", nil)
	if is, _ := told.(map[string]any); err != nil || is["code"] != 160 || is["status"] != "grub/os" {
		t.Errorf("POST code %v, %v", told, err)
	}
	b.Set(func() {
		b.answers["/api/asrr/getbioscode"] = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"poststatus": 0}`)) }
	})
	if told, err := call("post_code", nil); err == nil {
		t.Errorf("a BMC that tells no code: %v", told)
	}
	if _, err := call("bmc_reset", map[string]any{"warm": true}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("an argument: %v", err)
	}
	if _, err := call("bmc_reset", nil); err != nil || b.resets != 1 {
		t.Errorf("reset: %v, %d resets", err, b.resets)
	}
	var resting driver.Resting
	if _, err := d.PowerState(t.Context(), n); !errors.As(err, &resting) {
		t.Errorf("a BMC that restarts is asked: %v", err)
	}
}

// Some of these BMCs answer an order to restart with 500, and restart.
func TestResetAnsweredBy500(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	b.Set(func() {
		b.answers["/api/maintenance/reset"] = func(w http.ResponseWriter) { b.resets++; http.Error(w, "", http.StatusInternalServerError) }
	})
	if _, err := (Vendor{d}).resetBMC(t.Context(), &drivertest.Fence{}, b.node(nil), nil); err != nil || b.resets != 1 {
		t.Errorf("%v, %d resets", err, b.resets)
	}
	var resting driver.Resting
	if _, err := d.PowerState(t.Context(), b.node(nil)); !errors.As(err, &resting) {
		t.Errorf("it is asked while it restarts: %v", err)
	}
}

func TestValidate(t *testing.T) {
	b, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldPort: nil, fieldVerifyCA: "false"}, ""},
		{map[string]any{fieldAddress: "[::1]", fieldVerifyCA: "pin"}, "--bmc-networks"},
		{map[string]any{fieldUser: ""}, "Missing are: ['asrockrack_username']"},
		{map[string]any{fieldPassword: "", fieldAddress: ""}, "Missing are: ['asrockrack_address', 'asrockrack_password']"},
		{map[string]any{fieldAddress: "https://127.0.0.1"}, "asrockrack_address is neither a host name nor an address"},
		{map[string]any{fieldPort: "many"}, `asrockrack_port "many" is not a valid integer.`},
		{map[string]any{fieldAddress: "192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldVerifyCA: "-----BEGIN CERTIFICATE-----\nnone"}, fieldVerifyCA},
	} {
		for _, i := range []driver.Interface{d, Management{Driver: d}, Vendor{d}} {
			err := i.Validate(b.node(x.more))
			switch {
			case x.says == "" && err != nil:
				t.Errorf("%v: %v", x.more, err)
			case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cr") || strings.Count(err.Error(), "b3d1") != 1):
				t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
			}
		}
	}
	if b.opened+b.refused > 0 {
		t.Error("Validate asked the BMC")
	}
}
