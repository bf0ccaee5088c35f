package ilo

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const (
	accountsAt  = "/redfish/v1/AccountService"
	networkAt   = manager + "/NetworkProtocol"
	securityAt  = manager + "/SecurityService"
	dashboardAt = securityAt + "/SecurityDashboard"
	linesAt     = dashboardAt + "/SecurityParams"
)

// withDashboard gives a double what HPE's security dashboard judges, in the words of an iLO 5.
func withDashboard(d *double) {
	link := redfishtest.Link
	d.Do(func() {
		d.At["/redfish/v1"]["AccountService"] = link(accountsAt + "/")
		d.At[accountsAt] = map[string]any{"Oem": map[string]any{"Hpe": map[string]any{"MinPasswordLength": 8.0, "EnforcePasswordComplexity": false, "AuthFailureLoggingThreshold": 3.0}}}
		d.At[manager]["NetworkProtocol"] = link(networkAt + "/")
		hpe := d.At[manager]["Oem"].(map[string]any)["Hpe"].(map[string]any)
		hpe["RequiredLoginForiLORBSU"], hpe["RequireHostAuthentication"] = false, false
		hpe["Links"].(map[string]any)["SecurityService"] = link(securityAt + "/")
		d.At[networkAt] = map[string]any{"IPMI": map[string]any{"Port": 623.0, "ProtocolEnabled": true}}
		d.At[securityAt] = map[string]any{"Links": map[string]any{"SecurityDashboard": link(dashboardAt + "/")}}
		d.At[dashboardAt] = map[string]any{"SecurityParameters": link(linesAt + "/")}
		var paths []string
		for i, name := range []string{"Security Override Switch", "IPMI/DCMI Over LAN", "Minimum Password Length", "Require Login for iLO RBSU", "Authentication Failure Logging", "Secure Boot",
			"Password Complexity", "Require Host Authentication"} {
			at := fmt.Sprintf("%s/%d", linesAt, i)
			paths = append(paths, at)
			d.At[at] = map[string]any{"Name": name, "Ignore": false, "SecurityStatus": "Ok", "State": "Off"}
		}
		d.At[linesAt] = redfishtest.Links(paths...)
	})
}

func parametersArg(list ...map[string]any) map[string]any {
	var all []any
	for _, p := range list {
		all = append(all, p)
	}
	return map[string]any{argParameters: all}
}

// What reaches the iLO is what proliantutils sends it. What is already so is not sent.
func TestSecurityInHPEsWords(t *testing.T) {
	d, m := newDouble(t), management(t)
	withDashboard(d)
	patch := func(at, body string) string { return "PATCH " + at + " " + body }
	for _, c := range []struct {
		step string
		args map[string]any
		want []string
	}{
		{"update_minimum_password_length", map[string]any{argLength: 12.0, argIgnore: true}, []string{patch(linesAt+"/2", `{"Ignore":true}`), patch(accountsAt, `{"Oem":{"Hpe":{"MinPasswordLength":12}}}`)}},
		{"update_minimum_password_length", nil, []string{patch(linesAt+"/2", `{"Ignore":false}`), patch(accountsAt, `{"Oem":{"Hpe":{"MinPasswordLength":8}}}`)}},
		{"update_auth_failure_logging_threshold", map[string]any{argThreshold: 3.0}, nil},
		{"update_auth_failure_logging_threshold", map[string]any{argIgnore: "no"}, []string{patch(accountsAt, `{"Oem":{"Hpe":{"AuthFailureLoggingThreshold":1}}}`)}},
		{"security_parameters_update", parametersArg(map[string]any{"param": "password_complexity"}, map[string]any{"param": "require_login_for_ilo_rbsu", "enable": "true"},
			map[string]any{"param": "ipmi_over_lan", "enable": false, "ignore": true}, map[string]any{"param": "require_host_authentication"}),
			[]string{patch(accountsAt, `{"Oem":{"Hpe":{"EnforcePasswordComplexity":true}}}`), patch(manager, `{"Oem":{"Hpe":{"RequiredLoginForiLORBSU":true}}}`),
				patch(linesAt+"/1", `{"Ignore":true}`), patch(networkAt, `{"IPMI":{"ProtocolEnabled":false}}`), patch(manager, `{"Oem":{"Hpe":{"RequireHostAuthentication":true}}}`)}},
		{"security_parameters_update", parametersArg(map[string]any{"param": "secure_boot", "enable": true}), []string{patch(redfishtest.System+"/SecureBoot", `{"SecureBootEnable":true}`)}},
	} {
		for _, want := range [][]string{c.want, nil} { // the second time nothing is left to do
			before := len(d.Written())
			if _, err := stepOf(t, d, m, c.step, c.args); err != nil {
				t.Errorf("%s %v: %v", c.step, c.args, err)
			}
			if got := d.Written()[before:]; !slices.Equal(got, want) {
				t.Errorf("%s %v\n sent %q\n want %q", c.step, c.args, got, want)
			}
		}
	}
}

// What cannot be is refused before anything is sent, and an iLO that does not keep what it accepts is an error.
func TestSecurityIsRefused(t *testing.T) {
	for says, c := range map[string]struct {
		step string
		args map[string]any
		set  func(*double)
		is   error
	}{
		"Valid values are: 0 to 39":                         {"update_minimum_password_length", map[string]any{argLength: 40.0}, nil, driver.ErrInvalid},
		"It must be a whole number":                         {"update_minimum_password_length", map[string]any{argLength: 8.5}, nil, driver.ErrInvalid},
		"Valid values are: 0, 1, 2, 3, 5":                   {"update_auth_failure_logging_threshold", map[string]any{argThreshold: 4.0}, nil, driver.ErrInvalid},
		"give true or false":                                {"update_auth_failure_logging_threshold", map[string]any{argIgnore: "perhaps"}, nil, driver.ErrInvalid},
		"is missing the required 'param' field":             {"security_parameters_update", parametersArg(map[string]any{"enable": true}), nil, driver.ErrInvalid},
		"Security parameter 'snmp' is not a valid":          {"security_parameters_update", parametersArg(map[string]any{"param": "snmp"}), nil, driver.ErrInvalid},
		"is not a list of parameters":                       {"security_parameters_update", parametersArg(), nil, driver.ErrInvalid},
		"no security dashboard":                             {"update_minimum_password_length", nil, func(d *double) { delete(d.At[securityAt], "Links") }, driver.ErrUnsupported},
		`dashboard has no parameter "Minimum"`:              {"update_minimum_password_length", nil, func(d *double) { d.At[linesAt] = redfishtest.Links(linesAt + "/0") }, driver.ErrUnsupported},
		"it shows no MinPasswordLength":                     {"update_minimum_password_length", nil, func(d *double) { d.At[accountsAt]["Oem"] = map[string]any{} }, driver.ErrUnsupported},
		"it accepted MinPasswordLength 9 and shows 8":       {"update_minimum_password_length", map[string]any{argLength: 9.0}, forgets, nil},
		"it accepted Ignore true and shows false":           {"update_minimum_password_length", map[string]any{argIgnore: true}, forgets, nil},
		"set the security parameter minimum_password_lengt": {"update_minimum_password_length", map[string]any{argLength: 9.0}, denies, driver.ErrDenied},
	} {
		d, m := newDouble(t), management(t)
		withDashboard(d)
		if c.set != nil {
			d.Do(func() { c.set(d) })
		}
		_, err := stepOf(t, d, m, c.step, c.args)
		if err == nil || !strings.Contains(err.Error(), says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s %v: %v, want %q", c.step, c.args, err, says)
		}
		if w := d.Written(); errors.Is(err, driver.ErrInvalid) && len(w) > 0 {
			t.Errorf("%s: %v was sent", says, w)
		}
	}
}

// forgets accepts what it is sent, and keeps nothing of it.
func forgets(d *double) {
	d.Write = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "{}")
		return true
	}
}

// denies has a user without the right to configure an iLO.
func denies(d *double) {
	d.Write = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		redfishtest.Refuse(w, http.StatusForbidden, "insufficient privilege")
		return true
	}
}

// Central seals the argument password_length, for its name. Its value is judged when it is open.
func TestASealedLengthOfPasswords(t *testing.T) {
	m := management(t)
	for _, s := range m.NamedSteps(&node.Document{}) {
		if s.Name != "update_minimum_password_length" {
			continue
		}
		if err := s.Check(&node.Document{}, map[string]any{argLength: seal.Withheld, argIgnore: true}); err != nil {
			t.Errorf("a sealed length: %v", err)
		}
		if err := s.Check(&node.Document{}, map[string]any{argLength: seal.Withheld, argIgnore: "perhaps"}); err == nil {
			t.Error("what is beside a sealed length is not judged")
		}
	}
}
