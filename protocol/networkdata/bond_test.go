package networkdata

import (
	"net/netip"
	"reflect"
	"testing"
)

// As cloud-init's and Metal3's users write it: two cards in a bond, a VLAN on it that the ramdisk is called by, one on that, and one on a
// third card. What stands on others is written first.
const bonded = `{"links": [
	{"id": "outer", "type": "vlan", "vlan_link": "bond0", "vlan_id": 602, "vlan_mac_address": "0c:c4:7a:34:6e:3c", "ethernet_mac_address": "0c:c4:7a:34:6e:3c", "mtu": 1500},
	{"id": "inner", "type": "vlan", "vlan_link": "outer", "vlan_id": 7, "vlan_mac_address": "0c:c4:7a:34:6e:3c"},
	{"id": "own", "type": "vlan", "vlan_link": "eth2", "vlan_id": 4094, "vlan_mac_address": "fa:16:3e:b3:72:30"},
	{"id": "bond0", "type": "bond", "bond_links": ["eth0", "eth1"], "bond_miimon": "100", "bond_mode": "802.1ad", "bond_xmit_hash_policy": "layer3+4",
	 "bond_lacp_rate": "fast", "bond_updelay": 200, "bond_min_links": 1, "ethernet_mac_address": "0c:c4:7a:34:6e:3c", "bond_downdelay": null},
	{"id": "eth0", "type": "phy", "ethernet_mac_address": "0c:c4:7a:34:6e:3c", "mtu": 9000},
	{"id": "eth1", "type": "phy", "ethernet_mac_address": "0c-c4-7a-34-6e-3d", "mtu": 9000},
	{"id": "eth2", "type": "vif", "ethernet_mac_address": "0c:c4:7a:34:6e:3e"}],
 "networks": [
	{"id": "n0", "link": "outer", "type": "ipv4", "ip_address": "10.0.0.7", "netmask": "255.255.255.0",
	 "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1", "services": [{"type": "dns", "address": "10.0.0.53"}]}]},
	{"id": "n1", "link": "inner", "type": "ipv6_slaac", "ip_address": "fd00:7::7/64", "services": [{"type": "dns", "address": "fd00:7::53/64"}]},
	{"id": "n2", "link": "own", "type": "ipv6_dhcp", "routes": [{"network": "fd00:8::", "netmask": "ffff:ffff::", "gateway": "fd00:9::1"}]},
	{"id": "n3", "link": "own", "type": "ipv4_dhcp", "routes": []}],
 "services": []}`

func TestParseBondsAndVLANs(t *testing.T) {
	got, err := Parse([]byte(bonded))
	if err != nil {
		t.Fatal(err)
	}
	pre, addr := netip.MustParsePrefix, netip.MustParseAddr
	want := []Interface{
		{ID: "eth0", MAC: "0c:c4:7a:34:6e:3c", MTU: 9000},
		{ID: "eth1", MAC: "0c:c4:7a:34:6e:3d", MTU: 9000},
		{ID: "eth2", MAC: "0c:c4:7a:34:6e:3e"},
		{ID: "bond0", MAC: "0c:c4:7a:34:6e:3c", MTU: 9000,
			Bond: &Bond{Mode: "802.3ad", Of: []string{"eth0", "eth1"}, MIIMon: 100, UpDelay: 200, HashPolicy: "layer3+4", LACPRate: "fast", MinLinks: 1}},
		{ID: "outer", MAC: "0c:c4:7a:34:6e:3c", MTU: 1500, VLAN: &VLAN{On: "bond0", Tag: 602}, Addresses: []netip.Prefix{pre("10.0.0.7/24")},
			Routes: []Route{{pre("0.0.0.0/0"), addr("10.0.0.1")}}, DNS: []netip.Addr{addr("10.0.0.53")}},
		{ID: "inner", MAC: "0c:c4:7a:34:6e:3c", MTU: 1500, VLAN: &VLAN{On: "outer", Tag: 7}, SLAAC: true, Addresses: []netip.Prefix{pre("fd00:7::7/64")},
			DNS: []netip.Addr{addr("fd00:7::53")}},
		{ID: "own", MAC: "fa:16:3e:b3:72:30", VLAN: &VLAN{On: "eth2", Tag: 4094}, DHCP: true, DHCP6: true,
			Routes: []Route{{pre("fd00:8::/32"), addr("fd00:9::1")}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestRefusedBondsAndVLANs(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, says string
		unsupported    bool
	}{
		"an unknown mode":        {`"802.1ad"`, `"balance-all"`, `"bond0": its bond_mode is "balance-all": give one of balance-rr`, false},
		"no cards":               {`["eth0", "eth1"]`, `[]`, "its bond_links name no link", false},
		"a card twice":           {`["eth0", "eth1"]`, `["eth0", "eth0"]`, `name "eth0" twice`, false},
		"a card that is none":    {`["eth0", "eth1"]`, `["eth0", "eth9"]`, `name "eth9", which is no link of a single interface`, false},
		"a bond of a VLAN":       {`["eth0", "eth1"]`, `["eth0", "own"]`, `name "own", which is no link of a single interface`, false},
		"a bond of itself":       {`["eth0", "eth1"]`, `["bond0"]`, `name "bond0", which is no link of a single interface`, false},
		"a card in two":          {`{"id": "eth2", "type": "vif"`, `{"id": "eth2", "type": "bond", "bond_mode": "active-backup", "bond_links": ["eth1"]`, `which is in the bond "bond0"`, false},
		"an option of no agent":  {`"bond_downdelay": null`, `"bond_arp_interval": 100`, `has "bond_arp_interval"`, true},
		"no watch":               {`"bond_miimon": "100"`, `"bond_miimon": 0`, "its bond_miimon is a whole number between 1 and", false},
		"a crooked delay":        {`"bond_updelay": 200`, `"bond_updelay": 250`, "have to be multiples of its bond_miimon", false},
		"half a millisecond":     {`"bond_updelay": 200`, `"bond_updelay": 0.5`, "its bond_updelay is a whole number", false},
		"an unknown hash":        {`"layer3+4"`, `"layer7"`, `its bond_xmit_hash_policy is "layer7"`, false},
		"a hash without choice":  {`"802.1ad"`, `"broadcast"`, "its bond_xmit_hash_policy means nothing in mode broadcast", false},
		"LACP without LACP":      {`"802.1ad"`, `"balance-xor"`, "its bond_lacp_rate means nothing in mode balance-xor", false},
		"a preferred stranger":   {`"bond_downdelay": null`, `"bond_primary": "eth2"`, `its bond_primary is "eth2": give one of eth0, eth1`, false},
		"more than there are":    {`"bond_min_links": 1`, `"bond_min_links": 3`, "its bond_min_links is a whole number between 0 and 2", false},
		"two MTUs of cards":      {`"0c-c4-7a-34-6e-3d", "mtu": 9000`, `"0c-c4-7a-34-6e-3d", "mtu": 1500`, "have one mtu, and network_data gives them 9000 and 1500", false},
		"an MTU of its own":      {`"bond_min_links": 1`, `"mtu": 1400`, "have one mtu, and network_data gives them 1400 and 9000", false},
		"no VLAN's number":       {`"vlan_id": 602`, `"vlan_id": null`, `"outer": it has no vlan_id`, false},
		"the VLAN 0":             {`"vlan_id": 602`, `"vlan_id": 0`, "between 1 and 4094, not 0", false},
		"the VLAN 4095":          {`"vlan_id": 602`, `"vlan_id": 4095`, "between 1 and 4094, not 4095", false},
		"a VLAN on nothing":      {`"vlan_link": "bond0"`, `"vlan_link": "bond1"`, `its vlan_link "bond1" is none`, false},
		"a VLAN on a bond's":     {`"vlan_link": "bond0"`, `"vlan_link": "eth0"`, `is in the bond "bond0": a VLAN stands on the bond`, false},
		"a VLAN on itself":       {`"vlan_link": "bond0"`, `"vlan_link": "outer"`, "stands on it in turn", false},
		"a ring of VLANs":        {`"vlan_link": "bond0"`, `"vlan_link": "inner"`, "stands on it in turn", false},
		"a VLAN twice":           {`"vlan_link": "outer", "vlan_id": 7`, `"vlan_link": "bond0", "vlan_id": 602`, `link "outer" is the VLAN 602 on "bond0", too`, false},
		"an MTU that is too big": {`"vlan_id": 7`, `"mtu": 1600, "vlan_id": 7`, `its mtu 1600 is more than its vlan_link "outer" takes, which is 1500`, false},
		"a VLAN's MAC address":   {`"vlan_mac_address": "fa:16:3e:b3:72:30"`, `"ethernet_mac_address": "fa:16:3e:b3:72:30"`, `"own": its vlan_mac_address "" is no MAC address`, false},
		"a stranger's address":   {"fa:16:3e:b3:72:30", "0c:c4:7a:34:6e:3d", `link "eth1" has its MAC address`, false},
		"the bond's address":     {"0c:c4:7a:34:6e:3e", "0c:c4:7a:34:6e:3c", `link "eth0" has its MAC address`, false},
		"a network below":        {`"link": "outer"`, `"link": "eth1"`, `"n0": it is on link "eth1", which is in the bond "bond0"`, false},
		"the bond's own option":  {`"vlan_id": 7`, `"bond_mode": "802.3ad", "vlan_id": 7`, `it is of type vlan and has "bond_mode"`, true},
	} {
		refused(t, name, bonded, c.from, c.to, c.says, c.unsupported)
	}
}

// Which addresses of a machine rackd cannot know: those beside fixed ones, and those in a VLAN or on a bond.
func TestElsewhere(t *testing.T) {
	fixed := []netip.Prefix{netip.MustParsePrefix("10.0.0.7/24")}
	for name, c := range map[string]struct {
		list      []Interface
		four, six bool
	}{
		"fixed alone":          {[]Interface{{Addresses: fixed}}, false, false},
		"DHCP alone":           {[]Interface{{DHCP: true, DHCP6: true}}, false, false},
		"DHCP beside it":       {[]Interface{{Addresses: fixed}, {DHCP: true}}, true, false},
		"IPv6 beside fixed 4":  {[]Interface{{Addresses: fixed, SLAAC: true}}, false, false},
		"DHCP in a VLAN":       {[]Interface{{DHCP: true, VLAN: &VLAN{}}}, true, false},
		"a prefix on the bond": {[]Interface{{SLAAC: true, Bond: &Bond{}}}, false, true},
	} {
		if four, six := Elsewhere(c.list, false), Elsewhere(c.list, true); four != c.four || six != c.six {
			t.Errorf("%s: %t, %t", name, four, six)
		}
	}
}
