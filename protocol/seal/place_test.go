package seal

import "testing"

func TestDecidesPlace(t *testing.T) {
	for _, c := range []struct {
		field, secret string
		want          bool
	}{
		{"redfish_address", "redfish_password", true}, {"ipmi_address", "redfish_password", false}, {"drac_address", "redfish_password", false},
		// Fields of Ironic's iLO driver that do not begin with its name.
		{"client_port", "ilo_password", true}, {"ca_file", "ilo_password", true}, {"client_timeout", "ilo_password", true}, {"console_port", "ilo_password", true},
		{"address", "ilo_password", true}, {"irmc_port", "ilo_password", false},
		// Those of its SNMP, one of which is the snmp driver's too.
		{"ilo_address", "snmp_auth_priv_password", true}, {"snmp_auth_user", "ilo_password", true}, {"snmp_auth_prot_password", "snmp_auth_key", false},
		{"snmp_address", "snmp_auth_prot_password", false}, {"snmp_auth_protocol", "snmp_auth_key", true}, {"snmp_auth_protocol", "ilo_password", true},
	} {
		if got := DecidesPlace(c.field, c.secret); got != c.want {
			t.Errorf("%s decides where %s goes: %t, want %t", c.field, c.secret, got, c.want)
		}
	}
	if !IsSecret("ilo_license_key") {
		t.Error("a licence's key is no secret")
	}
}
