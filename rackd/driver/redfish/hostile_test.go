package redfish

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// A BMC whose resource is null has an error for an answer. gofish takes null for a resource, and uses it.
func TestABMCThatAnswersNullEndsNothing(t *testing.T) {
	for _, path := range []string{"/redfish/v1", "/redfish/v1/Systems", "/redfish/v1/Systems/1"} {
		e := newEmulator(t)
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.TrimSuffix(r.URL.Path, "/") != path {
				return false
			}
			_, _ = w.Write([]byte("\n null"))
			return true
		}
		if state, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(nil)); err == nil || !strings.Contains(err.Error(), "answered HTTP 200: null") {
			t.Errorf("%s: %q, %v", path, state, err)
		}
	}
}

// What one call asks of a BMC is bounded, whatever the BMC links to.
func TestACollectionThatGoesInACircleIsLeft(t *testing.T) {
	t.Parallel()
	const drives = "/redfish/v1/Systems/1/VirtualMedia"
	e, bmc, requests := newEmulator(t), newTree(), atomic.Int64{}
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != drives {
			return bmc.serve(w, r)
		}
		if requests.Add(1) > 20_000 {
			refuse(w, http.StatusNotFound, "enough")
			return true
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Members": []any{}, "Members@odata.nextLink": drives})
		return true
	}
	if _, err := newDriver(t, Options{}).Media(t.Context(), e.node(nil)); err == nil || requests.Load() > 10_000 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
}

// What a BMC tells of its settings gets into errors and histories as its other words do: on one line, without the password.
func TestMessagesOfSettingsAreCleaned(t *testing.T) {
	t.Parallel()
	m := withBIOS(newModel("Maker"))
	m.at[biosAt]["@Redfish.Settings"].(map[string]any)["Messages"] = []any{map[string]any{"Message": "PATCH by admin:s3cret-pass\x1b]0;x\x07\nrefused"}}
	r, bios, f := biosRig(t, m)
	f.forgets = true
	err := runStep(t, r, stepNamed(t, bios.NamedSteps(r.Node), "apply_configuration"), settings("Virtualization", "Enabled"))
	if err == nil || !strings.Contains(err.Error(), "The BMC says") {
		t.Fatalf("%v, want what the BMC says", err)
	}
	if text := err.Error(); strings.Contains(text, "s3cret-pass") || strings.ContainsAny(text, "\x1b\x07\n") {
		t.Errorf("%q", text)
	}
}

// Without its registry a BMC does not say which of its settings are passwords. Their names do.
func TestPasswordsOfTheBIOSAreShownNowhere(t *testing.T) {
	m := withBIOS(newModel("Maker"))
	delete(m.at["/redfish/v1"], "Registries")
	for at, r := range m.at {
		if a, there := r["Attributes"].(map[string]any); there {
			a["AdminPassword"] = "hunter2"
			if strings.Contains(at, "Settings") {
				a["AdminPassword"] = "hunter3"
			}
		}
	}
	e := newEmulator(t)
	e.hook = m.serve
	d := newDriver(t, Options{})
	list, err := BIOS{Driver: d}.Settings(t.Context(), e.node(nil))
	if err != nil || len(list) < 2 {
		t.Fatal(list, err)
	}
	for _, s := range list {
		if s.Value != nil && strings.Contains(*s.Value, "hunter") {
			t.Errorf("the API shows %s as %s", s.Name, *s.Value)
		}
	}
	r := biosResource{Attributes: map[string]any{"AdminPassword": "hunter2"}, pending: map[string]any{"AdminPassword": "hunter3"}}
	if said := pendingOf(r, nil); strings.Contains(said, "hunter") {
		t.Errorf("the history says %q", said)
	}
	if _, wrong := attributesFor([]asked{{"AdminPassword", "hunter4"}}, r, nil); len(wrong) != 1 {
		t.Errorf("a password is taken, which cannot be read back and is told in errors: %q", wrong)
	}
}

// A node has another volume now. Its firmware shows the option of the one before until it has logged in again: that is not booted.
func TestTheOptionOfAnotherVolumeIsNotBooted(t *testing.T) {
	const options = redfishtest.System + "/BootOptions"
	b := adapters(t, false)
	path := func(iqn string) string {
		return "PciRoot(0x0)/MAC(525400000001,0x1)/iSCSI(" + iqn + ",0x1,0x0100000000000000,None,None,None,TCP)"
	}
	const before, now = "iqn.2026-11.org.example:v1", "iqn.2026-11.org.example:v10"
	b.Do(func() {
		b.At[options] = redfishtest.Links(options+"/Boot0003", options+"/Boot0004")
		b.At[options+"/Boot0003"] = map[string]any{"@odata.id": options + "/Boot0003", "BootOptionReference": "Boot0003", "UefiDevicePath": "PciRoot(0x0)"}
		b.At[options+"/Boot0004"] = map[string]any{"@odata.id": options + "/Boot0004", "BootOptionReference": "Boot0004", "UefiDevicePath": path(before)}
		boot, _ := b.At[redfishtest.System]["Boot"].(map[string]any)
		if boot == nil {
			boot = map[string]any{}
			b.At[redfishtest.System]["Boot"] = boot
		}
		boot["BootOrder"], boot["BootOptions"] = []any{"Boot0003", "Boot0004"}, redfishtest.Link(options)
	})
	n := &node.Document{UUID: "u", BootSet: string(driver.BootISCSI), DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	d := newDriver(t, Options{})
	f := &drivertest.Fence{}
	if err := d.SetISCSIBoot(t.Context(), f, n, driver.ISCSITarget{Host: "10.0.0.9", Port: 3260, IQN: now}); err != nil {
		t.Fatal(err)
	}
	for _, stale := range []string{before, now + "0"} {
		b.Do(func() { b.At[options+"/Boot0004"]["UefiDevicePath"] = path(stale) })
		if err := d.SetBootDevice(t.Context(), f, n, driver.BootISCSI, true); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("the option of %s counts as the one of %s: %v", stale, now, err)
		}
		if is, err := d.BootDevice(t.Context(), n); err == nil && is.Device == string(driver.BootISCSI) {
			t.Errorf("the option of %s is shown as the boot device", stale)
		}
	}
	b.Do(func() { b.At[options+"/Boot0004"]["UefiDevicePath"] = strings.ToUpper(path(now)) })
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootISCSI, true); err == nil {
		t.Error("a path that names no iSCSI device is one") // its node's name is iSCSI
	}
	b.Do(func() { b.At[options+"/Boot0004"]["UefiDevicePath"] = path(strings.ToUpper(now)) })
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootISCSI, true); err != nil {
		t.Error(err)
	}
}

// A BMC that repeats what it was sent repeats a volume's secret, too, in whatever form its page has.
func TestTheSecretOfAVolumeIsInNoError(t *testing.T) {
	const secret = `pa"ss<word>&co`
	for form, said := range map[string]string{
		"plain": secret, "JSON": `{"CHAPSecret":"pa\"ss\u003cword\u003e\u0026co"}`, "HTML": "pa&quot;ss&lt;word&gt;&amp;co", "a URL": "pa%22ss%3Cword%3E%26co",
		"base64": base64.StdEncoding.EncodeToString([]byte(secret)),
	} {
		cause := errors.New("the BMC answered 400: " + said)
		err := Hide(secret, cause)
		if text := err.Error(); strings.Contains(text, said) || strings.Contains(text, "word") || !strings.Contains(text, "answered 400") || !errors.Is(err, cause) {
			t.Errorf("%s: %q", form, text)
		}
	}
}
