package rpc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bmc-toolbox/bmclib/v2/providers/rpc"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double is a service for two machines. bmclib's own client takes it for one (TestAnotherClient).
type double struct {
	*drivertest.Web
	secret  string
	refused int
	on      map[string]bool
	told    []string
	fail    bool
	noCode  bool // of that failure
}

func newDouble(t *testing.T) *double {
	d := &double{secret: "s3cret", on: map[string]bool{"web1": false, "web2": false}}
	d.Web = drivertest.NewWeb(t, false, d.answer)
	return d
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	short, long := hmac.New(sha256.New, []byte(d.secret)), hmac.New(sha512.New, []byte(d.secret))
	short.Write(body)
	long.Write(body)
	signed := r.Header.Get("X-BMCLIB-Signature-256") == "sha256="+hex.EncodeToString(short.Sum(nil)) || r.Header.Get("X-BMCLIB-Signature-512") == "sha512="+hex.EncodeToString(long.Sum(nil))
	var m struct {
		ID           int64
		Host, Method string
		Params       map[string]any
	}
	say := func(status int, v map[string]any) {
		v["id"], v["host"] = m.ID, m.Host
		raw, _ := json.Marshal(v)
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		w.WriteHeader(status)
		_, _ = w.Write(raw)
	}
	problem := func(code int, text string) map[string]any {
		return map[string]any{"error": map[string]any{"code": code, "message": text}}
	}
	_, known := d.on[m.Host]
	if signed && json.Unmarshal(body, &m) == nil {
		_, known = d.on[m.Host]
	}
	switch {
	case !signed:
		d.refused++
		say(http.StatusUnauthorized, problem(401, "bad signature"))
	case r.URL.Path != "/hook" || !known:
		say(http.StatusOK, problem(404, "no such machine"))
	case m.Method == "ping":
		say(http.StatusOK, map[string]any{"result": "pong"})
	case m.Method == "getPowerState":
		d.Read()
		say(http.StatusOK, map[string]any{"result": map[bool]string{true: "on", false: "off"}[d.on[m.Host]]})
	case d.fail:
		code := 7
		if d.noCode {
			code = 0
		}
		say(http.StatusOK, problem(code, "the relay is stuck"))
	case m.Method == "setPowerState":
		state, _ := m.Params["state"].(string)
		d.told = append(d.told, m.Host+" "+state)
		d.on[m.Host] = state == "on" || state == "cycle"
		d.Wrote()
		say(http.StatusOK, map[string]any{})
	case m.Method == "setBootDevice":
		d.told = append(d.told, fmt.Sprintf("%s boots %v %v %v", m.Host, m.Params["device"], m.Params["persistent"], m.Params["efiBoot"]))
		d.Wrote()
		say(http.StatusOK, map[string]any{})
	default:
		say(http.StatusOK, problem(400, "no method "+m.Method))
	}
}

func (d *double) node(more map[string]any) *node.Document {
	info := map[string]any{fieldURL: d.Server.URL + "/hook", fieldMachine: "web1", fieldSecret: "s3cret"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "one", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		s, d := newDouble(t), newDriver(t)
		m := s.Play(&drivertest.Machine{Power: d, Management: d, Node: s.node(nil), Deferred: true, Secret: "s3cret", Without: map[string]string{"Sessions": "each request is signed", "Forget": "rackd keeps the boot device and tells it before each start"}})
		m.Second = func() *node.Document {
			n := s.node(map[string]any{fieldMachine: "web2"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
		m.Deny = func() { s.Set(func() { s.secret = "an0ther" }) }
		m.Logins = func() (n int) { s.Set(func() { n = s.refused }); return n }
		m.Corrected = func() *node.Document { return s.node(map[string]any{fieldSecret: "an0ther"}) }
		return m
	})
}

// bmclib's client, which is not ours, takes the double for a service of its kind.
func TestAnotherClient(t *testing.T) {
	s := newDouble(t)
	client := rpc.New(s.Server.URL+"/hook", "web2", rpc.Secrets{rpc.SHA256: {"s3cret"}})
	client.HTTPClient = s.Server.Client()
	if err := client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, err := client.BootDeviceSet(t.Context(), "pxe", true, true); err != nil || !ok {
		t.Error(err)
	}
	if ok, err := client.PowerSet(t.Context(), "on"); err != nil || !ok {
		t.Error(err)
	}
	if is, err := client.PowerStateGet(t.Context()); err != nil || is != "on" || s.on["web1"] {
		t.Errorf("it reads %q, %v", is, err)
	}
	if want := []string{"web2 boots pxe true true", "web2 on"}; !slices.Equal(s.told, want) {
		t.Errorf("it told %q, want %q", s.told, want)
	}
}

func TestBootDevicesAreToldBeforeStarts(t *testing.T) {
	s, d := newDouble(t), newDriver(t)
	n, f := s.node(map[string]any{fieldAlgorithm: "sha512"}), &drivertest.Fence{}
	for _, err := range []error{d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false), d.SetPower(t.Context(), f, n, driver.PowerOn), d.SetPower(t.Context(), f, n, driver.Rebooting),
		d.SetBootDevice(t.Context(), f, n, driver.BootDisk, true), d.SetPower(t.Context(), f, n, driver.SoftPowerOff), d.SetPower(t.Context(), f, n, driver.Rebooting)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"web1 boots pxe false true", "web1 on", "web1 cycle", "web1 soft", "web1 boots disk true true", "web1 on"}; !slices.Equal(s.told, want) {
		t.Errorf("told %q, want %q", s.told, want)
	}
	s.Set(func() { s.fail = true })
	if err := d.SetPower(t.Context(), f, n, driver.PowerOff); err == nil || !strings.Contains(err.Error(), "error 7: the relay is stuck") {
		t.Errorf("%v", err)
	}
	s.Set(func() { s.noCode = true })
	if err := d.SetPower(t.Context(), f, n, driver.PowerOff); err == nil || !strings.Contains(err.Error(), "the relay is stuck") {
		t.Errorf("an error without a code: %v", err)
	}
	s.Set(func() { s.noCode = false })
	if _, err := d.PowerState(t.Context(), s.node(map[string]any{fieldMachine: "none"})); err == nil || !strings.Contains(err.Error(), "no such machine") {
		t.Errorf("%v", err)
	}
}

func TestValidate(t *testing.T) {
	s, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldSecret: nil, fieldURL: "https://127.0.0.1/hook?a=b"}, ""},
		{map[string]any{fieldMachine: ""}, "The following parameters are missing in driver_info: ['rpc_host']"},
		{map[string]any{fieldURL: "http://admin:s3cret@127.0.0.1"}, "rpc_url is no URL of a service"},
		{map[string]any{fieldURL: "http://192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldAlgorithm: "md5"}, "give sha256 or sha512"},
	} {
		err := d.Validate(s.node(x.more))
		switch {
		case x.says == "" && err != nil:
			t.Errorf("%v: %v", x.more, err)
		case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
		}
	}
}

// The machines of a service share its account: its secret, which the service refuses for all of them or for none.
func TestMachinesOfAServiceShareItsAccount(t *testing.T) {
	s, d := newDouble(t), newDriver(t)
	one, two := s.node(nil), s.node(map[string]any{fieldMachine: "web2"})
	if a := d.Account(one); a == "" || a != d.Account(two) || strings.Contains(a, "s3cret") {
		t.Errorf("accounts %q and %q", a, d.Account(two))
	}
	for name, other := range map[string]map[string]any{"secret": {fieldSecret: "an0ther"}, "path": {fieldURL: s.Server.URL + "/other"}, "algorithm": {fieldAlgorithm: "sha512"}} {
		if d.Account(one) == d.Account(s.node(other)) {
			t.Errorf("another %s, and the same account", name)
		}
	}
	if a := d.Account(&node.Document{}); a != "" {
		t.Errorf("a node without a service has the account %q", a)
	}
	wrong := func(machine string) error {
		_, err := d.PowerState(t.Context(), s.node(map[string]any{fieldSecret: "an0ther", fieldMachine: machine}))
		return err
	}
	for _, machine := range []string{"web1", "web2", "web1"} {
		if err := wrong(machine); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("%s, with a wrong secret: %v", machine, err)
		}
	}
	s.Set(func() {
		if s.refused != 1 {
			t.Errorf("the service has refused %d requests, want one: the secret rests for all machines", s.refused)
		}
	})
}
