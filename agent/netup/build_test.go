package netup

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

// needsLinks skips a test where the kernel makes no bonds and VLANs. TestOnAKernelWithBonds of e2e/links runs them in a virtual machine.
func needsLinks(t *testing.T) {
	t.Helper()
	b := netlink.NewLinkBond(netlink.LinkAttrs{Name: "try"})
	if err := netlink.LinkAdd(b); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("not run: this kernel has no bonds")
	} else if err != nil {
		t.Fatal(err)
	}
	netlink.LinkDel(b)
}

// What cannot be made is told with what was tried, and the rest is made.
func TestWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	list, err := networkdata.Parse([]byte(`{"links":[
		{"id":"there","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"},{"id":"gone","type":"phy","ethernet_mac_address":"52:54:00:00:00:99"},
		{"id":"v","type":"vlan","vlan_link":"gone","vlan_id":7,"vlan_mac_address":"52:54:00:00:00:99"},
		{"id":"lost","type":"phy","ethernet_mac_address":"52:54:00:00:00:98"},
		{"id":"b","type":"bond","bond_links":["lost"],"bond_mode":"active-backup","ethernet_mac_address":"52:54:00:00:00:98"}],"networks":[],"services":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	m := &Manager{Log: slog.New(slog.NewTextHandler(&log, nil)), Given: list}
	if made := m.build(another(t).cables("eth0")); len(made) != 1 || made[0].ID != "there" || made[0].name != "eth0" {
		t.Errorf("made are %+v", made)
	}
	for _, want := range []string{
		`id=gone mac=52:54:00:00:00:99 interface="" error="the machine shows no network card with this MAC address"`,
		`id=v mac=52:54:00:00:00:99 interface="" error="the VLAN 7 on link \"gone\", which is not there"`,
		`id=b mac=52:54:00:00:00:98 interface="" error="a bond of lost: none of them is there"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("it does not tell %s", want)
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// shownLink is what iproute2 tells of an interface.
type shownLink struct {
	Name    string   `json:"ifname"`
	On      string   `json:"link"`
	Master  string   `json:"master"`
	MTU     int      `json:"mtu"`
	MAC     string   `json:"address"`
	PermMAC string   `json:"permaddr"`
	Flags   []string `json:"flags"`
	Info    struct {
		Kind string `json:"info_kind"`
		Data struct {
			Mode       string `json:"mode"`
			MIIMon     int    `json:"miimon"`
			UpDelay    int    `json:"updelay"`
			DownDelay  int    `json:"downdelay"`
			HashPolicy string `json:"xmit_hash_policy"`
			LACPRate   string `json:"ad_lacp_rate"`
			MinLinks   int    `json:"min_links"`
			Primary    string `json:"primary"`
			Active     string `json:"active_slave"`
			Aggregator struct {
				Ports   int    `json:"num_ports"`
				Partner string `json:"partner_mac"`
			} `json:"ad_info"`
			Protocol string `json:"protocol"`
			ID       int    `json:"id"`
		} `json:"info_data"`
	} `json:"linkinfo"`
}

// link is what iproute2 tells of one interface.
func link(t *testing.T, name string) shownLink {
	t.Helper()
	var list []shownLink
	reads(t, &list, "-j", "-d", "link", "show", "dev", name)
	if len(list) != 1 {
		t.Fatalf("interface %s: %+v", name, list)
	}
	return list[0]
}

// pings reports whether a host answers one packet.
func pings(t *testing.T, address string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "busybox", "ping", "-c", "1", "-W", "1", address).Run() == nil
}

// A bond and a VLAN on it in each mode: iproute2 shows what network_data says, and a host in the VLAN answers. The far end of the cables is
// a bond of the same mode where the switch is one, and else a bridge.
func TestBonds(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	needsLinks(t)
	for n, c := range []struct{ mode, options, far string }{
		{"802.3ad", `"bond_xmit_hash_policy":"layer3+4","bond_lacp_rate":"fast","bond_min_links":1`, "bond mode 802.3ad lacp_rate fast miimon 50"},
		{"active-backup", `"bond_primary":"second","bond_updelay":100,"bond_downdelay":200`, "bridge"},
		{"balance-rr", `"bond_miimon":50`, "bond mode balance-rr miimon 50"},
		{"balance-xor", `"bond_xmit_hash_policy":"layer2+3"`, "bond mode balance-xor miimon 50"},
		{"broadcast", `"bond_miimon":100`, "bond mode broadcast miimon 50"},
		{"balance-tlb", `"bond_miimon":100`, "bridge"},
		{"balance-alb", `"bond_miimon":100`, "bridge"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			o := another(t)
			first, second := fmt.Sprintf("eth%d", 2*n), fmt.Sprintf("eth%d", 2*n+1)
			o.cables(first, second)
			o.ip("link add sw type "+c.far, "link set far0 down", "link set far1 down", "link set sw mtu 9000", "link set far0 mtu 9000", "link set far1 mtu 9000",
				"link set far0 master sw", "link set far1 master sw", "link set far0 up", "link set far1 up", "link set sw up",
				"link add link sw name sw.602 type vlan id 602", "link set sw.602 up", "address add 10.0.0.1/24 dev sw.602")
			asGiven(t, `{"links":[
				{"id":"provision","type":"vlan","vlan_link":"bond","vlan_id":602,"vlan_mac_address":"52:54:00:00:00:77","mtu":1450},
				{"id":"bond","type":"bond","bond_links":["first","second"],"bond_mode":"`+c.mode+`","ethernet_mac_address":"52:54:00:00:00:01",`+c.options+`},
				{"id":"first","type":"phy","ethernet_mac_address":"52:54:00:00:00:01","mtu":9000},{"id":"second","type":"phy","ethernet_mac_address":"52:54:00:00:00:02","mtu":9000}],
				"networks":[{"id":"n","link":"provision","type":"ipv4","ip_address":"10.0.0.7","netmask":"255.255.255.0","gateway":"10.0.0.1"}],"services":[]}`)
			name := link(t, first).Master
			t.Cleanup(func() { // the next case makes interfaces with the same MAC addresses
				for _, args := range [][]string{{"link", "del", name}, {"link", "del", first}, {"link", "del", second}} {
					if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
						t.Errorf("ip %v: %v: %s", args, err, out)
					}
				}
			})
			within(t, time.Minute, "an answer in the VLAN", func() bool { return pings(t, "10.0.0.1") })
			checkBond(t, c.mode, name, first, second)
			checkVLAN(t, name)
			var routes []struct{ Dst, Gateway, Dev string }
			reads(t, &routes, "-j", "route", "show", "default")
			if len(routes) != 1 || routes[0].Gateway != "10.0.0.1" || routes[0].Dev != name+".602" {
				t.Errorf("default routes %+v", routes)
			}
			if c.mode == "broadcast" || c.far == "bridge" && c.mode != "active-backup" {
				return
			}
			o.ip("link set far1 down")
			if c.mode == "active-backup" {
				within(t, time.Minute, "the other card is used", func() bool { return link(t, name).Info.Data.Active == first })
			}
			within(t, time.Minute, "an answer by the other cable", func() bool { return pings(t, "10.0.0.1") })
		})
	}
}

// A bond is made of those of its cards that are there, and the others are told.
func TestBondOfWhatIsThere(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	needsLinks(t)
	list, err := networkdata.Parse([]byte(`{"links":[
		{"id":"there","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"},{"id":"gone","type":"phy","ethernet_mac_address":"52:54:00:00:00:99"},
		{"id":"b","type":"bond","bond_links":["gone","there"],"bond_mode":"active-backup","ethernet_mac_address":"52:54:00:00:00:99"}],"networks":[],"services":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	m := &Manager{Log: slog.New(slog.NewTextHandler(&log, nil)), Given: list}
	made := m.build(another(t).cables("eth0"))
	if len(made) != 1 || made[0].ID != "b" || strings.Count(log.String(), "level=ERROR") != 1 || !strings.Contains(log.String(), "id=gone") {
		t.Fatalf("made are %+v:\n%s", made, log.String())
	}
	if card, b := link(t, "eth0"), link(t, made[0].name); card.Master != b.Name || b.MAC != "52:54:00:00:00:99" || card.MAC != b.MAC {
		t.Errorf("the card: %+v, the bond: %+v", card, b)
	}
}

// An agent that has crashed is started again, and finds the bonds and VLANs of the one before. It makes its own, of the same cards.
func TestAgentStartsAgain(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	needsLinks(t)
	o := another(t)
	o.cables("eth0", "eth1")
	o.ip("link set far0 up", "link set far1 up")
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			asGiven(t, `{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"},{"id":"b","type":"phy","ethernet_mac_address":"52:54:00:00:00:02"},
				{"id":"c","type":"bond","bond_mode":"active-backup","bond_links":["a","b"],"ethernet_mac_address":"52:54:00:00:00:77"},
				{"id":"d","type":"vlan","vlan_id":602,"vlan_link":"c","vlan_mac_address":"52:54:00:00:00:77"}],
				"networks":[{"id":"n","link":"d","type":"ipv4","ip_address":"10.0.0.7/24"}],"services":[]}`)
			var all []shownLink
			reads(t, &all, "-j", "-d", "link", "show")
			var made []string
			for _, l := range all {
				if l.Info.Kind == "bond" || l.Info.Kind == "vlan" || l.Master != "" {
					made = append(made, l.Name+" "+l.Master)
				}
			}
			slices.Sort(made)
			if want := []string{"bond0 ", "bond0.602 ", "eth0 bond0", "eth1 bond0"}; !slices.Equal(made, want) {
				t.Errorf("the kernel has %q, want %q", made, want)
			}
		})
	}
}

// checkBond looks at what iproute2 tells of a bond and its cards.
func checkBond(t *testing.T, mode, name, first, second string) {
	t.Helper()
	b := link(t, name)
	d := b.Info.Data
	if b.Info.Kind != "bond" || d.Mode != mode || b.MTU != 9000 || b.MAC != "52:54:00:00:00:01" {
		t.Errorf("the bond: %+v", b)
	}
	is := fmt.Sprint(d.MIIMon, d.UpDelay, d.DownDelay, " ", d.HashPolicy, " ", d.LACPRate, " ", d.MinLinks, " ", d.Primary)
	want := map[string]string{"802.3ad": "100 0 0 layer3+4 fast 1 ", "active-backup": "100 100 200 layer2 slow 0 " + second, "balance-rr": "50 0 0 layer2 slow 0 ",
		"balance-xor": "100 0 0 layer2+3 slow 0 "}[mode]
	if want != "" && is != want {
		t.Errorf("the bond has %q, want %q", is, want)
	}
	if mode == "802.3ad" {
		within(t, time.Minute, "both ends speak LACP on two cables", func() bool {
			a := link(t, name).Info.Data.Aggregator
			return a.Ports == 2 && strings.Trim(a.Partner, "0:") != ""
		})
	}
	if mode == "active-backup" {
		within(t, time.Minute, "the preferred card is used", func() bool { return link(t, name).Info.Data.Active == second })
	}
	for _, card := range []string{first, second} {
		if l := link(t, card); l.Master != name || l.MTU != 9000 {
			t.Errorf("card %s: %+v", card, l)
		}
	}
}

// checkVLAN looks at what iproute2 tells of a VLAN on a bond.
func checkVLAN(t *testing.T, bond string) {
	t.Helper()
	v := link(t, bond+".602")
	if v.Info.Kind != "vlan" || v.Info.Data.ID != 602 || v.Info.Data.Protocol != "802.1Q" || v.On != bond || v.MTU != 1450 || v.MAC != "52:54:00:00:00:77" {
		t.Errorf("the VLAN: %+v", v)
	}
	if got := shown(t, bond+".602"); fmt.Sprint(got) != "[10.0.0.7/24]" {
		t.Errorf("the VLAN has %v", got)
	}
	if got := shown(t, bond); got != nil {
		t.Errorf("the bond has %v", got)
	}
}
