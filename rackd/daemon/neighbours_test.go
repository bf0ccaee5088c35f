package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// However many rackds a group has, the kernel's command line holds what the agent needs, with all that
// a node's fields may add; what agents are told to call instead is told alone.
func TestCommandLineOfALargeGroup(t *testing.T) {
	rack := &Rack{Address: netip.MustParseAddr("192.168.100.2"), HTTPPort: 8080, AgentPort: 6386, KernelParams: []string{strings.Repeat("x", 380)}}
	var members []bus.Member
	for n := range 200 {
		host := fmt.Sprintf("192.168.100.%d", n)
		members = append(members, bus.Member{Name: host, Group: "a", BootURL: "http://" + host + ":8080", AgentURL: "https://" + host + ":6386/" + strings.Repeat("p", 50)})
	}
	r := rack.ramdisk(rack.face(), strings.Repeat("f", 64), neighbours("own", "a", members, strings.EqualFold))
	r.Kernel, r.Initramfs = "kernel", "ramdisk"
	m := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Order: bootorder.Ramdisk(bootorder.Load{Params: []string{strings.Repeat("y", agentapi.MaxOwnParams)}}), BootID: strings.Repeat("i", 22)}
	script := ipxescript.Write(m, "52:54:00:00:00:01", r)
	if !strings.Contains(script, "ironyard-api-fingerprint="+strings.Repeat("f", 64)) || !strings.Contains(script, "/boot/iiii") || len(r.Doors) != maxDoors {
		t.Errorf("%d doors; script:\n%s", len(r.Doors), script)
	}
	if len(r.Others) != maxOthers || len(script) > 4<<10 || !strings.Contains(script, "http://192.168.100.0:8080/boot/script") {
		t.Errorf("%d others in a script of %d bytes", len(r.Others), len(script))
	}
	rack.AgentAPIURLs = []string{"https://central.example"}
	if r := rack.ramdisk(rack.face(), "ab", neighbours("own", "a", members, strings.EqualFold)); !slices.Equal(r.Doors, rack.AgentAPIURLs) || !r.Inspection {
		t.Errorf("doors %q", r.Doors)
	}
}

// A machine is told of the rackds that it can reach by the version of IP that it speaks.
func TestMachinesAreToldByTheirVersionOfIP(t *testing.T) {
	addr := netip.MustParseAddr
	both := &Rack{Address: addr("10.0.0.2"), Address6: addr("fd00::2"), HTTPPort: 8080, AgentPort: 6386}
	members := []bus.Member{
		{Name: "both", BootURL: "http://10.0.0.1:8080", AgentURL: "https://10.0.0.1:6386", BootURL6: "http://[fd00::1]:8080", AgentURL6: "https://[fd00::1]:6386"},
		{Name: "four", BootURL: "http://10.0.0.3:8080", AgentURL: "https://10.0.0.3:6386"},
		{Name: "six", BootURL: "http://[fd00::4]:8080", AgentURL: "https://[fd00::4]:6386", BootURL6: "http://[fd00::4]:8080", AgentURL6: "https://[fd00::4]:6386"},
	}
	four, six := both.ramdisk(both.face(), "ab", members), both.ramdisk(both.face6(), "ab", members)
	if want := []string{"https://10.0.0.2:6386", "https://10.0.0.1:6386", "https://10.0.0.3:6386"}; !slices.Equal(four.Doors, want) || len(four.Others) != 2 || four.HTTP != "http://10.0.0.2:8080" {
		t.Errorf("by IPv4: %+v", four)
	}
	if want := []string{"https://[fd00::2]:6386", "https://[fd00::1]:6386", "https://[fd00::4]:6386"}; !slices.Equal(six.Doors, want) {
		t.Errorf("by IPv6: doors %q, want %q", six.Doors, want)
	}
	if want := (ipxescript.Server{HTTP: "http://[fd00::4]:8080", TFTP: "tftp://[fd00::4]"}); len(six.Others) != 2 || six.Others[1] != want || six.TFTP != "tftp://[fd00::2]" {
		t.Errorf("by IPv6: %+v", six)
	}
	if only := (&Rack{Address6: addr("fd00::2"), HTTPPort: 8080}); only.face() != only.face6() || len(only.faces()) != 1 || len(both.bases()) != 2 {
		t.Errorf("without IPv4: %+v; with both: %v", only.face(), both.bases())
	}
	urls := images{bases: both.bases(), codes: imageCodes{seal.NewKeyring("", nil), ""}, neighbours: func() []bus.Member { return members }}.urls("sha256-0", "")
	for i, want := range []string{"http://10.0.0.2:8080/", "http://[fd00::2]:8080/", "http://10.0.0.1:8080/", "http://10.0.0.3:8080/", "http://[fd00::4]:8080/", "http://[fd00::1]:8080/"} {
		if i >= len(urls) || !strings.HasPrefix(urls[i], want) {
			t.Errorf("image %d of %q is not at %s", i, urls, want)
		}
	}
}

func TestMachinesAreToldOfTheWholeGroup(t *testing.T) {
	rack := &Rack{Address: netip.MustParseAddr("10.0.0.2"), HTTPPort: 8080, AgentPort: 6386, KernelParams: []string{"quiet"}}
	member := func(name, group, address string) bus.Member {
		return bus.Member{Name: name, Group: group, BootURL: "http://" + address + ":8080", AgentURL: "https://" + address + ":6386"}
	}
	members := []bus.Member{
		member("rackd-1", "rack-a", "10.0.0.1"),
		member("rackd-2", "rack-a", "10.0.0.2"), // itself
		member("rackd-3", "rack-b", "10.0.0.3"), // its failover
		member("rackd-6", "rack-c", "10.0.0.6"), // which it is a failover of
		member("rackd-7", "rack-d", "10.0.0.7"),
		{Name: "rackd-4", Group: "rack-a"}, // serves no machines
		member("rackd-5", "RACK-A", "10.0.0.5"),
	}
	serves := func(by, group string) bool {
		return strings.EqualFold(by, group) || by == "rack-b" && group == "Rack-A" || by == "Rack-A" && group == "rack-c"
	}
	got := rack.ramdisk(rack.face(), "ab", neighbours("rackd-2", "Rack-A", members, serves))
	if want := (ipxescript.Server{HTTP: "http://10.0.0.2:8080", TFTP: "tftp://10.0.0.2"}); got.Server != want {
		t.Errorf("own server %+v, want %+v", got.Server, want)
	}
	want := []ipxescript.Server{{HTTP: "http://10.0.0.1:8080", TFTP: "tftp://10.0.0.1"}, {HTTP: "http://10.0.0.5:8080", TFTP: "tftp://10.0.0.5"},
		{HTTP: "http://10.0.0.3:8080", TFTP: "tftp://10.0.0.3"}}
	if !slices.Equal(got.Others, want) {
		t.Errorf("others %+v, want %+v", got.Others, want)
	}
	doors := []string{"https://10.0.0.2:6386", "https://10.0.0.1:6386", "https://10.0.0.5:6386", "https://10.0.0.3:6386"}
	if !slices.Equal(got.Doors, doors) || got.Fingerprint != "ab" || !slices.Equal(got.Params, rack.KernelParams) {
		t.Errorf("doors %q, fingerprint %q, parameters %q", got.Doors, got.Fingerprint, got.Params)
	}
	var names []string
	for _, m := range partners("rackd-2", "Rack-A", members, serves) {
		names = append(names, m.Name)
	}
	if want := []string{"rackd-1", "rackd-5", "rackd-3", "rackd-6"}; !slices.Equal(names, want) {
		t.Errorf("images are kept with %q, want %q", names, want)
	}
}
