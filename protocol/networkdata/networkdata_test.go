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
		{ID: "a", MAC: "a0:36:9f:2c:e8:80", MTU: 9000, Addresses: []netip.Prefix{pre("10.184.0.244/20"), pre("2001:cdba::3257:9652/64")},
			Routes: []Route{{pre("10.0.0.0/8"), addr("11.0.0.1")}, {pre("0.0.0.0/0"), addr("23.253.157.1")}, {pre("::/0"), addr("fd00::1")}},
			DNS:    []netip.Addr{addr("8.8.4.4"), addr("8.8.8.8")}},
		{ID: "b", MAC: "a0:36:9f:2c:e8:81", DHCP: true, DNS: []netip.Addr{addr("8.8.8.8")}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if all := Addresses(got); len(all) != 2 || !Asks(got) || Asks(got[:1]) {
		t.Errorf("addresses %v", all)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, says string
		unsupported    bool
	}{
		"a tunnel":                  {`"id": "b", "type": "phy"`, `"id": "b", "type": "gre"`, `"b": its type is "gre"`, true},
		"no MAC address":            {"a0:36:9f:2c:e8:81", "", "ethernet_mac_address", false},
		"a MAC address of many":     {"a0:36:9f:2c:e8:81", "a1:36:9f:2c:e8:81", "no MAC address of an interface", false},
		"one for two":               {"a0:36:9f:2c:e8:81", "a0:36:9f:2c:e8:80", `"b": link "a" has its MAC address`, false},
		"one id for two":            {`"id": "b"`, `"id": "a"`, "another link has its id", false},
		"another link":              {`"link": "b"`, `"link": "c"`, `"c", which is none`, false},
		"a netmask of bits":         {"255.255.240.0", "255.0.240.0", "no netmask", false},
		"a strange gateway":         {`"gateway": "11.0.0.1"`, `"gateway": "fd00::2"`, "route", false},
		"no gateway":                {`"gateway": "11.0.0.1"`, `"gateway": ""`, "route", false},
		"a name server":             {"8.8.8.8", "ns.example", "name server", false},
		"another service":           {`"type": "dns", "address": "8.8.4.4"`, `"type": "ntp", "address": "8.8.4.4"`, `"ntp"`, true},
		"another network":           {"ipv4_dhcp", "ipv6_dhcpv6-stateful", "ipv6_dhcpv6-statef", true},
		"DHCP with an address":      {`"type": "ipv4_dhcp"`, `"type": "ipv4_dhcp", "ip_address": "10.0.0.1"`, "leave them out", true},
		"an address of the other":   {`"10.184.0.244", "netmask": "255.255.240.0"`, `"fd00::7", "netmask": "64"`, "no address that a machine can have", false},
		"an address twice":          {`"type": "ipv4_dhcp"`, `"type": "ipv4", "ip_address": "10.184.0.244/20"`, "another network has its address", false},
		"a small MTU":               {"9000", "9", "mtu", false},
		"a small MTU for IPv6":      {"9000", "1000", "IPv6 needs an mtu of 1280", false},
		"a bond's option elsewhere": {`"vif_id": null`, `"bond_mode": "802.3ad"`, "is of type phy and has \"bond_mode\"", true},
		"no JSON":                   {"{", "[", "network_data", false},
	} {
		refused(t, name, example, c.from, c.to, c.says, c.unsupported)
	}
}

// refused looks that an example is refused in these words once it is changed.
func refused(t *testing.T, name, example, from, to, says string, unsupported bool) {
	t.Helper()
	changed := strings.Replace(example, from, to, 1)
	if changed == example {
		t.Errorf("%s: the example does not have %s", name, from)
	}
	if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, ErrUnsupported) != unsupported {
		t.Errorf("%s: %v, want %q in it", name, err, says)
	}
}

// What the agent reads comes from a medium. It is read without a panic, and what is accepted can be made in its order.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(bonded))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := Parse(raw)
		if err != nil {
			return
		}
		made := map[string]bool{}
		for _, i := range list {
			var on []string
			if i.Bond != nil {
				on = i.Bond.Of
			}
			if i.VLAN != nil {
				on = append(on, i.VLAN.On)
			}
			for _, id := range on {
				if !made[id] {
					t.Errorf("%q comes before %q, which it is made of", i.ID, id)
				}
			}
			if made[i.ID] || len(i.MAC) != 17 || i.Bond != nil && i.VLAN != nil {
				t.Errorf("%+v", i)
			}
			made[i.ID] = true
		}
	})
}
