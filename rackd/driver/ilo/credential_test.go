package ilo

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const (
	usersAt = "/redfish/v1/AccountService/Accounts"
	next    = "n3w-pass+word"
)

// withAccounts gives a double the accounts of a recorded iLO 5 (DL360 Gen10). The second is the user's.
func withAccounts(d *double) {
	d.Do(func() {
		d.At["/redfish/v1"]["AccountService"] = redfishtest.Link("/redfish/v1/AccountService")
		d.At["/redfish/v1/AccountService"] = map[string]any{"Accounts": redfishtest.Link(usersAt), "Oem": map[string]any{"Hpe": map[string]any{"MinPasswordLength": 8}}}
		d.At[usersAt] = redfishtest.Links(usersAt+"/1", usersAt+"/2")
		d.At[usersAt+"/1"] = map[string]any{"UserName": "Administrator", "Password": nil, "@odata.etag": "W/\"35A9D6B8\""}
		d.At[usersAt+"/2"] = map[string]any{"UserName": redfishtest.User, "Password": nil, "@odata.etag": "W/\"35A9D6B9\""}
		write := d.Write
		d.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if r.Method != http.MethodPatch || r.URL.Path != usersAt+"/2" {
				return write(w, r, body)
			}
			password := fmt.Sprint(body["Password"])
			if len(password) < 8 {
				redfishtest.Refuse(w, http.StatusBadRequest, "the value "+password+" for the property Password is too short")
				return true
			}
			d.Take(password)
			fmt.Fprint(w, "{}")
			return true
		}
	})
}

// The user's account gets the password with one write, and driver_info follows. To ask again writes nothing.
func TestNewPassword(t *testing.T) {
	for name, manage := range map[string]func(*testing.T) driver.StepSource{
		"ilo5": func(t *testing.T) driver.StepSource { return management(t) }, "ilo": func(t *testing.T) driver.StepSource { return auto(t) },
	} {
		t.Run(name, func(t *testing.T) {
			d, m := newDouble(t), manage(t)
			withAccounts(d)
			r := drivertest.NewRig()
			r.Node.DriverInfo = d.info(redfishtest.Password)
			for range 2 {
				if err := resetOf(t, m, r, map[string]any{fieldPassword: next}); err != nil {
					t.Fatal(err)
				}
			}
			if w := d.Written(); len(w) != 1 || w[0] != "PATCH "+usersAt+`/2 {"Password":"`+next+`"}` {
				t.Errorf("written %q", w)
			}
			if r.Node.DriverString(fieldPassword) != next {
				t.Errorf("driver_info has %q", r.Node.DriverString(fieldPassword))
			}
			if strings.Contains(strings.Join(r.Phases, " ")+r.HandleText(), next) {
				t.Errorf("the history tells it: %v", r.Phases)
			}
		})
	}
}

// resetOf runs the step to its end, each time as another owner.
func resetOf(t *testing.T, m driver.StepSource, r *drivertest.Rig, args map[string]any) error {
	t.Helper()
	steps := m.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == resetCredential })]
	if err := step.Check(r.Node, args); err != nil {
		return err
	}
	if !step.ReplacesSecrets {
		t.Error("the step does not say that it replaces secrets: a parent's flow would run it on a child")
	}
	for range 10 {
		task := r.Task(networkboot.IPXE())
		task.Args = args
		out, err := step.Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
	t.Fatal("it still waits")
	return nil
}

// A node that names a new password is given it by its next cleaning; that field goes. Others are left alone.
func TestNewPasswordOfTheNode(t *testing.T) {
	d, m := newDouble(t), management(t)
	withAccounts(d)
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	in := func() (priorities []int) {
		for _, s := range m.NamedSteps(r.Node) {
			if s.Name == resetCredential {
				priorities = append(priorities, s.Priority)
			}
		}
		return priorities
	}
	if p := in(); !slices.Equal(p, []int{0, 0}) {
		t.Errorf("priorities %v of a node that asks for nothing", p)
	}
	if err := resetOf(t, m, r, nil); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Missing 'ilo_change_password'") {
		t.Errorf("%v", err)
	}
	r.Node.DriverInfo[fieldNewPassword] = next
	if p := in(); !slices.Equal(p, []int{30, 0}) {
		t.Errorf("priorities %v in cleanings and deploys, want 30 and 0", p)
	}
	if err := resetOf(t, m, r, nil); err != nil {
		t.Fatal(err)
	}
	if r.Node.DriverString(fieldPassword) != next || r.Node.DriverInfo[fieldNewPassword] != nil || len(d.Written()) != 1 {
		t.Errorf("driver_info %v, written %d times", r.Node.DriverInfo[fieldNewPassword], len(d.Written()))
	}
}

// What an iLO does not take leaves driver_info and the account as they are, and is in no error.
func TestNewPasswordIsRefused(t *testing.T) {
	for says, c := range map[string]struct {
		password any
		set      func(*double)
		is       error
	}{
		"is too short":       {"sh0rt+1", nil, nil},
		"39 at most":         {strings.Repeat("long", 10), nil, driver.ErrInvalid},
		"must be a string":   {7.0, nil, driver.ErrInvalid},
		"no account found":   {next, func(d *double) { d.At[usersAt+"/2"]["UserName"] = "other" }, driver.ErrInvalid},
		"no account service": {next, func(d *double) { delete(d.At["/redfish/v1"], "AccountService") }, driver.ErrUnsupported},
		"refuses user \"admin\"": {next, func(d *double) {
			d.Write = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
				redfishtest.Refuse(w, http.StatusForbidden, "no right")
				return true
			}
		}, driver.ErrDenied},
	} {
		d, m := newDouble(t), management(t)
		withAccounts(d)
		if c.set != nil {
			d.Do(func() { c.set(d) })
		}
		r := drivertest.NewRig()
		r.Node.DriverInfo = d.info(redfishtest.Password)
		err := resetOf(t, m, r, map[string]any{fieldPassword: c.password})
		if err == nil || !strings.Contains(err.Error(), says) || c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), fmt.Sprint(c.password)) {
			t.Errorf("%s: %v", says, err)
		}
		if r.Node.DriverString(fieldPassword) != redfishtest.Password {
			t.Errorf("%s: driver_info has %q", says, r.Node.DriverString(fieldPassword))
		}
		if _, err := m.PowerState(t.Context(), r.Node); err != nil {
			t.Errorf("%s: the account does not do any more: %v", says, err)
		}
	}
}

// An answer that is lost: the next run tries the new password first, and gives no order that is done.
func TestNewPasswordWithoutAnAnswer(t *testing.T) {
	for _, done := range []bool{true, false} {
		d, m := newDouble(t), management(t)
		withAccounts(d)
		write, lost := d.Write, false
		d.Do(func() {
			d.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
				if !lost {
					if lost = true; done {
						write(httptest.NewRecorder(), r, body)
					}
					panic(http.ErrAbortHandler)
				}
				return write(w, r, body)
			}
		})
		r := drivertest.NewRig()
		r.Node.DriverInfo = d.info(redfishtest.Password)
		args := map[string]any{fieldPassword: next}
		if err := resetOf(t, m, r, args); !errors.Is(err, driver.ErrUnknown) || strings.Contains(err.Error(), next) {
			t.Fatalf("carried out %t: %v", done, err)
		}
		if !done {
			// The login that is refused then rests for a while, and the step with it. Another rackd has not seen it.
			task := r.Task(networkboot.IPXE())
			task.Args = args
			steps := m.NamedSteps(r.Node)
			out, err := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == resetCredential })].Run(t.Context(), task)
			if poll, waits := out.Waiting(); err != nil || !waits || poll < time.Minute {
				t.Fatalf("%v, waits %s", err, poll)
			}
			r.NextStep()
		}
		err := resetOf(t, management(t), r, args)
		want := map[bool]int{true: 1, false: 2}[done]
		if err != nil || r.Node.DriverString(fieldPassword) != next || len(d.Written()) != want {
			t.Errorf("carried out %t: %v, driver_info follows %t, written %d times, want %d", done, err, r.Node.DriverString(fieldPassword) == next, len(d.Written()), want)
		}
	}
}

// A request that takes the wish out of driver_info while the iLO may have the new password does not leave that unknown.
func TestNewPasswordThatIsNoLongerWished(t *testing.T) {
	d, m := newDouble(t), management(t)
	withAccounts(d)
	write, lost := d.Write, false
	d.Do(func() {
		d.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
			if !lost {
				lost = true
				write(httptest.NewRecorder(), r, body)
				panic(http.ErrAbortHandler)
			}
			return write(w, r, body)
		}
	})
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	r.Node.DriverInfo[fieldNewPassword] = next
	if err := resetOf(t, m, r, nil); !errors.Is(err, driver.ErrUnknown) {
		t.Fatal(err)
	}
	delete(r.Node.DriverInfo, fieldNewPassword)
	steps := m.NamedSteps(r.Node)
	out, err := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == resetCredential })].Run(t.Context(), r.Task(networkboot.IPXE()))
	if _, waits := out.Waiting(); err != nil || waits || r.Node.DriverString(fieldPassword) != next || len(d.Written()) != 1 {
		t.Errorf("%v, waits %t, driver_info follows %t, written %d times", err, waits, r.Node.DriverString(fieldPassword) == next, len(d.Written()))
	}
}

// A node that wishes the password that it has is not asked for it again: the wish goes, and nothing is written to the iLO.
func TestNewPasswordThatTheNodeHas(t *testing.T) {
	d, m := newDouble(t), management(t)
	withAccounts(d)
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	r.Node.DriverInfo[fieldNewPassword] = redfishtest.Password
	if err := resetOf(t, m, r, nil); err != nil || r.Node.DriverInfo[fieldNewPassword] != nil || r.Node.DriverString(fieldPassword) != redfishtest.Password || len(d.Written()) > 0 {
		t.Errorf("%v, the wish stays %t, written %d times", err, r.Node.DriverInfo[fieldNewPassword] != nil, len(d.Written()))
	}
}

// An iLO that speaks RIBCL only gets it in a script; proliantutils sends the same.
func TestNewPasswordByRIBCL(t *testing.T) {
	password, told := "pw-of-before", []string(nil)
	login := regexp.MustCompile(`<LOGIN USER_LOGIN="admin" PASSWORD="([^"]*)">`)
	set := regexp.MustCompile(`(?s)<USER_INFO MODE="write">\s*<MOD_USER USER_LOGIN="admin"><PASSWORD value="([^"]*)"/></MOD_USER>\s*</USER_INFO>`)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ribcl" {
			http.NotFound(w, r)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		status, body := `STATUS="0x0000" MESSAGE='No error'`, ""
		if m := login.FindStringSubmatch(string(raw)); m == nil || m[1] != password {
			status = `STATUS="0x005F" MESSAGE='Login failed.'`
		} else if m := set.FindStringSubmatch(string(raw)); m != nil {
			password, told = m[1], append(told, m[1])
		} else {
			body = `<GET_HOST_POWER HOST_POWER="ON"/>`
		}
		fmt.Fprint(w, `<?xml version="1.0"?><RIBCL VERSION="2.23"><RESPONSE `+status+`/>`+body+`</RIBCL>`)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{fieldAddress: u.Hostname(), fieldPort: u.Port(), fieldUser: "admin", fieldPassword: password,
		fieldVerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}
	if err := resetOf(t, auto(t), r, map[string]any{fieldPassword: next}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != next || r.Node.DriverString(fieldPassword) != next {
		t.Errorf("told %q", told)
	}
}
