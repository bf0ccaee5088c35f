package redfish

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// Firmwares want overrides in ways of their own.
func TestBootOverrideAsFirmwaresWantIt(t *testing.T) {
	const system = "PATCH /Systems/1 "
	refuses := func(property string) func(*model, http.ResponseWriter, *http.Request, map[string]any) bool {
		return func(_ *model, w http.ResponseWriter, _ *http.Request, body map[string]any) bool {
			boot, _ := body["Boot"].(map[string]any)
			if _, there := boot[property]; there && len(boot) > 1 {
				refuse(w, http.StatusBadRequest, "the property "+property+" is not taken here")
				return true
			}
			return false
		}
	}
	for name, c := range map[string]struct {
		vendor string
		set    func(m *model)
		device driver.BootDevice
		want   []string
	}{
		"the standard": {"Contoso", nil, driver.BootPXE, []string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`}},
		"Supermicro wants all in one": {"Supermicro", nil, driver.BootPXE,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`}},
		"a Supermicro that refuses the mode": {"Supermicro", func(m *model) { m.before = refuses("BootSourceOverrideMode") }, driver.BootPXE,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`,
				system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`}},
		"one that wants the mode apart": {"Contoso", func(m *model) {
			m.boot()["BootSourceOverrideMode"] = "Legacy"
			m.before = refuses("BootSourceOverrideMode")
		}, driver.BootPXE,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`,
				system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`,
				system + `{"Boot":{"BootSourceOverrideMode":"UEFI"}}`}},
		"a virtual CD of Supermicro": {"Supermicro", func(m *model) {
			m.boot()["BootSourceOverrideTarget@Redfish.AllowableValues"] = []any{"Cd", "UsbCd"}
		}, "cdrom", []string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"UsbCd"}}`}},
		"a USB stick": {"Contoso", func(m *model) { m.boot()["BootSourceOverrideTarget@Redfish.AllowableValues"] = []any{"Usb", "UsbCd"} }, driver.BootUSB,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Usb"}}`}},
		"a name of before": {"Contoso", func(m *model) { m.boot()["BootSourceOverrideTarget@Redfish.AllowableValues"] = []any{"CD/DVD"} }, "cdrom",
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"CD/DVD"}}`}},
		"AMI wants a tag": {"AMI", nil, driver.BootPXE,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}} if *`}},
		"a tag that is shown": {"Contoso", func(m *model) { m.tags = "wants" }, driver.BootPXE,
			[]string{system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}} if "tag of /redfish/v1/Systems/1"`}},
		"a tag that counts reads": {"Contoso", func(m *model) { m.tags = "counts" }, driver.BootPXE, []string{
			system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}} if W/"3"`,
			system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}} if "3"`,
			system + `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`}},
		"a settings object for a part of it": {"NVIDIA", func(m *model) {
			m.at[systemAt]["@Redfish.Settings"] = map[string]any{"SettingsObject": link(systemAt + "/Settings")}
			m.put(map[string]map[string]any{systemAt + "/Settings": {"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}}})
		}, driver.BootPXE, []string{`PATCH /Systems/1/Settings {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(c.vendor)
			if c.set != nil {
				c.set(m)
			}
			r, d := modelRig(t, m)
			if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, r.Node, c.device, false); err != nil {
				t.Fatal(err)
			}
			if got := m.written(); !slices.Equal(got, c.want) {
				t.Errorf("the BMC got\n%q, want\n%q", got, c.want)
			}
			is, err := d.BootDevice(t.Context(), r.Node)
			if err != nil || is.Device != string(c.device) || *is.Persistent {
				t.Errorf("it then shows %+v, %v", is, err)
			}
		})
	}
}

// A BMC that knows no override for good gets one for the next boot, before each start, on every rackd that knows the node.
func TestBootDeviceForGoodWhereThereIsNone(t *testing.T) {
	for name, set := range map[string]func(m *model){
		"it says so": func(m *model) {
			m.boot()["BootSourceOverrideEnabled@Redfish.AllowableValues"] = []any{"Once", "Disabled"}
		},
		"it refuses": func(m *model) {
			m.before = func(_ *model, w http.ResponseWriter, _ *http.Request, body map[string]any) bool {
				boot, _ := body["Boot"].(map[string]any)
				if boot["BootSourceOverrideEnabled"] != "Continuous" {
					return false
				}
				refuse(w, http.StatusBadRequest, "Continuous is not in the list of acceptable values")
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel("Lenovo")
			set(m)
			// A start uses an override for one boot up.
			m.after = func(m *model, r *http.Request, _ map[string]any) {
				if strings.HasSuffix(r.URL.Path, "/Reset") {
					merge(m.at[systemAt], map[string]any{"PowerState": "On", "Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}})
				}
			}
			r, d := modelRig(t, m)
			n, f, ctx := r.Node, &drivertest.Fence{}, t.Context()
			kept := d.Kept(n)
			if kept != nil {
				t.Fatalf("kept %s of a node that nobody has told anything", kept)
			}
			if err := d.SetBootDevice(ctx, f, n, driver.BootDisk, true); err != nil {
				t.Fatal(err)
			}
			before := len(m.written())
			if kept = d.Kept(n); kept == nil {
				t.Fatal("nothing is kept of it")
			}
			if err := d.SetBootDevice(ctx, f, n, driver.BootDisk, true); err != nil {
				t.Fatal(err)
			}
			if name == "it says so" && len(m.written()) != before {
				t.Errorf("what is so was written: %q", m.written()[before:])
			}
			other := newDriver(t, Options{})
			n.Kept = kept
			for range 2 {
				if err := other.SetPower(ctx, f, n, driver.Rebooting); err != nil {
					t.Fatal(err)
				}
			}
			var starts []string
			for _, w := range m.written()[before:] {
				if strings.Contains(w, "Reset") || strings.Contains(w, `"Once"`) && strings.Contains(w, `"Hdd"`) {
					starts = append(starts, strings.Fields(w)[0])
				}
			}
			if want := []string{"POST", "PATCH", "POST"}; !slices.Equal(starts[max(0, len(starts)-3):], want) {
				t.Errorf("starts %q, want each with its override: %q", starts, m.written())
			}
			if is, err := other.BootDevice(ctx, n); err != nil || is.Device != "disk" || !*is.Persistent {
				t.Errorf("the boot device shown is %+v, %v", is, err)
			}
			if d.Kept(n) != nil {
				t.Error("it is reported again, although the document has it")
			}
			if err := errors.Join(other.SetBootDevice(ctx, f, n, driver.BootPXE, false), other.SetPower(ctx, f, n, driver.Rebooting)); err != nil {
				t.Fatal(err)
			}
			if last := m.written(); strings.Contains(last[len(last)-2], `"Hdd"`) {
				t.Errorf("the disk was set after another device was asked for: %q", last)
			}
		})
	}
}

// The URL of a boot by UEFI HTTP is written with the device, and read back.
func TestHTTPBoot(t *testing.T) {
	m := newModel("Contoso")
	m.boot()["HttpBootUri"] = "http://old/x.efi"
	r, d := modelRig(t, m)
	f, ctx := &drivertest.Fence{}, t.Context()
	if err := d.SetHTTPBoot(ctx, f, r.Node, "ftp://files/x.efi", false); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a URL of FTP: %v, want ErrInvalid", err)
	}
	for range 2 {
		if err := d.SetHTTPBoot(ctx, f, r.Node, "http://rack/boot.efi", false); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SetBootDevice(ctx, f, r.Node, "uefihttp", false); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"UefiHttp","HttpBootUri":"http://rack/boot.efi"}}`,
		`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"UefiHttp","HttpBootUri":null}}`}
	if got := m.written(); !slices.Equal(got, want) {
		t.Errorf("the BMC got\n%q, want\n%q", got, want)
	}
	m.set(func() {
		m.before = func(m *model, w http.ResponseWriter, _ *http.Request, body map[string]any) bool {
			delete(body["Boot"].(map[string]any), "HttpBootUri") // it keeps what it has
			return false
		}
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := d.SetHTTPBoot(ctx, f, r.Node, "http://rack/other.efi", false); err == nil || !strings.Contains(err.Error(), "another HttpBootUri") {
		t.Errorf("a BMC that keeps its URL: %v", err)
	}
}

// A boot by UEFI HTTP for good keeps its URL over starts, also where it is for good by once before each.
func TestHTTPBootForGood(t *testing.T) {
	m := newModel("Lenovo")
	m.boot()["BootSourceOverrideEnabled@Redfish.AllowableValues"] = []any{"Once", "Disabled"}
	m.after = func(m *model, r *http.Request, _ map[string]any) {
		if strings.HasSuffix(r.URL.Path, "/Reset") {
			merge(m.at[systemAt], map[string]any{"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}})
		}
	}
	r, d := modelRig(t, m)
	f, ctx := &drivertest.Fence{}, t.Context()
	err := errors.Join(d.SetHTTPBoot(ctx, f, r.Node, "http://rack/boot.efi", true), d.SetPower(ctx, f, r.Node, driver.PowerOn), d.SetPower(ctx, f, r.Node, driver.PowerOn))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"UefiHttp","HttpBootUri":"http://rack/boot.efi"}}`, `POST /Systems/1/Actions/Reset {"ResetType":"On"}`,
		`PATCH /Systems/1 {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"UefiHttp"}}`, `POST /Systems/1/Actions/Reset {"ResetType":"On"}`}
	if got := m.written(); !slices.Equal(got, want) || m.boot()["HttpBootUri"] != "http://rack/boot.efi" {
		t.Errorf("the BMC got\n%q, want\n%q", got, want)
	}
}

// What a machine that starts does not take yet is asked for again.
func TestBusyWhileTheMachineStarts(t *testing.T) {
	m := newModel("HPE")
	m.before = func(_ *model, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo","@Message.ExtendedInfo":[{"MessageId":"iLO.2.14.UnableToModifyDuringSystemPOST"}]}}`))
		return true
	}
	r, d := modelRig(t, m)
	if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, r.Node, driver.BootPXE, false); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable", err)
	}
}
