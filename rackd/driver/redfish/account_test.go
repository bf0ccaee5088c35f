package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1":                    "https://10.0.0.1",
		"bmc.example:8443":            "https://bmc.example:8443",
		"fd00::1":                     "https://[fd00::1]",
		"[fd00::1]:443":               "https://[fd00::1]:443",
		"https://bmc/":                "https://bmc",
		"https://bmc/redfish/v1/":     "https://bmc",
		"http://bmc":                  "http://bmc",
		"ftp://bmc":                   "",
		"https://u:p@bmc":             "",
		"https://bmc/elsewhere":       "",
		"https://bmc?x=1":             "",
		"https://":                    "",
		"https://bmc\r\nHost: other/": "",
	} {
		if got, err := endpointOf(address, own.Names); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
}

func TestValidateNamesAllThatIsWrong(t *testing.T) {
	n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldUser: "admin", fieldAuth: "kerberos", fieldSystem: "/redfish/../../etc"}}
	err := New(Options{}).Validate(n)
	if !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("%v, want ErrInvalid", err)
	}
	for _, field := range []string{fieldAddress, fieldPassword, fieldAuth, fieldSystem} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q does not name %s", err, field)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("https://bmc", "/redfish/v1/Systems/1")
	f.Add("[::1]:443", "a@b")
	f.Fuzz(func(t *testing.T, address, system string) {
		a, err := own.parse(&node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: address, fieldSystem: system}})
		if err != nil {
			return
		}
		if !strings.HasPrefix(a.endpoint, "http") || strings.ContainsAny(a.endpoint[len("https://"):], "/@?# \r\n") {
			t.Errorf("%q became the endpoint %q", address, a.endpoint)
		}
		if a.system != "" && (a.system[0] != '/' || strings.ContainsAny(a.system, "@?# \r\n")) {
			t.Errorf("%q became the system %q", system, a.system)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("pass\x1b[2J", "pass")
	f.Fuzz(func(t *testing.T, said, password string) {
		got := account{password: password}.clean(said)
		if len([]rune(got)) > 401 || strings.ContainsAny(got, "\r\n\x1b") {
			t.Errorf("%q became %q", said, got)
		}
	})
}

// Blades behind one BMC share its account; a corrected password makes another one.
func TestAccountNamesBMCAndCredentials(t *testing.T) {
	d := New(Options{})
	of := func(address, user, password, system string) string {
		return d.Account(&node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: address, fieldUser: user, fieldPassword: password, fieldSystem: system}})
	}
	blade1, blade2 := of("https://bmc", "admin", "secret", "1"), of("bmc", "admin", "secret", "2")
	if blade1 == "" || blade1 != blade2 {
		t.Errorf("two blades have the accounts %q and %q", blade1, blade2)
	}
	for what, other := range map[string]string{"password": of("bmc", "admin", "better", "1"), "user": of("bmc", "root", "secret", "1"), "BMC": of("bmc2", "admin", "secret", "1")} {
		if other == blade1 {
			t.Errorf("another %s, the same account", what)
		}
	}
	if strings.Contains(blade1, "secret") || of("ftp://bmc", "admin", "secret", "") != "" {
		t.Error("the account shows the password, or there is one without an address")
	}
	var _ driver.Accounted = d
}
