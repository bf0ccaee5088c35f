package seamicro

import (
	"context"
	"encoding/json"
	"errors"
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

// double is a chassis with two servers, made from what the vendor's client sends and takes.
type double struct {
	*drivertest.Web
	password string
	refused  int
	mute     bool // it does not tell its boot orders
	active   map[string]bool
	order    map[string]string
	vlan     map[string]string
	disk     map[string]string
	volumes  map[string]string // and their sizes
	soft     int
}

func newDouble(t *testing.T) *double {
	d := &double{password: "s3cret", active: map[string]bool{"0/0": false, "1/0": false}, order: map[string]string{"0/0": "hd0", "1/0": "hd0"},
		vlan: map[string]string{"1/0": "12"}, disk: map[string]string{}, volumes: map[string]string{"0/ironic-p0/vol1": "20", "0/other/vol2": "20"}}
	d.Web = drivertest.NewWeb(t, false, d.answer)
	return d
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if r.Method == http.MethodPut {
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
	} else {
		body = map[string]any{"username": r.URL.Query().Get("username"), "password": r.URL.Query().Get("password")}
	}
	if body["username"] != "admin" || body["password"] != d.password {
		d.refused++
		http.Error(w, "no user with "+r.URL.RawQuery, http.StatusUnauthorized)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v2.0")
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if !ok || len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	say := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	if r.Method == http.MethodGet {
		d.Read()
	}
	if parts[0] == "storage" {
		id := strings.Join(parts[2:], "/")
		switch {
		case r.Method == http.MethodGet && parts[1] == "pools":
			say(map[string]any{"0/ironic-p0": map[string]any{"freeSize": 10}, "0/ironic-p1": map[string]any{"freeSize": 90}, "0/other": map[string]any{"freeSize": 900}})
		case r.Method == http.MethodGet && d.volumes[id] != "":
			say(map[string]any{"size": d.volumes[id]})
		case r.Method == http.MethodPut && body["action"] == "create":
			d.volumes[id], _ = body["volume-size"].(string)
			d.Wrote()
			say(map[string]any{id: map[string]any{}})
		default:
			http.NotFound(w, r)
		}
		return
	}
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	id, rest := parts[1]+"/"+parts[2], strings.Join(parts[3:], "/")
	if _, known := d.active[id]; !known {
		http.NotFound(w, r)
		return
	}
	switch {
	case r.Method == http.MethodGet && parts[0] == "server" && rest == "bios/bootOrder" && !d.mute:
		say(d.order[id] + " pxe,hd0,hd1")
	case r.Method == http.MethodGet && parts[0] == "servers" && rest == "":
		say(map[string]any{"active": d.active[id], "nic": map[string]any{"0": map[string]any{"untaggedVlan": d.vlan[id]}}, "vdisk": map[string]any{"0": d.disk[id]}})
	case r.Method == http.MethodGet && parts[0] == "servers" && rest == "nic":
		say(map[string]any{"0": map[string]any{"untaggedVlan": d.vlan[id]}})
	case r.Method == http.MethodPut && rest == "nic/0/untaggedVlan":
		if body["remove"] == d.vlan[id] {
			d.vlan[id] = ""
		} else if add, ok := body["add"].(string); ok && d.vlan[id] == "" {
			d.vlan[id] = add
		}
		d.Wrote()
	case r.Method == http.MethodPut && rest == "vdisk/0" && d.disk[id] == "":
		d.disk[id], _ = body["value"].(string)
		d.Wrote()
	case r.Method == http.MethodDelete && rest == "vdisk/0":
		d.disk[id] = ""
		d.Wrote()
	case r.Method == http.MethodPut && rest == "":
		action, _ := body["action"].(string)
		if action == "" {
			action = r.URL.Query().Get("action")
		}
		switch action {
		case "power-on", "reset":
			d.active[id] = true
		case "power-off":
			d.active[id] = false
			if r.URL.Query().Get("force") != "true" {
				d.soft++
			}
		case "set-bios-boot-order":
			order, _ := body["boot-order"].(string)
			d.order[id], _, _ = strings.Cut(order, " ")
		default:
			http.Error(w, "no such action", http.StatusBadRequest)
			return
		}
		d.Wrote()
		say(map[string]any{})
	default:
		http.NotFound(w, r)
	}
}

func (d *double) node(more map[string]any) *node.Document {
	info := map[string]any{fieldEndpoint: d.Server.URL + "/v2.0", fieldUser: "admin", fieldPassword: "s3cret", fieldServer: "1/0"}
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
			n := c.node(map[string]any{fieldServer: "0/0"})
			n.UUID, n.Name = "b3d2", "web2"
			return n
		}
		m.Deny = func() { c.Set(func() { c.password = "an0ther" }) }
		m.Logins = func() (n int) { c.Set(func() { n = c.refused }); return n }
		m.Forget = func() { c.Set(func() { c.order["1/0"] = "hd0" }) }
		m.Corrected = func() *node.Document { return c.node(map[string]any{fieldPassword: "an0ther"}) }
		return m
	})
}

func TestTwoServersOfOneChassis(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	f := &drivertest.Fence{}
	for _, step := range []error{d.SetPower(t.Context(), f, c.node(nil), driver.PowerOn), d.SetBootDevice(t.Context(), f, c.node(nil), driver.BootPXE, false),
		d.SetPower(t.Context(), f, c.node(nil), driver.SoftPowerOff), d.SetPower(t.Context(), f, c.node(nil), driver.Rebooting)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	c.Set(func() {
		if !c.active["1/0"] || c.active["0/0"] || c.order["1/0"] != "pxe,hd0" || c.order["0/0"] != "hd0" || c.soft != 1 {
			t.Errorf("power %v, boot orders %v, %d soft", c.active, c.order, c.soft)
		}
		c.mute = true
	})
	if is, err := d.BootDevice(t.Context(), c.node(nil)); err != nil || is.Device != "" {
		t.Errorf("a chassis that tells no order: %+v, %v", is, err)
	}
	if err := d.SetBootDevice(t.Context(), f, c.node(nil), driver.BootDisk, true); err != nil || c.order["1/0"] != "hd0" {
		t.Errorf("%v, %q", err, c.order["1/0"])
	}
}

func TestVendorMethods(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	v, f, n := Vendor{d}, &drivertest.Fence{}, c.node(nil)
	call := func(name string, args map[string]any) error {
		for _, m := range v.VendorMethods() {
			if m.Name == name {
				if err := m.Check(n, args); err != nil {
					return err
				}
				_, err := m.Call(t.Context(), f, n, args)
				return err
			}
		}
		t.Fatalf("there is no %s", name)
		return nil
	}
	for _, bad := range []struct {
		method string
		args   map[string]any
		says   string
	}{
		{"set_node_vlan_id", nil, "No vlan id provided"}, {"set_node_vlan_id", map[string]any{argVLAN: "many"}, "give a number"},
		{"attach_volume", nil, "No volume size provided"}, {"attach_volume", map[string]any{argVolume: "0/other/vol2"}, "Invalid volume id specified"},
		{"attach_volume", map[string]any{argVolume: "0/ironic-p0/../../x"}, "Invalid volume id specified"},
		{"attach_volume", map[string]any{argVolume: "0/ironic-p0/vol1", "force": true}, "unknown argument"},
	} {
		if err := call(bad.method, bad.args); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s %v: %v, want %q", bad.method, bad.args, err, bad.says)
		}
	}
	if err := call("set_node_vlan_id", map[string]any{argVLAN: float64(13)}); err != nil || c.vlan["1/0"] != "13" {
		t.Errorf("VLAN %q: %v", c.vlan["1/0"], err)
	}
	if err := call("attach_volume", map[string]any{argVolume: "0/ironic-p0/vol1"}); err != nil || c.disk["1/0"] != "0/ironic-p0/vol1" {
		t.Errorf("volume %q: %v", c.disk["1/0"], err)
	}
	if err := call("attach_volume", map[string]any{argSize: "30"}); err != nil || !strings.HasPrefix(c.disk["1/0"], "0/ironic-p1/") || c.volumes[c.disk["1/0"]] != "30" {
		t.Errorf("new volume %q of %q: %v", c.disk["1/0"], c.volumes[c.disk["1/0"]], err)
	}
	if err := call("attach_volume", map[string]any{argVolume: "0/ironic-p0/none"}); err == nil {
		t.Error("a volume that is not there was attached")
	}
}

func TestValidate(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldVersion: "2", fieldEndpoint: "https://127.0.0.1"}, ""},
		{map[string]any{fieldUser: ""}, "SeaMicro driver requires the following parameters to be set in node's driver_info: ['seamicro_username']."},
		{map[string]any{fieldServer: "one"}, "Expected format of 'seamicro_server_id' is <int>/<int>"},
		{map[string]any{fieldEndpoint: "ftp://127.0.0.1"}, "Invalid 'seamicro_api_endpoint' parameter"},
		{map[string]any{fieldEndpoint: "http://admin:s3cret@127.0.0.1"}, "Invalid 'seamicro_api_endpoint' parameter"},
		{map[string]any{fieldEndpoint: "http://192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldVersion: "3"}, "Invalid 'seamicro_api_version' parameter."},
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
