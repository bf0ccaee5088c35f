package irmc

import (
	"errors"
	"strings"
	"testing"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// nodeWith is a node with fields of SNMP.
func nodeWith(more map[string]any) *node.Document {
	info := map[string]any{fieldAddress: "[2001:db8::1]", fieldPort: "443", fieldUser: "admin", fieldPassword: "pw"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "u", DriverInfo: info}
}

func TestDefaultsOfSNMP(t *testing.T) {
	got, err := readSNMP(nodeWith(nil))
	if err != nil || got.Address() != "[2001:db8::1]:161" || got.Version != gosnmp.Version2c || got.Read != "public" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = readSNMP(nodeWith(map[string]any{fieldSNMPVersion: "V3", fieldSNMPPort: 1161.0, fieldSNMPSecurity: "older",
		fieldSNMPAuthPassword: "auth-key-12", fieldSNMPPrivPassword: "priv-key-12"}))
	if err != nil || got.Address() != "[2001:db8::1]:1161" || got.Version != gosnmp.Version3 || got.User != "older" ||
		got.Auth != gosnmp.SHA || got.Priv != gosnmp.AES ||
		got.AuthKey != "auth-key-12" || got.PrivKey != "priv-key-12" || got.Names.User != fieldSNMPSecurity {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = readSNMP(nodeWith(map[string]any{fieldSNMPVersion: "v3", fieldSNMPUser: "own", fieldSNMPSecurity: "older",
		fieldSNMPAuthProto: "sha512", fieldSNMPAuthPassword: "auth-key-12", fieldSNMPPrivPassword: "priv-key-12"}))
	if err != nil || got.User != "own" || got.Auth != gosnmp.SHA512 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFieldsOfSNMP(t *testing.T) {
	d := redfish.New(redfish.Options{Dialect: Dialect})
	v3 := func(field string, value any) map[string]any {
		more := map[string]any{fieldSNMPVersion: "v3", fieldSNMPUser: "user", fieldSNMPAuthPassword: "auth-key-12",
			fieldSNMPPrivPassword: "priv-key-12"}
		more[field] = value
		return more
	}
	for _, c := range []struct {
		more map[string]any
		says string
	}{
		{v3(fieldSNMPUser, "other"), ""}, {v3(fieldSNMPPrivProto, "aes"), ""},
		{map[string]any{fieldSNMPCommunity: "c0mmunity"}, ""}, {map[string]any{fieldSNMPCommunity: nil}, ""},
		{map[string]any{fieldSNMPVersion: "2c"}, "Value '2c' is not supported for 'irmc_snmp_version'. Give v1, v2c or v3."},
		{map[string]any{fieldSNMPPort: "70000"}, `irmc_snmp_port "70000" is not a valid port.`},
		{map[string]any{fieldSNMPPort: 0.0}, `irmc_snmp_port "0" is not a valid port.`},
		{map[string]any{fieldSNMPCommunity: 12345678.0}, "The value is not a string for 'irmc_snmp_community'."},
		{map[string]any{fieldSNMPCommunity: strings.Repeat("s3cret", 30)}, "irmc_snmp_community has more than 127 characters."},
		{map[string]any{fieldSNMPVersion: "v3"},
			"The following required SNMP parameters are missing: ['irmc_snmp_user', 'irmc_snmp_auth_password', 'irmc_snmp_priv_password']"},
		{v3(fieldSNMPUser, ""), "missing: ['irmc_snmp_user']"}, {v3(fieldSNMPUser, 5.0), "The value is not a string for 'irmc_snmp_user'."},
		{v3(fieldSNMPAuthPassword, 1234567890.0), "The value is not a string for 'irmc_snmp_auth_password'."},
		{v3(fieldSNMPPrivPassword, "s3cret"), "irmc_snmp_priv_password is too short. (8+ chars required)"},
		{v3(fieldSNMPAuthProto, "md5"),
			"Invalid value md5 given for driver info parameter irmc_snmp_auth_proto, the valid values are sha, sha256, sha384, sha512."},
		{v3(fieldSNMPPrivProto, "des"), "Invalid value des given for driver info parameter irmc_snmp_priv_proto, the valid values are aes."},
	} {
		err := d.Validate(nodeWith(c.more))
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v, want %q", c.more, err, c.says)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "123456")) {
			t.Errorf("a secret stands in %v", err)
		}
	}
	for _, secret := range []string{fieldSNMPCommunity, fieldSNMPAuthPassword, fieldSNMPPrivPassword} {
		if !seal.IsSecret(secret) {
			t.Errorf("%s is not masked", secret)
		}
	}
}
