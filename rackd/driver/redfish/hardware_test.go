package redfish

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// tree is a BMC's resources, which PATCH merges into and POST acts on.
type tree struct {
	mu     sync.Mutex
	at     map[string]map[string]any
	writes []string
}

// newTree returns the resources of a machine with secure boot, a light, a virtual drive
// and an event service.
func newTree() *tree {
	link := func(p string) map[string]any { return map[string]any{"@odata.id": p} }
	const system, drive = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/VirtualMedia/Cd"
	return &tree{at: map[string]map[string]any{
		"/redfish/v1": {"@odata.id": "/redfish/v1", "Systems": link("/redfish/v1/Systems"), "EventService": link("/redfish/v1/EventService"),
			"Links": map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}},
		system: {"@odata.id": system, "Id": "1", "PowerState": "On", "IndicatorLED": "Off", "Status": map[string]any{"Health": "OK", "HealthRollup": "Warning"},
			"Boot": map[string]any{"BootSourceOverrideMode": "UEFI"}, "SecureBoot": link(system + "/SecureBoot"), "VirtualMedia": link(system + "/VirtualMedia")},
		system + "/SecureBoot":   {"@odata.id": system + "/SecureBoot", "SecureBootEnable": false},
		system + "/VirtualMedia": {"Members": []any{link(drive)}, "Members@odata.count": 1},
		drive: {"@odata.id": drive, "Id": "Cd", "MediaTypes": []any{"CD", "DVD"}, "Inserted": false, "Image": "",
			"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": drive + "/Insert"}, "#VirtualMedia.EjectMedia": map[string]any{"target": drive + "/Eject"}}},
		"/redfish/v1/EventService":               {"@odata.id": "/redfish/v1/EventService", "Subscriptions": link("/redfish/v1/EventService/Subscriptions")},
		"/redfish/v1/EventService/Subscriptions": {"Members": []any{}, "Members@odata.count": 0},
	}}
}

func (t *tree) serve(w http.ResponseWriter, r *http.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/")
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(raw)))
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	drive, event := t.at["/redfish/v1/Systems/1/VirtualMedia/Cd"], "/redfish/v1/EventService/Subscriptions"
	if r.Method != http.MethodGet && !strings.Contains(path, "Sessions") {
		t.writes = append(t.writes, r.Method+" "+path)
	}
	switch {
	case r.Method == http.MethodGet && t.at[path] != nil:
		_ = json.NewEncoder(w).Encode(t.at[path])
	case r.Method == http.MethodPatch && t.at[path] != nil:
		for k, v := range body {
			t.at[path][k] = v
		}
		w.WriteHeader(204)
	case strings.HasSuffix(path, "/Insert"):
		drive["Inserted"], drive["Image"] = true, body["Image"]
		w.WriteHeader(204)
	case strings.HasSuffix(path, "/Eject"):
		drive["Inserted"], drive["Image"] = false, ""
		w.WriteHeader(204)
	case r.Method == http.MethodPost && path == event:
		body["Id"], body["@odata.id"], body["Name"] = "7", event+"/7", "subscription"
		t.at[event+"/7"] = body
		w.Header().Set("Location", event+"/7")
		w.WriteHeader(201)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, event) && t.at[path] != nil:
		delete(t.at, path)
		w.WriteHeader(204)
	default:
		return false
	}
	return true
}

func (t *tree) written() []string { t.mu.Lock(); defer t.mu.Unlock(); return t.writes }

func TestSecureBootLightAndHealth(t *testing.T) {
	e, d, f, bmc := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}, newTree()
	n := e.node(nil)
	if _, err := d.SecureBoot(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("secure boot of a machine without: %v, want ErrUnsupported", err)
	}
	if o, err := d.Observe(t.Context(), n); err != nil || o.SecureBoot != nil || o.BootMode == nil || *o.BootMode != "bios" {
		t.Errorf("observed %+v, %v", o, err)
	}
	e.set(func() { e.hook = bmc.serve })
	o, err := d.Observe(t.Context(), n)
	if err != nil || *o.BootMode != "uefi" || *o.Health != "Warning" || *o.SecureBoot {
		t.Fatalf("observed %+v, %v", o, err)
	}
	for range 2 {
		if err := errors.Join(d.SetSecureBoot(t.Context(), f, n, true), d.SetIndicator(t.Context(), f, n, "system", "led", "blinking")); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := bmc.written(), []string{"PATCH /redfish/v1/Systems/1/SecureBoot", "PATCH /redfish/v1/Systems/1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the BMC got %q, want %q", got, want)
	}
	if on, err := d.SecureBoot(t.Context(), n); !on || err != nil {
		t.Errorf("secure boot %t, %v", on, err)
	}
	if light, err := d.Indicator(t.Context(), n, "system", "led"); light != "blinking" || err != nil {
		t.Errorf("light %q, %v", light, err)
	}
	if _, err := d.Indicator(t.Context(), n, "nic", "led"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a light that is not there: %v, want ErrInvalid", err)
	}
	if list, err := d.Indicators(t.Context(), n); err != nil || len(list) != 1 {
		t.Errorf("lights %v, %v", list, err)
	}
}

func TestVirtualMedia(t *testing.T) {
	e, d, f, bmc := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}, newTree()
	n := e.node(nil)
	e.set(func() { e.hook = bmc.serve })
	for _, image := range []string{"http://i/a.iso", "http://i/a.iso", "http://i/b.iso"} {
		if err := d.AttachMedia(t.Context(), f, n, "cdrom", image); err != nil {
			t.Fatal(err)
		}
	}
	const drive = "POST /redfish/v1/Systems/1/VirtualMedia/Cd/"
	if got, want := bmc.written(), []string{drive + "Insert", drive + "Eject", drive + "Insert"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the BMC got %q, want %q", got, want)
	}
	list, err := d.Media(t.Context(), n)
	if err != nil || len(list) != 1 || !list[0].Inserted || list[0].Image != "http://i/b.iso" {
		t.Errorf("media %+v, %v", list, err)
	}
	if err := d.AttachMedia(t.Context(), f, n, "floppy", "http://i/c"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("floppy: %v, want ErrUnsupported", err)
	}
	if err := errors.Join(d.DetachMedia(t.Context(), f, n, []string{"floppy"}), d.DetachMedia(t.Context(), f, n, nil), d.DetachMedia(t.Context(), f, n, nil)); err != nil {
		t.Fatal(err)
	}
	if got := bmc.written(); len(got) != 4 || got[3] != drive+"Eject" {
		t.Errorf("the BMC got %q, want one more Eject", got)
	}
}

// An image that is meant is ejected, others stay. The BMC is read back: one that accepts and does nothing is told of.
func TestEjectImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ours, others = "http://i/ramdisk.iso", "http://i/tools.iso"
		meant := func(image string) bool { return image == ours }
		for name, c := range map[string]struct {
			holds string
			slow  int // reads after which the drive is empty
			deaf  bool
			fails bool
			ends  string
		}{
			"ours": {holds: ours}, "ours, a slow drive": {holds: ours, slow: 3}, "another's": {holds: others, ends: others}, "none": {},
			"a BMC that does nothing": {holds: ours, deaf: true, fails: true, ends: ours},
		} {
			bmc := newTree()
			drive := bmc.at["/redfish/v1/Systems/1/VirtualMedia/Cd"]
			drive["Inserted"], drive["Image"] = c.holds != "", c.holds
			ejected, reads := 0, 0
			empty := func() { drive["Inserted"], drive["Image"] = false, "" }
			client := &http.Client{Transport: answers(func(w http.ResponseWriter, r *http.Request) {
				switch eject := strings.HasSuffix(r.URL.Path, "/Eject"); {
				case eject && (c.deaf || c.slow > 0):
					ejected++
					w.WriteHeader(204)
					return
				case eject:
					ejected++
				case ejected > 0 && c.slow > 0:
					if reads++; reads == c.slow {
						empty()
					}
				}
				bmc.serve(w, r)
			})}
			api, err := gofish.Connect(gofish.ClientConfig{Endpoint: "http://bmc", HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			system, err := readSystem(api, "/redfish/v1/Systems/1")
			if err != nil {
				t.Fatal(err)
			}
			err = ejectImage(t.Context(), api, system, "cdrom", meant)
			if (err != nil) != c.fails || drive["Image"] != c.ends || ejected > 1 || (ejected == 1) != (c.holds == ours) {
				t.Errorf("%s: %v after %d orders; the drive holds %q", name, err, ejected, drive["Image"])
			}
		}
	})
}

// answers is a BMC without a network.
type answers func(w http.ResponseWriter, r *http.Request)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	a(w, r)
	return w.Result(), nil
}

func TestSubscriptions(t *testing.T) {
	e, d, f, bmc := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}, newTree()
	n := e.node(nil)
	e.set(func() { e.hook = bmc.serve })
	call := func(name string, args map[string]any) (any, error) {
		for _, m := range (Vendor{d}).VendorMethods() {
			if m.Name != name {
				continue
			}
			if m.Check != nil {
				if err := m.Check(n, args); err != nil {
					return nil, err
				}
			}
			return m.Call(t.Context(), f, n, args)
		}
		return nil, errors.New("no method " + name)
	}
	for _, bad := range []map[string]any{{}, {"Destination": "ftp://x"}, {"Destination": "https://x", "EventTypes": "Alert"}, {"Destination": "https://x", "More": 1}} {
		if _, err := call("create_subscription", bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("subscription %v: %v, want ErrInvalid", bad, err)
		}
	}
	made, err := call("create_subscription", map[string]any{"Destination": "https://listener/x", "HttpHeaders": []any{map[string]any{"X-Auth": "hush"}}})
	if err != nil {
		t.Fatal(err)
	}
	got := made.(map[string]any)
	if got["Id"] != "7" || got["Destination"] != "https://listener/x" || got["Protocol"] != "Redfish" || got["HttpHeaders"] != nil || got["Name"] != nil {
		t.Errorf("subscription %v", got)
	}
	if shown, err := call("get_subscription", map[string]any{"id": "7"}); err != nil || !reflect.DeepEqual(shown, made) {
		t.Errorf("shown %v, %v", shown, err)
	}
	if all, err := call("get_all_subscriptions", nil); err != nil || all.(map[string]any)["Members"] == nil {
		t.Errorf("all: %v, %v", all, err)
	}
	if _, err := call("delete_subscription", map[string]any{"id": "../../Systems/1"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("an id that leads elsewhere: %v, want ErrInvalid", err)
	}
	if _, err := call("delete_subscription", map[string]any{"id": "7"}); err != nil {
		t.Error(err)
	}
	if _, err := call("get_subscription", map[string]any{"id": "7"}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("after its end: %v, want the BMC's 404", err)
	}
	if _, err := call("eject_vmedia", map[string]any{"boot_device": "tape"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("eject tape: %v, want ErrInvalid", err)
	}
	if _, err := call("eject_vmedia", nil); err != nil {
		t.Error(err)
	}
}

// Who knows the address of a medium that rackd serves may read it, a config drive with its secrets too. A BMC that repeats the address in
// its refusal, or shows a drive in the way of it, does not bring it into the history.
func TestAddressesOfMediaAreNotRepeated(t *testing.T) {
	const code = "Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x"
	const url = "http://192.0.2.1:8080/media/1be26c0b-03f2-4d2e-ae87-c02d7f33c123/" + code + "/configdrive.img"
	for _, says := range []string{"The value '" + url + "' for the property Image is not valid.", strings.ReplaceAll(url, "/", `\/`), neturl.QueryEscape(url)} {
		e, d, bmc := newEmulator(t), newDriver(t, Options{}), newTree()
		e.set(func() {
			e.hook = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "VirtualMedia") {
					refuse(w, http.StatusForbidden, says)
					return true
				}
				return bmc.serve(w, r)
			}
		})
		err := d.AttachMedia(t.Context(), &drivertest.Fence{}, e.node(nil), "cdrom", url)
		if err == nil || strings.Contains(err.Error(), code) || !strings.Contains(err.Error(), "configdrive.img") {
			t.Errorf("%v", err)
		}
	}
}

// Why a machine cannot read its medium is told in the node's history. A BMC that names the address there does not bring it in.
func TestAProblemOfADriveTellsNoAddress(t *testing.T) {
	const code = "Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x"
	const url = "http://192.0.2.1:8080/media/1be26c0b-03f2-4d2e-ae87-c02d7f33c123/" + code + "/boot.iso"
	e, d, bmc := newEmulator(t), newDriver(t, Options{}), newTree()
	maps.Copy(bmc.at["/redfish/v1/Systems/1/VirtualMedia/Cd"], map[string]any{"Inserted": true, "Image": url, "ConnectedVia": "NotConnected",
		"Status": map[string]any{"Health": "Critical", "Conditions": []any{map[string]any{"Message": "cannot open " + url + ":\r\n404"}}}})
	e.set(func() { e.hook = bmc.serve })
	list, err := d.Media(t.Context(), e.node(nil))
	if err != nil || len(list) != 1 || list[0].Problem != "cannot open "+strings.Replace(url, code, "******", 1)+": 404" {
		t.Errorf("%+v, %v", list, err)
	}
}
