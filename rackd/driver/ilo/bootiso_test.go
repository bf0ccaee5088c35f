package ilo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const driveAt = manager + "/VirtualMedia/2"

// withDrive gives a double a virtual CD drive, and switches its machine on. What a write is followed by is in then, by the end of its path:
// "lost" loses the answer, "refused" refuses the write.
func withDrive(d *double, then map[string]string) {
	action := func(name string) map[string]any {
		return map[string]any{"target": driveAt + "/Actions/VirtualMedia." + name}
	}
	d.Do(func() {
		d.At[redfishtest.System]["PowerState"] = "On"
		d.At[manager]["VirtualMedia"] = redfishtest.Link(manager + "/VirtualMedia")
		d.At[manager+"/VirtualMedia"] = redfishtest.Links(driveAt)
		d.At[driveAt] = map[string]any{"MediaTypes": []any{"CD", "DVD"}, "Inserted": false, "Image": "",
			"Actions": map[string]any{"#VirtualMedia.InsertMedia": action("InsertMedia"), "#VirtualMedia.EjectMedia": action("EjectMedia")}}
		write := d.Write
		d.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			path := strings.TrimSuffix(r.URL.Path, "/")
			end := ""
			for name := range then {
				if strings.HasSuffix(path, name) {
					end = then[name]
					delete(then, name)
				}
			}
			if end == "refused" {
				redfishtest.Refuse(w, http.StatusBadRequest, "not now")
				return true
			}
			done := write(w, r, body)
			if strings.HasSuffix(path, ".InsertMedia") {
				d.At[driveAt]["Inserted"], d.At[driveAt]["Image"], done = true, body["Image"], true
			}
			if end == "lost" {
				panic(http.ErrAbortHandler)
			}
			if done && strings.HasSuffix(path, ".InsertMedia") {
				w.WriteHeader(http.StatusNoContent)
			}
			return done
		}
	})
}

// isoMethod is the method of both hardware types.
func isoMethod(t *testing.T, hardware string) driver.VendorMethod {
	t.Helper()
	reach := func(_ context.Context, url string) error {
		if strings.Contains(url, "inner") {
			return errors.New("host leads to 127.0.0.1")
		}
		return nil
	}
	var list []driver.VendorMethod
	if hardware == "ilo5" {
		m := management(t)
		list = Vendor{redfish.Vendor{Driver: m.Driver}, ISO{m, reach}}.VendorMethods()
	} else {
		a := auto(t)
		list = AutoVendor{redfish.Vendor{Driver: a.Redfish.Driver}, a, ISO{a, reach}}.VendorMethods()
	}
	at := slices.IndexFunc(list, func(m driver.VendorMethod) bool { return m.Name == bootIntoISO })
	if at < 0 {
		t.Fatalf("%s has no %s", hardware, bootIntoISO)
	}
	return list[at]
}

func manageable(d *double) *node.Document {
	n := nodeOf(d)
	n.State = provision.Manageable
	return n
}

const isoURL = "https://u:s3cr3t@files.example/rescue.iso"

// The image is in the drive, the machine starts from it once, and it is restarted once, whichever answer is lost.
func TestBootIntoISO(t *testing.T) {
	for _, hardware := range []string{"ilo", "ilo5"} {
		for name, c := range map[string]struct {
			then   map[string]string
			off    bool
			writes []string
			says   string
		}{
			"all is well":                {nil, false, []string{"InsertMedia", "Systems/1", "ForceRestart"}, ""},
			"a machine that is off":      {nil, true, []string{"InsertMedia", "Systems/1", `"On"`}, ""},
			"the image's answer is lost": {map[string]string{".InsertMedia": "lost"}, false, []string{"InsertMedia", "Systems/1", "ForceRestart"}, ""},
			"the image is refused":       {map[string]string{".InsertMedia": "refused"}, false, []string{"InsertMedia"}, "put the image into the virtual CD drive (the machine was not restarted)"},
			"the boot device is refused": {map[string]string{"Systems/1": "refused"}, false, []string{"InsertMedia", "Systems/1"},
				"the image is in it, and the machine was not restarted"},
			"the restart's answer is lost": {map[string]string{"ComputerSystem.Reset": "lost"}, false, []string{"InsertMedia", "Systems/1", "ForceRestart"},
				"restart the machine (the image is in the virtual CD drive, and the next start is from it)"},
		} {
			t.Run(hardware+", "+name, func(t *testing.T) {
				d, m := newDouble(t), isoMethod(t, hardware)
				withDrive(d, c.then)
				if c.off {
					d.Do(func() { d.At[redfishtest.System]["PowerState"] = "Off" })
				}
				args := map[string]any{argISO: isoURL}
				if err := m.Check(manageable(d), args); err != nil {
					t.Fatal(err)
				}
				_, err := m.Call(t.Context(), &drivertest.Fence{}, manageable(d), args)
				if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cr3t")) {
					t.Errorf("%v, want %q", err, c.says)
				}
				if lost := strings.Contains(name, "restart's"); lost != errors.Is(err, driver.ErrUnknown) {
					t.Errorf("%v: that the outcome is unknown is told wrongly", err)
				}
				wrote := d.Written()
				same := len(wrote) == len(c.writes)
				for i := range min(len(wrote), len(c.writes)) {
					same = same && strings.Contains(wrote[i], c.writes[i])
				}
				if !same {
					t.Errorf("written %q, want %q", wrote, c.writes)
				}
				d.Do(func() {
					boot := d.At[redfishtest.System]["Boot"].(map[string]any)
					if got := fmt.Sprint(boot["BootSourceOverrideTarget"], " ", boot["BootSourceOverrideEnabled"]); c.says == "" && got != "Cd Once" {
						t.Errorf("the machine starts from %s", got)
					}
				})
			})
		}
	}
}

// A rackd that has lost the node gives no order, and restarts nothing.
func TestBootIntoISOWithoutTheNode(t *testing.T) {
	for passes := range 3 {
		d, m := newDouble(t), isoMethod(t, "ilo5")
		withDrive(d, nil)
		var f drivertest.Fence
		f.LoseAfter(passes)
		if _, err := m.Call(t.Context(), &f, manageable(d), map[string]any{argISO: isoURL}); !errors.Is(err, driver.ErrFenced) {
			t.Errorf("after %d checks: %v", passes, err)
		}
		for _, w := range d.Written() {
			if strings.Contains(w, "ComputerSystem.Reset") {
				t.Errorf("after %d checks the machine was restarted", passes)
			}
		}
	}
}

// What cannot be done is refused, and nothing is written.
func TestBootIntoISOIsRefused(t *testing.T) {
	d, m := newDouble(t), isoMethod(t, "ilo5")
	withDrive(d, nil)
	for name, c := range map[string]struct {
		state provision.State
		href  any
		more  string
		says  string
	}{
		"an instance":      {provision.Active, isoURL, "", "only when node 6e6f6465 is in manageable state or in 'maintenance' mode"},
		"nothing":          {provision.Manageable, nil, "", "Some parameters were not provided: ['boot_iso_href']"},
		"Glance's":         {provision.Manageable, "0c0ff33e-0000-4000-8000-000000000000", "", "No rack asks Glance"},
		"a file":           {provision.Manageable, "file:///etc/passwd", "", "no HTTP or HTTPS URL"},
		"another argument": {provision.Manageable, isoURL, "persistent", `unknown argument "persistent"`},
	} {
		n := nodeOf(d)
		n.State = c.state
		args := map[string]any{}
		if c.href != nil {
			args[argISO] = c.href
		}
		if c.more != "" {
			args[c.more] = true
		}
		if err := m.Check(n, args); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	n := nodeOf(d)
	n.State, n.Maintenance = provision.Active, true
	if err := m.Check(n, map[string]any{argISO: isoURL}); err != nil {
		t.Errorf("in maintenance: %v", err)
	}
	if _, err := m.Call(t.Context(), &drivertest.Fence{}, manageable(d), map[string]any{argISO: "http://inner/a.iso"}); !errors.Is(err, driver.ErrInvalid) ||
		!strings.Contains(err.Error(), "the iLO is not told to read it") {
		t.Errorf("a URL into the BMCs' networks: %v", err)
	}
	if w := d.Written(); len(w) > 0 {
		t.Errorf("written %q", w)
	}
}
