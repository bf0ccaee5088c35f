package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
)

// rackOf is a rackd in 10.0.0.0/24 with further networks.
func rackOf(t *testing.T, networks ...string) *Rack {
	t.Helper()
	r := &Rack{Interface: "eth1", Address: netip.MustParseAddr("10.0.0.2"), Mask: net.CIDRMask(24, 32), DHCP: "serve", HTTPPort: 8080, AgentPort: 6386}
	for _, text := range networks {
		n, err := ParseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		r.Further = append(r.Further, n)
	}
	return r
}

// Networks that a request or an address could not tell apart are refused, with the reason, before anything is served.
func TestNetworksThatCannotBeToldApart(t *testing.T) {
	relayed, err := dhcp.ParseSubnet("10.2.0.0/24 10.2.0.100-10.2.0.200 10.2.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		networks []string
		change   func(*Rack)
	}{
		"": {networks: []string{"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200 10.3.0.1", "eth3 10.4.0.2/24 10.4.0.100-10.4.0.200"}},
		"the network of --address and the network on eth2 overlap":          {networks: []string{"eth2 10.0.0.3/25 10.0.0.10-10.0.0.20"}},
		"--dhcp-subnet 10.2.0.0/24 and the network on eth2 overlap":         {networks: []string{"eth2 10.2.0.2/16 10.2.9.1-10.2.9.9"}},
		"the network on eth2 and the network on eth3 overlap":               {networks: []string{"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200", "eth3 10.3.0.3/24 10.3.0.50-10.3.0.60"}},
		"network on eth1: --interface has that interface too":               {networks: []string{"eth1 10.3.0.2/24 10.3.0.100-10.3.0.200"}},
		"network on eth2: another network has that interface too":           {networks: []string{"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200", "eth2 10.4.0.2/24 10.4.0.100-10.4.0.200"}},
		"the network of --address and --dhcp-subnet 10.0.0.0/16 overlap":    {change: func(r *Rack) { r.Subnets[0].Prefix = netip.MustParsePrefix("10.0.0.0/16") }},
		"further networks are served with --dhcp serve and --address alone": {networks: []string{"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200"}, change: func(r *Rack) { r.DHCP = "proxy" }},
	} {
		r := rackOf(t, c.networks...)
		r.Subnets = []dhcp.Subnet{relayed}
		if c.change != nil {
			c.change(r)
		}
		switch err := r.checkNetworks(); {
		case want == "" && err != nil:
			t.Errorf("%v: %v", c.networks, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v: %v, want %q", c.networks, err, want)
		}
	}
}

// As many further networks as the others of a site read of a rackd are served. One more is refused at the start, with the bound.
func TestFurtherNetworksHaveABound(t *testing.T) {
	for _, c := range []struct {
		count   int
		refused bool
	}{{bus.MaxFurther, false}, {bus.MaxFurther + 1, true}} {
		var networks []string
		for i := range c.count {
			networks = append(networks, fmt.Sprintf("eth%d 10.%d.0.2/24 10.%[2]d.0.100-10.%[2]d.0.200", i+2, i+1))
		}
		r := rackOf(t, networks...)
		self := bus.Member{Name: "rack1"}
		for _, f := range r.furtherFaces() {
			self.Further = append(self.Further, bus.MemberURLs{AgentURL: f.agents(), BootURL: f.http()})
		}
		said, err := json.Marshal(self)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bus.ReadMember(bus.GroupToken("")+"."+bus.GroupToken(self.Name), said); (err != nil) != c.refused {
			t.Errorf("%d networks, read by others: %v", c.count, err)
		}
		err = r.checkNetworks()
		if (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "101 further networks: a rackd serves 100 at most") {
			t.Errorf("%d networks: %v", c.count, err)
		}
	}
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200 10.3.0.1": "",
		"eth2 10.3.0.2/24":                                "want an interface",
		"eth2 10.3.0.2 10.3.0.100-10.3.0.200":             "no '/'",
		"eth2 10.3.0.0/24 10.3.0.100-10.3.0.200":          "is the network itself",
		"eth2 fd00::2/64 fd00::10-fd00::20":               "must be an IPv4 address",
		"eth2 10.3.0.2/24 10.3.1.100-10.3.1.200":          "inside 10.3.0.0/24",
		"eth2 10.3.0.2/24 10.3.0.200-10.3.0.100":          "a first and a last address",
		"eth2 10.3.0.2/24 10.3.0.100-10.3.0.200 10.4.0.1": "its router 10.4.0.1 is not in 10.3.0.0/24",
	} {
		if _, err := ParseNetwork(text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	n := Network{Interface: "lo", Address: netip.MustParsePrefix("127.0.0.1/24")}
	if err := n.attached(); err == nil || !strings.Contains(err.Error(), "127.0.0.1/8") {
		t.Errorf("another length of the prefix than the interface has: %v", err)
	}
	n.Address = netip.MustParsePrefix("127.0.0.1/8")
	if err := n.attached(); err != nil {
		t.Error(err)
	}
}

// A machine is told of the rackds' addresses in its own network, and of none in another.
func TestMachinesAreToldOfTheirOwnNetwork(t *testing.T) {
	r := rackOf(t, "eth2 10.3.0.2/24 10.3.0.100-10.3.0.200", "eth3 10.4.0.2/24 10.4.0.100-10.4.0.200")
	members := []bus.Member{
		{Name: "both", BootURL: "http://10.0.0.3:8080", AgentURL: "https://10.0.0.3:6386", Further: []bus.MemberURLs{{AgentURL: "https://10.3.0.3:6386", BootURL: "http://10.3.0.3:8080"}}},
		{Name: "main", BootURL: "http://10.0.0.4:8080", AgentURL: "https://10.0.0.4:6386"},
	}
	urls := images{bases: r.bases(), further: r.furtherFaces(), codes: imageCodes{seal.NewKeyring("", nil), ""}, neighbours: func() []bus.Member { return members }}
	for machine, c := range map[string]struct{ doors, loads []string }{
		"10.0.0.77": {[]string{"https://10.0.0.2:6386", "https://10.0.0.3:6386", "https://10.0.0.4:6386"}, []string{"http://10.0.0.2:8080/", "http://10.0.0.3:8080/", "http://10.0.0.4:8080/"}},
		"10.2.0.77": {[]string{"https://10.0.0.2:6386", "https://10.0.0.3:6386", "https://10.0.0.4:6386"}, []string{"http://10.0.0.2:8080/", "http://10.0.0.3:8080/", "http://10.0.0.4:8080/"}}, // behind a relay
		"10.3.0.77": {[]string{"https://10.3.0.2:6386", "https://10.3.0.3:6386"}, []string{"http://10.3.0.2:8080/", "http://10.3.0.3:8080/"}},
		"10.4.0.77": {[]string{"https://10.4.0.2:6386"}, []string{"http://10.4.0.2:8080/"}},
	} {
		f := r.faceFor(netip.MustParseAddr(machine))
		told := r.ramdisk(f, "ab", members)
		if !slices.Equal(told.Doors, c.doors) || len(told.Others) != len(c.doors)-1 || told.HTTP+"/" != c.loads[0] {
			t.Errorf("%s is told of the doors %q, and of %s and %v", machine, told.Doors, told.HTTP, told.Others)
		}
		got := urls.urls("sha256-0", machine)
		if len(got) != len(c.loads) {
			t.Errorf("%s is told of the images %q", machine, got)
			continue
		}
		for i, at := range c.loads {
			if !strings.HasPrefix(got[i], at) {
				t.Errorf("%s is told of the image at %s, want %s", machine, got[i], at)
			}
		}
	}
}
