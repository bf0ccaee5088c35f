package networkdata

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// Nova's own example, with an interface that asks DHCP beside it.
const example = `{"links": [
	{"id": "a", "type": "phy", "ethernet_mac_address": "A0:36:9F:2C:E8:80", "mtu": 9000, "vif_id": null},
	{"id": "b", "type": "phy", "ethernet_mac_address": "a0:36:9f:2c:e8:81", "mtu": null}],
 "networks": [
	{"id": "n0", "link": "a", "type": "ipv4", "ip_address": "10.184.0.244", "netmask": "255.255.240.0",
	 "routes": [{"network": "10.0.0.0", "netmask": "255.0.0.0", "gateway": "11.0.0.1"}, {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "23.253.157.1"}],
	 "services": [{"type": "dns", "address": "8.8.4.4"}]},
	{"id": "n1", "link": "a", "type": "ipv6", "ip_address": "2001:cdba::3257:9652/64", "gateway": "fd00::1"},
	{"id": "n2", "link": "b", "type": "ipv4_dhcp"}],
 "services": [{"type": "dns", "address": "8.8.8.8"}]}`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	pre, addr := netip.MustParsePrefix, netip.MustParseAddr
	want := []Interface{
		{MAC: "a0:36:9f:2c:e8:80", MTU: 9000, Addresses: []netip.Prefix{pre("10.184.0.244/20"), pre("2001:cdba::3257:9652/64")},
			Routes: []Route{{pre("10.0.0.0/8"), addr("11.0.0.1")}, {pre("0.0.0.0/0"), addr("23.253.157.1")}, {pre("::/0"), addr("fd00::1")}},
			DNS:    []netip.Addr{addr("8.8.4.4"), addr("8.8.8.8")}},
		{MAC: "a0:36:9f:2c:e8:81", DHCP: true, DNS: []netip.Addr{addr("8.8.8.8")}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if all := Addresses(got); len(all) != 2 || !AsksDHCP(got) || AsksDHCP(got[:1]) {
		t.Errorf("addresses %v", all)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, says string
		unsupported    bool
	}{
		"a bond":            {`"id": "b", "type": "phy"`, `"id": "b", "type": "bond"`, `"b" is of type "bond"`, true},
		"a VLAN":            {`"id": "b", "type": "phy"`, `"id": "b", "type": "vlan"`, "vlan", true},
		"no MAC address":    {"a0:36:9f:2c:e8:81", "", "ethernet_mac_address", false},
		"one for two":       {"a0:36:9f:2c:e8:81", "a0:36:9f:2c:e8:80", "another has", false},
		"another link":      {`"link": "b"`, `"link": "c"`, `"c", which is none`, false},
		"a netmask of bits": {"255.255.240.0", "255.0.240.0", "no netmask", false},
		"a strange gateway": {`"gateway": "11.0.0.1"`, `"gateway": "fd00::2"`, "route", false},
		"a name server":     {"8.8.8.8", "ns.example", "name server", false},
		"SLAAC":             {"ipv4_dhcp", "ipv6_slaac", "ipv6_slaac", true},
		"a small MTU":       {"9000", "9", "mtu", false},
		"no JSON":           {"{", "[", "network_data", false},
	} {
		if _, err := Parse([]byte(strings.Replace(example, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrUnsupported) != c.unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the agent reads comes from a medium. It is read without a panic, and what is accepted names its interfaces.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := Parse(raw)
		for _, i := range list {
			if err == nil && len(i.MAC) != 17 {
				t.Errorf("MAC address %q", i.MAC)
			}
		}
	})
}
