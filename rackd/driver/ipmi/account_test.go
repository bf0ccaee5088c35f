package ipmi

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

func nodeOf(fields map[string]any) *node.Document {
	info := map[string]any{fieldAddress: "192.0.2.7", fieldUser: "admin", fieldPassword: "s3cret-pass"}
	for k, v := range fields {
		if info[k] = v; v == nil {
			delete(info, k)
		}
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

// Each field is checked, and an error says what may be given, without the secrets.
func TestRefusedFields(t *testing.T) {
	d := New(Options{})
	for _, c := range []struct {
		fields map[string]any
		words  string
	}{
		{map[string]any{fieldAddress: nil}, "Missing the following IPMI credentials"},
		{map[string]any{fieldAddress: "192.0.2.7:623"}, "Invalid IPMI address"},
		{map[string]any{fieldAddress: "https://bmc"}, "Invalid IPMI address"},
		{map[string]any{fieldAddress: "a b"}, "Invalid IPMI address"},
		{map[string]any{fieldAddress: "127.0.0.1"}, "loopback"},
		{map[string]any{fieldPort: "0"}, `ipmi_port "0" is out of range. Valid port numbers must be between 1 and 65535`},
		{map[string]any{fieldPort: "telnet"}, `ipmi_port "telnet" is not a valid integer`},
		{map[string]any{fieldTerminal: 70000}, `ipmi_terminal_port "70000" is out of range`},
		{map[string]any{fieldTerminal: "ttyS0"}, `ipmi_terminal_port "ttyS0" is not a valid integer`},
		{map[string]any{fieldUser: "a-name-of-17-byte"}, "more than 16 bytes"},
		{map[string]any{fieldPassword: strings.Repeat("s3cret-pass", 2)}, "ipmi_password has more than 20 bytes"},
		{map[string]any{fieldPassword: "s3cret-pass-17-by", fieldVersion: "1.5"}, "ipmi_password has more than 16 bytes"},
		{map[string]any{fieldPrivilege: "ROOT"}, "Invalid privilege level value"},
		{map[string]any{fieldVersion: "3.0"}, "Invalid IPMI protocol version value"},
		{map[string]any{fieldSuite: "best"}, "expected a number"},
		{map[string]any{fieldSuite: 0}, "lets everyone in"},
		{map[string]any{fieldSuite: 1}, "forged"},
		{map[string]any{fieldSuite: 8}, "MD5"},
		{map[string]any{fieldSuite: 4}, "RC4"},
		{map[string]any{fieldSuite: 99}, "no such suite"},
		{map[string]any{fieldSuite: 3, fieldVersion: "1.5"}, "Cipher suites cannot be used with IPMI 1.5"},
		{map[string]any{fieldKey: "012"}, "characters is not even"},
		{map[string]any{fieldKey: "5ecret"}, "not hexadecimal"},
		{map[string]any{fieldKey: strings.Repeat("ab", 21)}, "more than 40 digits"},
		{map[string]any{fieldKey: "ab", fieldVersion: "1.5"}, "is of IPMI 2.0"},
		{map[string]any{fieldBridging: "triple"}, "Invalid value for ipmi_bridging"},
		{map[string]any{fieldBridging: "single", fieldTargetChannel: "0"}, "ipmi_target_address not provided"},
		{map[string]any{fieldBridging: "dual", fieldTargetChannel: "0", fieldTargetAddress: "0x72"}, "ipmi_transit_channel not provided"},
		{map[string]any{fieldBridging: "single", fieldTargetChannel: "16", fieldTargetAddress: "0x72"}, "ipmi_target_channel"},
		{map[string]any{fieldBridging: "single", fieldTargetChannel: "0", fieldTargetAddress: "0x172"}, "ipmi_target_address"},
		{map[string]any{fieldNoTimeout: "perhaps"}, "ipmi_disable_boot_timeout"},
		{map[string]any{fieldForce: "perhaps"}, "ipmi_force_boot_device"},
	} {
		err := d.Validate(nodeOf(c.fields))
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "web1") {
			t.Errorf("%v: %v; want %q", c.fields, err, c.words)
			continue
		}
		for _, secret := range []string{"s3cret-pass", "5ecret"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v: the error tells a secret: %v", c.fields, err)
			}
		}
	}
}

// What is not given has Ironic's default.
func TestDefaults(t *testing.T) {
	a, err := parse(nodeOf(map[string]any{fieldUser: nil, fieldPassword: nil}))
	if err != nil {
		t.Fatal(err)
	}
	if a.place() != "192.0.2.7:623" || a.user != "" || a.password != "" || a.privilege != lan.Administrator || a.old || a.suite != -1 || a.key != nil ||
		a.bridge != nil || !a.noTimeout || a.force {
		t.Errorf("%+v", a)
	}
	a, err = parse(nodeOf(map[string]any{fieldAddress: "fd00::7", fieldPort: 6230, fieldVersion: 2.0, fieldSuite: 17, fieldForce: "True", fieldNoTimeout: false, fieldPrivilege: "OPERATOR",
		fieldBridging: "dual", fieldTargetChannel: 7, fieldTargetAddress: "0x72", fieldTransitChannel: "0", fieldTransitAddress: "0x82", fieldLocal: "0x21", fieldKey: "00ff"}))
	if err != nil {
		t.Fatal(err)
	}
	want := lan.Bridge{Local: 0x21, Dual: true, TransitAddress: 0x82, TargetChannel: 7, TargetAddress: 0x72}
	if a.place() != "[fd00::7]:6230" || a.privilege != lan.Operator || a.suite != 17 || a.noTimeout || !a.force || *a.bridge != want || len(a.key) != 2 {
		t.Errorf("%+v %+v", a, a.bridge)
	}
}

// All that is wrong is said at once.
func TestAllThatIsWrong(t *testing.T) {
	err := New(Options{}).Validate(nodeOf(map[string]any{fieldAddress: nil, fieldPrivilege: "ROOT", fieldPort: "x"}))
	for _, field := range []string{fieldAddress, fieldPrivilege, fieldPort} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// The account changes with whatever a session depends on, and with nothing else.
func TestAccount(t *testing.T) {
	d := New(Options{})
	same := d.Account(nodeOf(nil))
	for _, fields := range []map[string]any{{fieldForce: true}, {fieldNoTimeout: false}, {fieldBridging: "single", fieldTargetChannel: 0, fieldTargetAddress: 1}} {
		if d.Account(nodeOf(fields)) != same {
			t.Errorf("%v changes the account", fields)
		}
	}
	seen := map[string]bool{same: true}
	for _, fields := range []map[string]any{{fieldAddress: "192.0.2.8"}, {fieldPort: 624}, {fieldUser: "root"}, {fieldPassword: "x"}, {fieldPrivilege: "USER"}, {fieldVersion: "1.5"}, {fieldSuite: 3}, {fieldKey: "ab"}} {
		account := d.Account(nodeOf(fields))
		if seen[account] {
			t.Errorf("%v does not change the account", fields)
		}
		seen[account] = true
	}
	if d.Account(nodeOf(map[string]any{fieldAddress: nil})) != "" {
		t.Error("a node without an address has an account")
	}
}
