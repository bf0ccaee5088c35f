package snmp

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func prefixOf(text string) netip.Prefix { return netip.MustParsePrefix(text) }

const missing = "SNMP driver requires the following parameters to be set in node's driver_info: "

// Wrong fields are refused in Ironic's words.
func TestValidate(t *testing.T) {
	three := map[string]any{fieldVersion: "3", fieldUser: "admin"}
	with := func(more map[string]any) map[string]any {
		all := maps.Clone(three)
		maps.Copy(all, more)
		return all
	}
	for _, c := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldDriver: nil, fieldOutlet: nil}, missing + "['snmp_driver', 'snmp_outlet']."},
		{map[string]any{fieldAddress: ""}, missing + "['snmp_address']."},
		{map[string]any{fieldDriver: "toaster"}, "SNMPPowerDriver: unknown driver: 'toaster'"},
		{map[string]any{fieldAddress: "https://pdu.example"}, "snmp_address is neither"},
		{map[string]any{fieldAddress: "10.0.0.1:161"}, "snmp_address is neither"},
		{map[string]any{fieldAddress: "pdu.example"}, ""},
		{map[string]any{fieldAddress: "192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldVersion: "4"}, "SNMPPowerDriver: unknown SNMP version: '4'"},
		{map[string]any{fieldVersion: nil}, ""},
		{map[string]any{fieldVersion: float64(1)}, ""},
		{map[string]any{fieldPort: "many"}, `snmp_port "many" is not a valid integer.`},
		{map[string]any{fieldPort: "70000"}, "SNMPPowerDriver: SNMP UDP port out of range: 70000"},
		{map[string]any{fieldPort: float64(0)}, "SNMPPowerDriver: SNMP UDP port out of range: 0"},
		{map[string]any{fieldOutlet: "left"}, "SNMPPowerDriver: PDU power outlet index is not an integer: left"},
		{map[string]any{fieldOutlet: "0"}, "SNMPPowerDriver: PDU power outlet index is 0"},
		{map[string]any{fieldCommunity: nil}, "SNMP driver requires `snmp_community` or `snmp_community_read`/`snmp_community_write` properties to be set for version 2c."},
		{map[string]any{fieldCommunity: nil, fieldVersion: nil}, "properties to be set for version 1."},
		{map[string]any{fieldCommunity: nil, fieldCommunityRead: "r"}, "SNMP driver requires `snmp_community`"},
		{map[string]any{fieldCommunity: nil, fieldCommunityRead: "r", fieldCommunityWrite: "w"}, ""},
		{map[string]any{fieldCommunity: strings.Repeat("c", 128)}, "more than 127 characters"},
		{three, ""},
		{map[string]any{fieldVersion: "3", fieldSecurity: "admin"}, ""},
		{map[string]any{fieldVersion: "3"}, "SNMP driver requires `driver_info/snmp_user` to be set in node b3d1 configuration for SNMP version 3."},
		{with(map[string]any{fieldAuthProtocol: "rot13"}), "SNMPPowerDriver: unknown SNMPv3 authentication protocol `driver_info/snmp_auth_protocol` rot13 in node b3d1 configuration, known protocols are: none, md5"},
		{with(map[string]any{fieldPrivProtocol: "3des"}), "SNMPPowerDriver: unknown SNMPv3 privacy protocol `driver_info/snmp_priv_protocol` 3des in node b3d1 configuration, known protocols are: none, des"},
		{with(map[string]any{fieldAuthKey: "short"}), "SNMPPowerDriver: short SNMPv3 authentication key `driver_info/snmp_auth_key` in node b3d1 configuration (8+ chars required)"},
		{with(map[string]any{fieldAuthKey: "longenough", fieldPrivKey: "short"}), "SNMPPowerDriver: short SNMPv3 privacy key `driver_info/snmp_priv_key` node b3d1 configuration (8+ chars required)"},
		{with(map[string]any{fieldPrivKey: "longenough"}), "SNMPPowerDriver: SNMPv3 privacy requires authentication."},
		{with(map[string]any{fieldAuthProtocol: "sha"}), "SNMPPowerDriver: missing SNMPv3 authentication key while `driver_info/snmp_auth_protocol` is present."},
		{with(map[string]any{fieldAuthKey: "longenough", fieldPrivProtocol: "aes"}), "SNMPPowerDriver: missing SNMPv3 privacy key while `driver_info/snmp_priv_protocol` is present."},
		{with(map[string]any{fieldAuthKey: "longenough", fieldPrivKey: "longenough"}), ""},
		{with(map[string]any{fieldAuthProtocol: "none", fieldPrivProtocol: "none"}), ""},
		{with(map[string]any{fieldContextEngine: "80001f8880"}), ""},
		{with(map[string]any{fieldContextEngine: "0x80001F8880"}), ""},
		{with(map[string]any{fieldContextEngine: "8000"}), "snmp_context_engine_id"},
		{with(map[string]any{fieldContextEngine: "the engine"}), "snmp_context_engine_id"},
	} {
		err := quick(t, Options{}).Validate(nodeAt("127.0.0.1:161", "apc", c.more))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v", c.more, err)
		case c.says != "" && (err == nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that names the node once and says %q", c.more, err, c.says)
		}
	}
}

func TestDefaults(t *testing.T) {
	got, err := parse(&node.Document{UUID: "b3d1", DriverInfo: map[string]any{fieldDriver: "apc", fieldAddress: "[2001:db8::1]", fieldOutlet: "7", fieldVersion: "3",
		fieldUser: "admin", fieldAuthKey: "longenough", fieldPrivKey: "longenough2", fieldContextEngine: "0x8000000001"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Address() != "[2001:db8::1]:161" || got.outlet != 7 || got.Auth != gosnmp.MD5 || got.Priv != gosnmp.DES || got.Engine != "\x80\x00\x00\x00\x01" {
		t.Errorf("%+v", got)
	}
}

// Whatever a session depends on is part of the account; the outlet is not.
func TestAccount(t *testing.T) {
	d := quick(t, Options{})
	account := func(more map[string]any) string { return d.Account(nodeAt("127.0.0.1:161", "apc", more)) }
	same := account(nil)
	if same == "" || account(map[string]any{fieldOutlet: 4}) != same || account(map[string]any{fieldDriver: nil}) != "" {
		t.Error("the account is not that of the PDU")
	}
	for field, v := range map[string]any{fieldAddress: "127.0.0.2", fieldPort: "162", fieldVersion: "1", fieldCommunity: "other", fieldCommunityWrite: "other"} {
		if account(map[string]any{field: v}) == same {
			t.Errorf("another %s is the same account", field)
		}
	}
	if strings.Contains(same, "public") {
		t.Error("the account tells the community")
	}
}
