package redfish

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// What is not read of a system may have any form. Its tag is the one of the answer's header: the one in its body goes along with no write.
func TestOddPropertiesAreNoHindrance(t *testing.T) {
	for name, odd := range map[string]map[string]any{
		"of another form": {"@odata.etag": 7, "@Message.ExtendedInfo": map[string]any{}, "ProcessorSummary": map[string]any{"Count": -1},
			"MemorySummary": "1 GiB", "HostingRoles": "none", "PCIeDevices": 3, "TrustedModules": map[string]any{}},
		"a tag in the body": {"@odata.etag": `"7"`},
		"null": {"Boot": nil, "Status": nil, "BootProgress": nil, "Links": nil, "VirtualMedia": nil, "SecureBoot": nil, "BiosVersion": nil,
			"Manufacturer": nil, "Model": nil, "ProcessorSummary": nil},
	} {
		e, writes := newEmulator(t), []string{}
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Reset"):
				e.set(func() { writes, e.power = append(writes, "reset if "+r.Header.Get("If-Match")), "On" })
				w.WriteHeader(http.StatusNoContent)
				return true
			case r.Method != http.MethodGet || r.URL.Path != "/redfish/v1/Systems/1":
				return false
			}
			s := map[string]any{"@odata.id": r.URL.Path, "Id": "1", "Actions": map[string]any{
				"#ComputerSystem.Reset": map[string]any{"target": r.URL.Path + "/Actions/Reset"}}}
			e.set(func() { s["PowerState"] = e.power })
			for k, v := range odd {
				s[k] = v
			}
			_ = json.NewEncoder(w).Encode(s)
			return true
		}
		d, n := newDriver(t, Options{}), e.node(nil)
		if _, err := d.Observe(t.Context(), n); err != nil {
			t.Errorf("%s: observe: %v", name, err)
		}
		if _, err := d.Media(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: virtual media: %v, want ErrUnsupported", name, err)
		}
		if err := d.SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); err != nil || !slices.Equal(writes, []string{"reset if "}) {
			t.Errorf("%s: %v; the BMC got %q, want one reset without a tag", name, err, writes)
		}
	}
}

// Nor may what is not read of a service root keep a BMC from being logged in to. What is read of it stays.
func TestOddServiceRoots(t *testing.T) {
	for name, odd := range map[string]map[string]any{
		"a tag that is no text": {"@odata.etag": 7},
		"a message":             {"@Message.ExtendedInfo": map[string]any{"Message": "it starts"}},
		"deep operations":       {"ProtocolFeaturesSupported": map[string]any{"DeepOperations": true, "ExpandQuery": map[string]any{"NoLinks": true}}},
		"levels":                {"ProtocolFeaturesSupported": map[string]any{"ExpandQuery": map[string]any{"NoLinks": true, "MaxLevels": -1}}},
		"null":                  {"ProtocolFeaturesSupported": nil, "Vendor": nil},
	} {
		e := newEmulator(t)
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if !isRoot(r) {
				return false
			}
			root := map[string]any{"@odata.id": "/redfish/v1/", "Vendor": "Maker",
				"Links": map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}}
			for k, v := range odd {
				root[k] = v
			}
			_ = json.NewEncoder(w).Encode(root)
			return true
		}
		d, n := newDriver(t, Options{}), e.node(nil)
		if vendor, err := d.DetectVendor(t.Context(), n); err != nil || vendor != "Maker" {
			t.Errorf("%s: the vendor is %q, %v", name, vendor, err)
		}
		if e.live() != 1 {
			t.Errorf("%s: %d sessions are open, want the one that was opened", name, e.live())
		}
		err := d.pool.with(t.Context(), nil, n, "look", func(_ *session, _ account, c *gofish.APIClient) error {
			if got, want := expansion(c), map[bool]string{true: "?$expand=."}[odd["ProtocolFeaturesSupported"] != nil]; got != want {
				t.Errorf("%s: collections are read with %q, want %q", name, got, want)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A write that a BMC refuses for its tag is not sent once more: the driver has not decided on that. The tag of a drive is the one of its
// answer's header.
func TestAnActionIsCalledOnce(t *testing.T) {
	const drives = "/redfish/v1/Systems/1/VirtualMedia"
	at := map[string]map[string]any{
		"/redfish/v1/Systems/1": {"@odata.id": "/redfish/v1/Systems/1", "Id": "1", "PowerState": "Off", "VirtualMedia": link(drives),
			"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{"target": "/redfish/v1/Systems/1/Actions/Reset"}}},
		drives: {"Members": []any{link(drives + "/Cd")}, "Members@odata.count": 1},
		drives + "/Cd": {"@odata.id": drives + "/Cd", "@odata.etag": `"of the body"`, "Id": "Cd", "MediaTypes": []string{"CD"},
			"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": drives + "/Cd/Insert"},
				"#VirtualMedia.EjectMedia": map[string]any{"target": drives + "/Cd/Eject"}}},
	}
	e, posts := newEmulator(t), []string{}
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		switch s := at[r.URL.Path]; {
		case r.Method == http.MethodGet && s != nil:
			w.Header().Set("Etag", `"of the header"`)
			_ = json.NewEncoder(w).Encode(s)
			return true
		case r.Method != http.MethodPost || strings.Contains(r.URL.Path, "Sessions"):
			return false
		}
		post := strings.TrimPrefix(r.URL.Path, "/redfish/v1/Systems/1/") + " " + r.Header.Get("If-Match")
		e.set(func() { posts = append(posts, post) })
		refuse(w, http.StatusPreconditionFailed, "changed")
		return true
	}
	d, f, n := newDriver(t, Options{}), &drivertest.Fence{}, e.node(nil)
	powered := d.SetPower(t.Context(), f, n, driver.PowerOn)
	attached := d.AttachMedia(t.Context(), f, n, "cdrom", "http://i/a.iso")
	at[drives+"/Cd"]["Inserted"] = true
	detached := d.DetachMedia(t.Context(), f, n, nil)
	for what, err := range map[string]error{"power": powered, "attach": attached, "detach": detached} {
		if err == nil || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%s: %v, want the BMC's refusal", what, err)
		}
	}
	if want := []string{"Actions/Reset ", `VirtualMedia/Cd/Insert "of the header"`, `VirtualMedia/Cd/Eject "of the header"`}; !slices.Equal(posts, want) {
		t.Errorf("the BMC got %q, want %q", posts, want)
	}
}

// A refusal with a property in another form is sorted by what it says, and its words are told.
func TestRefusalOfAnotherForm(t *testing.T) {
	for _, odd := range []string{`"RelatedProperties":"#/Boot"`, `"MessageSeverity":1`, `"ResolutionSteps":"restart it"`} {
		m := newModel("HPE")
		m.before = func(_ *model, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See it","@Message.ExtendedInfo":[` +
				`{"MessageId":"iLO.2.14.UnableToModifyDuringSystemPOST","Message":"It starts.",` + odd + `}]}}`))
			return true
		}
		r, d := modelRig(t, m)
		err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, r.Node, driver.BootPXE, false)
		if !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "MessageId") {
			t.Errorf("%s: %v, want ErrUnreachable in the message's words", odd, err)
		}
	}
}
