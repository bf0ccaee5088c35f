package msftocs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double is a Chassis Manager with two blades, which answers in the words and the namespace of its contracts.
type double struct {
	*drivertest.Web
	password string
	refused  int
	state    map[string]string
	next     map[string]string
	asked    []string // orders
	code     string   // of the next answer
}

func newDouble(t *testing.T) *double {
	d := &double{password: "s3cret", state: map[string]string{"1": "OFF", "2": "OFF"}, next: map[string]string{"1": "NoOverride", "2": "NoOverride"}}
	d.Web = drivertest.NewWeb(t, false, d.answer)
	return d
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != "admin" || password != d.password {
		d.refused++
		w.Header().Set("WWW-Authenticate", `Basic realm=""`)
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	q := r.URL.Query()
	blade, method := q.Get("bladeId"), strings.TrimPrefix(r.URL.Path, "/api/")
	say := func(kind, code, rest string) {
		_, _ = fmt.Fprintf(w, `<%s xmlns="http://schemas.datacontract.org/2004/07/Microsoft.GFS.WCS.Contracts" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">`+
			`<completionCode>%s</completionCode><apiVersion>1</apiVersion><statusDescription>%s</statusDescription><bladeNumber>%s</bladeNumber>%s</%s>`, kind, code, "as it says", blade, rest, kind)
	}
	if d.state[blade] == "" {
		say("BladeResponse", "ParameterOutOfRange", "")
		return
	}
	if code := d.code; code != "" && !strings.HasPrefix(method, "Get") {
		d.code = ""
		say("BladeResponse", code, "")
		return
	}
	switch method {
	case "GetBladeState":
		d.Read()
		say("BladeStateResponse", "Success", "<bladeState>"+d.state[blade]+"</bladeState>")
		return
	case "GetNextBoot":
		d.Read()
		say("BootResponse", "Success", "<nextBoot>"+d.next[blade]+"</nextBoot>")
		return
	case "SetBladeOn", "SetBladeActivePowerCycle":
		d.state[blade] = "ON"
	case "SetBladeOff":
		d.state[blade] = "OFF"
	case "SetNextBoot":
		d.next[blade] = map[string]string{"2": "ForcePxe", "3": "ForceDefaultHdd", "4": "ForceIntoBiosSetup"}[q.Get("bootType")]
	default:
		http.NotFound(w, r)
		return
	}
	d.asked = append(d.asked, method+"?"+r.URL.RawQuery)
	d.Wrote()
	say("BladeResponse", "Success", "")
}

func (d *double) node(more map[string]any) *node.Document {
	info := map[string]any{fieldURL: d.Server.URL + "/api", fieldBlade: 1, fieldUser: "admin", fieldPassword: "s3cret"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		c, d := newDouble(t), newDriver(t)
		m := c.Play(&drivertest.Machine{Power: d, Management: d, Node: c.node(nil), Lasting: true, Secret: "s3cret", Without: map[string]string{"Sessions": "each request has the password"}})
		m.Second = func() *node.Document {
			n := c.node(map[string]any{fieldBlade: "2"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
		m.Deny = func() { c.Set(func() { c.password = "an0ther" }) }
		m.Logins = func() (n int) { c.Set(func() { n = c.refused }); return n }
		m.Forget = func() { c.Set(func() { c.next["1"] = "NoOverride" }) }
		m.Corrected = func() *node.Document { return c.node(map[string]any{fieldPassword: "an0ther"}) }
		return m
	})
}

func TestTwoBladesOfOneChassis(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	f, two := &drivertest.Fence{}, c.node(map[string]any{fieldBlade: "2"})
	for _, err := range []error{d.SetBootDevice(t.Context(), f, two, driver.BootPXE, false), d.SetPower(t.Context(), f, two, driver.PowerOn), d.SetPower(t.Context(), f, two, driver.Rebooting)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "SetNextBoot?bladeId=2&bootType=2&uefi=true&persistent=true SetBladeOn?bladeId=2 SetBladeActivePowerCycle?bladeId=2&offTime=0"
	if got := strings.Join(c.asked, " "); got != want || c.state["1"] != "OFF" || c.next["1"] != "NoOverride" {
		t.Errorf("it was asked for %s", got)
	}
}

func TestCompletionCodes(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	for code, want := range map[string]error{"Timeout": driver.ErrUnknown, "ParameterOutOfRange": driver.ErrInvalid, "CommandNotValidForBlade": driver.ErrUnsupported} {
		c.Set(func() { c.code = code })
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, c.node(nil), driver.PowerOn); !errors.Is(err, want) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
	}
	if _, err := d.PowerState(t.Context(), c.node(map[string]any{fieldBlade: 9})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "check msftocs_blade_id") {
		t.Errorf("a blade that is not there: %v", err)
	}
}

func TestValidate(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldUser: "", fieldBlade: nil}, "The following parameters were missing: msftocs_blade_id msftocs_username"},
		{map[string]any{fieldURL: "10.0.0.1"}, `"10.0.0.1" is not a valid "msftocs_base_url"`},
		{map[string]any{fieldURL: "http://admin:s3cret@127.0.0.1"}, "msftocs_base_url holds a user or a password"},
		{map[string]any{fieldURL: "http://192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldBlade: "one"}, `"one" is not a valid "msftocs_blade_id"`},
		{map[string]any{fieldBlade: "0"}, "must be greater than 0. The provided value is: 0"},
	} {
		err := d.Validate(c.node(x.more))
		switch {
		case x.says == "" && err != nil:
			t.Errorf("%v: %v", x.more, err)
		case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
		}
	}
}
