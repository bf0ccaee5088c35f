package redfish

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var (
	_ driver.Power      = (*Driver)(nil)
	_ driver.Management = (*Driver)(nil)
)

func TestSetPowerChoosesAndIsIdempotent(t *testing.T) {
	for _, c := range []struct {
		name, from string
		target     driver.PowerState
		allowed    []string
		want       []string
		err        error
	}{
		{"on", "Off", driver.PowerOn, nil, []string{`POST {"ResetType":"On"}`}, nil},
		{"on when on", "On", driver.PowerOn, nil, nil, nil},
		{"on while coming up", "PoweringOn", driver.PowerOn, nil, nil, nil},
		{"only ForceOn", "Off", driver.PowerOn, []string{"ForceOn"}, []string{`POST {"ResetType":"ForceOn"}`}, nil},
		{"off", "On", driver.PowerOff, nil, []string{`POST {"ResetType":"ForceOff"}`}, nil},
		{"off when off", "Off", driver.PowerOff, nil, nil, nil},
		{"soft off", "On", driver.SoftPowerOff, nil, []string{`POST {"ResetType":"GracefulShutdown"}`}, nil},
		{"reboot", "On", driver.Rebooting, nil, []string{`POST {"ResetType":"ForceRestart"}`}, nil},
		{"reboot by cycle", "On", driver.Rebooting, []string{"PowerCycle"}, []string{`POST {"ResetType":"PowerCycle"}`}, nil},
		{"reboot when off", "Off", driver.Rebooting, nil, []string{`POST {"ResetType":"On"}`}, nil},
		{"soft reboot refused", "On", driver.SoftReboot, []string{"On"}, nil, driver.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEmulator(t)
			e.power = c.from
			if c.allowed != nil {
				e.allowed = c.allowed
			}
			err := newDriver(t, Options{}).SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), c.target)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if got := e.written(); !slices.Equal(got, c.want) {
				t.Errorf("the BMC got %q, want %q", got, c.want)
			}
			for _, epoch := range e.epochs {
				if epoch != "work-1/7" {
					t.Errorf("a write carries work and epoch %q, want work-1/7", epoch)
				}
			}
		})
	}
}

func TestSetBootDeviceWritesOnlyWhatDiffers(t *testing.T) {
	e, d, f := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}
	n := e.node(nil)
	for range 2 {
		if err := d.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`PATCH {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`}
	if got := e.written(); !slices.Equal(got, want) {
		t.Fatalf("the BMC got %q, want %q", got, want)
	}
	got, err := d.BootDevice(t.Context(), n)
	if err != nil || got.Device != "pxe" || got.Persistent == nil || *got.Persistent {
		t.Errorf("boot device %+v, %v; want pxe for one boot", got, err)
	}
	if mode, err := d.BootMode(t.Context(), n); mode != "uefi" || err != nil {
		t.Errorf("boot mode %q, %v", mode, err)
	}
	if list, err := d.SupportedBootDevices(t.Context(), n); err != nil || !slices.Equal(list, []driver.BootDevice{"pxe", "disk", "cdrom"}) {
		t.Errorf("supported %v, %v", list, err)
	}
	if err := d.SetBootDevice(t.Context(), f, n, "floppy", true); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("floppy: %v, want ErrUnsupported", err)
	}
	if err := d.SetBootDevice(t.Context(), f, n, driver.BootUSB, true); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "not from Usb") {
		t.Errorf("a USB stick: %v, want ErrUnsupported", err)
	}
	if id, err := d.Identity(t.Context(), n); err != nil || id != (driver.Identity{UUID: "uu-id", Manufacturer: "Maker", Model: "M1", Serial: "S1", SKU: "TAG7"}) {
		t.Errorf("identity %+v, %v", id, err)
	}
	liar := e.node(map[string]any{"redfish_identity": "ignore"})
	if id, err := d.Identity(t.Context(), liar); err != nil || id != (driver.Identity{Manufacturer: "Maker", Model: "M1"}) {
		t.Errorf("identity of a BMC that is not to be believed: %+v, %v", id, err)
	}
	if err := d.Validate(e.node(map[string]any{"redfish_identity": "no"})); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("redfish_identity: no: %v", err)
	}
	if err := d.InjectNMI(t.Context(), f, n); err != nil {
		t.Errorf("NMI: %v", err)
	}
}

func TestOneSessionIsSharedAndClosed(t *testing.T) {
	e, d := newEmulator(t), newDriver(t, Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if e.opened != 1 {
		t.Errorf("%d sessions were opened, want 1", e.opened)
	}
	if err := d.Close(t.Context()); err != nil || len(e.sessions) != 0 {
		t.Errorf("Close: %v, %d sessions left open", err, len(e.sessions))
	}
	if _, err := d.PowerState(t.Context(), e.node(nil)); err == nil {
		t.Error("a closed driver still works")
	}
}

func TestForgottenSessionIsOpenedAnewOnce(t *testing.T) {
	e, d := newEmulator(t), newDriver(t, Options{})
	if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil {
		t.Fatal(err)
	}
	e.set(func() { clear(e.sessions) })
	if err := d.SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), driver.PowerOn); err != nil {
		t.Fatal(err)
	}
	if e.opened != 2 || len(e.written()) != 1 {
		t.Errorf("%d sessions, writes %q; want 2 and one write", e.opened, e.written())
	}
}

func TestLeastUsedBMCLeavesWhenThePoolIsFull(t *testing.T) {
	a, b, d := newEmulator(t), newEmulator(t), newDriver(t, Options{MaxBMCs: 1})
	for _, e := range []*emulator{a, b} {
		if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Second); a.live() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond) // it is logged out in the background
	}
	if a.live() != 0 || b.live() != 1 {
		t.Errorf("sessions: %d on the first, %d on the second; want 0 and 1", a.live(), b.live())
	}
}

func TestWrongPasswordSaysWhatToDo(t *testing.T) {
	for _, auth := range []string{"auto", "session", "basic"} {
		e := newEmulator(t)
		e.password = "another"
		_, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(map[string]any{fieldAuth: auth}))
		if !errors.Is(err, driver.ErrDenied) {
			t.Fatalf("%s: %v, want ErrDenied", auth, err)
		}
		for _, want := range []string{"web1", e.URL, `"admin"`, fieldPassword} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %s", auth, err, want)
			}
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q holds the password", auth, err)
		}
	}
}

func TestBasicWhereNoSessionOpens(t *testing.T) {
	e := newEmulator(t)
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "SessionService") {
			refuse(w, 503, "no session is free")
			return true
		}
		return false
	}
	if _, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(nil)); err != nil {
		t.Fatal(err)
	}
}

func TestUnreachableAndUntrusted(t *testing.T) {
	e, d := newEmulator(t), newDriver(t, Options{})
	if _, err := d.PowerState(t.Context(), e.node(map[string]any{fieldVerifyCA: true})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fieldVerifyCA) {
		t.Errorf("unknown authority: %v, want ErrInvalid naming %s", err, fieldVerifyCA)
	}
	if _, err := d.PowerState(t.Context(), e.node(map[string]any{fieldVerifyCA: "false"})); err != nil {
		t.Errorf("unchecked: %v", err)
	}
	n := e.node(nil)
	e.Close()
	if err := newDriver(t, Options{}).SetPower(t.Context(), &drivertest.Fence{}, n, driver.PowerOn); !errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrUnknown) {
		t.Errorf("closed port: %v, want ErrUnreachable", err)
	}
}

func TestWriteWithoutAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	e := newEmulator(t)
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Reset") {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
			<-r.Context().Done()
			return true
		}
		return false
	}
	d := newDriver(t, Options{ReadTimeout: 2 * time.Second})
	err := d.SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), driver.PowerOn)
	if !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("%v, want ErrUnknown", err)
	}
	e.set(func() { e.hook = nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.PowerState(ctx, e.node(nil)); err == nil || errors.Is(err, driver.ErrUnknown) {
		t.Errorf("a cancelled read: %v, want an error that is not ErrUnknown", err)
	}
}

func TestLostFenceStopsTheWrite(t *testing.T) {
	e, d, f := newEmulator(t), newDriver(t, Options{}), &drivertest.Fence{}
	// Lost between the read and the write: the read must not use up the check.
	f.LoseAfter(0)
	err := d.SetPower(t.Context(), f, e.node(nil), driver.PowerOn)
	if !errors.Is(err, driver.ErrFenced) || err.Error() != f.Check().Error() {
		t.Errorf("%v, want the fence's own error", err)
	}
	if got := e.written(); got != nil {
		t.Errorf("the BMC got %q after the node was lost", got)
	}
}

func TestChangedEntityTagIsWrittenOnceMore(t *testing.T) {
	e := newEmulator(t)
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Etag", `"1"`)
		if r.Method == http.MethodPatch && r.Header.Get("If-Match") != "" {
			refuse(w, 412, "changed")
			return true
		}
		return false
	}
	if err := newDriver(t, Options{}).SetBootMode(t.Context(), &drivertest.Fence{}, e.node(nil), "uefi"); err != nil {
		t.Fatal(err)
	}
}

func TestFailedReadIsAskedAgainAndFailedWriteIsNot(t *testing.T) {
	t.Parallel()
	e, d := newEmulator(t), newDriver(t, Options{})
	if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil { // logged in
		t.Fatal(err)
	}
	asked := map[string]int{}
	fail := map[string]int{http.MethodGet: 1}
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		asked[r.Method]++
		if asked[r.Method] > fail[r.Method] {
			return false
		}
		refuse(w, 500, "a moment please")
		return true
	}
	if _, err := d.PowerState(t.Context(), e.node(nil)); err != nil || asked[http.MethodGet] != 2 {
		t.Errorf("%d reads, %v; want a second one that succeeds", asked[http.MethodGet], err)
	}
	clear(asked)
	fail = map[string]int{http.MethodPost: 1}
	err := d.SetPower(t.Context(), &drivertest.Fence{}, e.node(nil), driver.PowerOn)
	if err == nil || !strings.Contains(err.Error(), "a moment please") || asked[http.MethodPost] != 1 {
		t.Errorf("%d writes, %v; want one, and the BMC's words", asked[http.MethodPost], err)
	}
}

func TestLinkToAnotherHostIsNotFollowed(t *testing.T) {
	e, other := newEmulator(t), newEmulator(t)
	asked := false
	other.hook = func(http.ResponseWriter, *http.Request) bool { asked = true; return false }
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/redfish/v1/Systems" {
			http.Redirect(w, r, other.URL+"/redfish/v1/Systems", http.StatusFound)
			return true
		}
		return false
	}
	if _, err := newDriver(t, Options{}).PowerState(t.Context(), e.node(nil)); err == nil || asked {
		t.Errorf("error %v, other host asked: %v", err, asked)
	}
}

func TestSeveralSystemsNeedAName(t *testing.T) {
	e, d := newEmulator(t), newDriver(t, Options{})
	if _, err := d.PowerState(t.Context(), e.node(map[string]any{fieldSystem: "9"})); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "/redfish/v1/Systems/9") {
		t.Errorf("missing system: %v", err)
	}
	if _, err := d.PowerState(t.Context(), e.node(map[string]any{fieldSystem: "1"})); err != nil {
		t.Errorf("system by id: %v", err)
	}
}
