package bmc

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

func TestFailuresAreExplained(t *testing.T) {
	said := "no\r\nway\x1b[2J, s3cret is wrong " + strings.Repeat("x", 1000)
	const at = "node web1 (b3d1): read the power state: BMC https://bmc"
	for name, c := range map[string]struct {
		err, want error
		says      string
	}{
		"refused":               {&Failure{Class: Refused, Said: "HTTP 400: no"}, nil, at + " answered HTTP 400: no"},
		"unknown":               {&Failure{Class: Unknown, Said: "HTTP 504: gone"}, driver.ErrUnknown, at + " answered HTTP 504: gone: outcome unknown"},
		"unreachable":           {&Failure{Class: Unreachable, Said: "no route"}, driver.ErrUnreachable, at + " does not answer (no route): check x_address,"},
		"denied":                {&Failure{Class: Denied, Said: said}, driver.ErrDenied, at + ` refuses user "admin" (no way [2J, ****** is wrong xxx`},
		"busy":                  {&Failure{Class: Busy, Said: "C0h"}, driver.ErrUnreachable, at + " is busy, it answered C0h: unreachable"},
		"invalid":               {&Failure{Class: Invalid, Said: "no such outlet"}, driver.ErrInvalid, at + " answered no such outlet: invalid parameters"},
		"unsupported":           {&Failure{Class: Unsupported, Said: "C1h"}, driver.ErrUnsupported, at + " answered C1h: not supported"},
		"held back":             {&heldBack{cause: &Failure{Class: Denied, Said: "401"}, until: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), alone: true}, driver.ErrDenied, "(401): check x_username and x_password, and that the user may operate machines; rackd does not try these credentials again before 15:04:05 UTC"},
		"held for good":         {&heldBack{cause: &Failure{Class: Denied, Said: "401"}}, driver.ErrDenied, "so that the account is not locked. Correct driver_info. If it is right, correct the account at the BMC, and ask for something of the node, as by `baremetal node power on b3d1`: credentials refused"},
		"refused for good":      {&heldBack{cause: errors.Join(errors.New("wrong key"), driver.ErrDenied), until: time.Now().Add(time.Hour), tried: true}, driver.ErrDenied, "rackd does not log in again by itself, so that the account is not locked. Correct driver_info. If it is right, correct the account at the BMC, and after "},
		"lost write":            {&Lost{Err: errors.New("EOF"), Unknown: true}, driver.ErrUnknown, at + " got the request and did not answer (EOF): outcome unknown"},
		"lost read":             {&url.Error{Op: "Get", URL: "https://bmc/s3cret", Err: &Lost{Err: errors.New("EOF")}}, driver.ErrUnreachable, at + " does not answer (EOF): check x_address,"},
		"untrusted":             {&Lost{Err: x509.UnknownAuthorityError{}}, driver.ErrInvalid, "set driver_info x_verify_ca to its PEM"},
		"a sentinel":            {errors.Join(errors.New("s3cret"), driver.ErrUnsupported), driver.ErrUnsupported, at + ": ****** not supported"},
		"a target that is kept": {fmt.Errorf("s3cret: %w", driver.ErrTargetKept), driver.ErrTargetKept, at + ": ******: the BMC keeps a target"},
		"anything else":         {errors.New(said), nil, at + ": no way [2J, ****** is wrong"},
		"nothing":               {nil, nil, ""},
		"a failure with cause":  {&Failure{Class: Busy, Said: "503", Cause: driver.ErrUnsupported}, driver.ErrUnsupported, at + ": not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Attempt{Node: &node.Document{UUID: "b3d1", Name: "web1"}, Doing: "read the power state", BMC: "https://bmc", User: "admin", Secrets: []string{"", "s3cret"},
				Fields: Fields{Address: "x_address", User: "x_username", Password: "x_password", VerifyCA: "x_verify_ca"}}.Explain(c.err)
			if c.err == nil {
				if err != nil {
					t.Errorf("%v, want none", err)
				}
				return
			}
			if text := err.Error(); !strings.Contains(text, c.says) || strings.Contains(text, "s3cret") || strings.ContainsAny(text, "\r\n\x1b") || len(text) > 800 {
				t.Errorf("%q; want %q", text, c.says)
			}
			for _, is := range []error{driver.ErrUnknown, driver.ErrUnreachable, driver.ErrDenied, driver.ErrInvalid, driver.ErrUnsupported, driver.ErrTargetKept} {
				if errors.Is(err, is) != (is == c.want) {
					t.Errorf("%v: is %v: %t", err, is, errors.Is(err, is))
				}
			}
		})
	}
}

func TestOrderAsksTheFenceAndKeepsItsError(t *testing.T) {
	f := &drivertest.Fence{}
	answered := &Failure{Class: Busy, Said: "C0h"}
	for name, c := range map[string]struct {
		left    bool
		err     error
		unknown bool
	}{
		"answered":            {true, nil, false},
		"refused":             {true, answered, false},
		"lost after it left":  {true, errors.New("timeout"), true},
		"lost before it left": {false, errors.New("no route"), false},
	} {
		checks := f.Checks.Load()
		err := Order(f, func() (bool, error) { return c.left, c.err })
		gone, _ := errors.AsType[*Lost](err)
		if !errors.Is(err, c.err) || (gone != nil && gone.Unknown) != c.unknown || f.Checks.Load() != checks+1 {
			t.Errorf("%s: %v, unknown %t, %d checks", name, err, gone != nil, f.Checks.Load()-checks)
		}
	}
	f.Lose()
	never := func() (bool, error) { t.Error("it left"); return true, nil }
	about := Attempt{Node: &node.Document{}}
	if err := Order(f, never); !errors.Is(err, driver.ErrFenced) || about.Explain(err) != err {
		t.Errorf("%v, want the fence's own error", err)
	}
	if err := Order(nil, never); err == nil {
		t.Error("a write without a fence has no error")
	}
}

// BMCs, and what stands before them, repeat requests in their errors: a body in JSON, a page in HTML, a header.
func TestSecretsAreTakenOutInEachForm(t *testing.T) {
	const secret = `p"a&s/s+w\rd`
	a := Attempt{Node: &node.Document{UUID: "b3d1"}, Doing: "log in", BMC: "https://bmc", User: "admin", Secrets: []string{secret}}
	inJSON, err := json.Marshal(map[string]string{"Password": secret})
	if err != nil {
		t.Fatal(err)
	}
	for form, said := range map[string]string{
		"as it is": secret,
		"JSON":     string(inJSON),
		"HTML":     html.EscapeString(secret),
		"a query":  url.QueryEscape(secret),
		"a path":   url.PathEscape(secret),
		"Basic":    base64.StdEncoding.EncodeToString([]byte("admin:" + secret)),
		"base64":   base64.StdEncoding.EncodeToString([]byte(secret)),
	} {
		text := a.Explain(&Failure{Said: "HTTP 400: cannot read <" + said + ">"}).Error()
		if strings.Contains(text, strings.Trim(said, `{}`)) || strings.Contains(text, "a&s") || strings.Contains(text, `s/s+w`) || !strings.Contains(text, "******") {
			t.Errorf("%s: %s", form, text)
		}
	}
}
