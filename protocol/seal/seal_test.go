package seal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// of is a label of a node.
func of(node string) Label { return Label{Kind: DriverInfo, Of: node} }

func TestSealOpensForItsNodeOnly(t *testing.T) {
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s := k.Seal(of("node-1"), "hunter2")
	if strings.Contains(s, "hunter2") {
		t.Fatal("sealed value shows the secret")
	}
	if got, err := k.Open(of("node-1"), s); err != nil || got != "hunter2" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if _, err := k.Open(of("node-2"), s); !errors.Is(err, ErrOpen) {
		t.Errorf("opened for another node: %v", err)
	}
	group, err := k.ForGroup("rack1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := group.Open(of("node-1"), s); !errors.Is(err, ErrOpen) {
		t.Errorf("opened under another key: %v", err)
	}
	again, err := ParseKey(k.Text())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.Open(of("node-1"), s); got != "hunter2" {
		t.Error("a key read back from its text does not open")
	}
}

func TestFields(t *testing.T) {
	k, _ := GenerateKey()
	in := map[string]any{"redfish_password": "a", "redfish_address": "https://x", "deep": map[string]any{"snmp_auth_key": "b"}, "n": 1.0}
	sealed := k.SealFields(of("n"), in)
	if sealed["redfish_address"] != "https://x" || !Sealed(sealed["redfish_password"].(string)) ||
		!Sealed(sealed["deep"].(map[string]any)["snmp_auth_key"].(string)) {
		t.Errorf("sealed fields: %v", sealed)
	}
	open, err := k.OpenFields(of("n"), sealed)
	if err != nil || open["redfish_password"] != "a" || open["deep"].(map[string]any)["snmp_auth_key"] != "b" {
		t.Errorf("opened fields: %v, %v", open, err)
	}
	if m := MaskFields(map[string]any{"a": []any{map[string]any{"http_proxy": "http://u:pass@p"}}}, "***"); strings.Contains(fmt.Sprint(m), "pass") {
		t.Errorf("of a proxy it shows %v", m)
	}
	if m := MaskFields(in, "***"); m["redfish_password"] != "***" || m["n"] != 1.0 {
		t.Errorf("masked fields: %v", m)
	}
}

func FuzzOpen(f *testing.F) {
	k, _ := NewKey(make([]byte, 32))
	f.Add(k.Seal(of("n"), "x"))
	f.Add(Prefix)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := k.Open(of("other"), s); err == nil {
			t.Errorf("opened %q as %q for a node it was not sealed for", s, got)
		}
	})
}

// What OpenStack's services mask is a secret here, too, and sealed.
func TestSecretsAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{"ipmi_password": true, "ipmi_hex_kg_key": true, "redfish_password": true, "snmp_auth_key": true, "snmp_priv_key": true, "adminPass": true,
		"admin_pass": true, "new_pass": true, "sys_pswd": true, "Auth_Token": true, "client_secret": true, "private_key": true, "sslkey": true, "passphrase": true, "ssh_key_contents": true, "ssh_host_key": false,
		"redfish_username": false, "redfish_address": false, "deploy_kernel": false, "bypass": false, "pass_through": false, "monkey": false} {
		if got := IsSecret(name); got != want {
			t.Errorf("%s: a secret is %t, want %t", name, got, want)
		}
	}
}
