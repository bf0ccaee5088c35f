package netup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/networkdata"
)

// other is a second network, as of another machine.
type other struct {
	t   *testing.T
	pid int
}

// another makes a second network, which ends with the test.
func another(t *testing.T) other {
	t.Helper()
	holder := exec.Command("sleep", "600")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	return other{t, holder.Process.Pid}
}

// command is a program that is to run there.
func (o other) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/proc/" + strconv.Itoa(o.pid) + "/ns/net"}, args...)...)
}

// ip runs the program of that name there, once for each line.
func (o other) ip(lines ...string) {
	o.t.Helper()
	for _, line := range lines {
		if out, err := o.command(append([]string{"ip"}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			o.t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}

// cables makes network cards with these names, whose cables lead to far0 and on in the other network. A process uses a name once: Go keeps
// the number of an interface for a minute.
func (o other) cables(names ...string) (cards []netlink.Link) {
	o.t.Helper()
	for i, name := range names {
		far := fmt.Sprintf("far%d", i)
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: macAt(i)}, PeerName: far}); err != nil {
			o.t.Fatal(err)
		}
		l, err := netlink.LinkByName(far)
		if err == nil {
			err = netlink.LinkSetNsPid(l, o.pid)
		}
		if err != nil {
			o.t.Fatal(err)
		}
		if l, err = netlink.LinkByName(name); err != nil {
			o.t.Fatal(err)
		}
		cards = append(cards, l)
	}
	return cards
}

func macAt(i int) []byte { return []byte{0x52, 0x54, 0, 0, 0, byte(i + 1)} }

// asGiven runs a manager with network_data until the test ends, and returns it once a first address is there.
func asGiven(t *testing.T, data string) *Manager {
	t.Helper()
	list, err := networkdata.Parse([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), ResolvConf: filepath.Join(t.TempDir(), "resolv.conf"), Given: list}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		said, _ := os.ReadFile(log.Name())
		if strings.Contains(string(said), "level=ERROR") {
			t.Error("it tells of errors")
		}
		if t.Failed() {
			t.Logf("%s", said)
		}
	})
	select {
	case <-m.Ready():
	case <-time.After(time.Minute):
		t.Fatal("no address")
	}
	return m
}

// shown are the global addresses that iproute2 shows of an interface.
func shown(t *testing.T, name string) (list []string) {
	t.Helper()
	var all []struct {
		Info []struct {
			Scope, Local string
			Prefixlen    int
			Tentative    bool
		} `json:"addr_info"`
	}
	reads(t, &all, "-j", "address", "show", "dev", name)
	for _, of := range all {
		for _, a := range of.Info {
			if a.Scope == "global" && !a.Tentative {
				list = append(list, fmt.Sprintf("%s/%d", a.Local, a.Prefixlen))
			}
		}
	}
	slices.Sort(list)
	return list
}

// reads has iproute2 tell something as JSON.
func reads(t *testing.T, to any, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).Output()
	if err == nil {
		err = json.Unmarshal(out, to)
	}
	if err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// within waits until something is so.
func within(t *testing.T, limit time.Duration, what string, so func() bool) {
	t.Helper()
	end, tick := time.After(limit), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// asksRouters asks the routers on a cable to advertise themselves (RFC 4861, section 4.1). The card may have no address of its own yet.
func asksRouters(t *testing.T, card string) {
	t.Helper()
	conn, err := icmp.ListenPacket("ip6:ipv6-icmp", "::")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.IPv6PacketConn().SetMulticastHopLimit(255); err != nil {
		t.Fatal(err)
	}
	solicitation := []byte{byte(ipv6.ICMPTypeRouterSolicitation), 0, 0, 0, 0, 0, 0, 0}
	if _, err := conn.WriteTo(solicitation, &net.IPAddr{IP: net.IPv6linklocalallrouters, Zone: card}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Fatal(err)
	}
}

// The kinds of networks beside fixed ones, with dnsmasq as the server and the router. What network_data does not ask for is not taken,
// though dnsmasq gives it: it is a router that advertises a prefix in all cases.
func TestNetworksOfDnsmasq(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("not run: dnsmasq is not installed")
	}
	const link = `{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01","mtu":1400},
		{"id":"b","type":"phy","ethernet_mac_address":"52:54:00:00:00:02"}],"services":[{"type":"dns","address":"fd00:6::99"}],"networks":[`
	const eui = "fd00:6::5054:ff:fe00:1/64"
	for _, c := range []struct {
		name, networks string
		want           []string // the first card's addresses
		route          string   // a gateway that is used, of network_data
		resolver       string
	}{
		{"ipv4_dhcp", `{"id":"n","link":"a","type":"ipv4_dhcp","routes":[{"network":"192.0.2.0","netmask":"255.255.255.0","gateway":"10.6.0.9"}]}`, []string{"10.6.0.10/24"}, "10.6.0.9", "nameserver fd00:6::99\nnameserver 10.6.0.53\n"},
		{"ipv6_dhcp", `{"id":"n","link":"a","type":"ipv6_dhcp","routes":[{"network":"2001:db8::","netmask":"ffff:ffff::","gateway":"fd00:6::9"}]}`, []string{"fd00:6::10/128", eui}, "fd00:6::9", "nameserver fd00:6::99\nnameserver fd00:6::53\n"},
		{"ipv6_slaac", `{"id":"n","link":"a","type":"ipv6_slaac","services":[{"type":"dns","address":"fd00:6::98"}]}`, []string{eui}, "", "nameserver fd00:6::98\nnameserver fd00:6::99\n"},
		{"ipv6", `{"id":"n","link":"a","type":"ipv6","ip_address":"fd00:6::7/64","gateway":"fd00:6::9"}`, []string{"fd00:6::7/64"}, "fd00:6::9", "nameserver fd00:6::99\n"},
		{"ipv4", `{"id":"n","link":"a","type":"ipv4","ip_address":"10.6.0.7","netmask":"255.255.255.0"},{"id":"m","link":"a","type":"ipv4","ip_address":"10.7.0.7/24","gateway":"10.7.0.1"}`,
			[]string{"10.6.0.7/24", "10.7.0.7/24"}, "10.7.0.1", "nameserver fd00:6::99\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !ownNetwork(t) {
				return
			}
			o := another(t)
			cards := o.cables("eth0", "eth1")
			for _, far := range []string{"far0", "far1"} {
				o.ip("link set " + far + " up")
			}
			o.ip("address add 10.6.0.1/24 dev far0", "address add fd00:6::1/64 dev far0 nodad", "address add fd00:8::1/64 dev far1 nodad")
			within(t, time.Minute, "the far ends have their own addresses", func() bool { // dnsmasq listens where it finds some
				out, err := o.command("ip", "-6", "-o", "address", "show", "tentative").Output()
				return err == nil && len(out) == 0
			})
			served := o.command("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=far0,far1", "--bind-dynamic", "--enable-ra", "--user=root", "--pid-file=",
				"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--dhcp-range=10.6.0.10,10.6.0.10,10m", "--dhcp-range=fd00:6::10,fd00:6::10,slaac,64,10m", "--dhcp-range=fd00:8::10,fd00:8::10,slaac,64,10m",
				"--dhcp-option=option6:dns-server,[fd00:6::53]", "--dhcp-option=option:dns-server,10.6.0.53", "--dhcp-option=26,1300", "--no-ping", "--ra-param=far0,4", "--ra-param=far1,4")
			log, err := os.Create(filepath.Join(t.TempDir(), "dnsmasq"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			said := func() string { text, _ := os.ReadFile(log.Name()); return string(text) }
			served.Stderr = log
			if err := served.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				served.Process.Kill()
				served.Wait()
				if t.Failed() {
					t.Log(said())
				}
			})
			m := asGiven(t, link+c.networks+`]}`)
			slices.Sort(c.want)
			within(t, time.Minute, fmt.Sprintf("the addresses %v", c.want), func() bool { return slices.Equal(shown(t, "eth0"), c.want) })
			within(t, time.Minute, "resolver "+c.resolver, func() bool { is, _ := os.ReadFile(m.ResolvConf); return string(is) == c.resolver })
			if c.route != "" {
				family := netlink.FAMILY_V4
				if netip.MustParseAddr(c.route).Is6() {
					family = netlink.FAMILY_V6
				}
				routes, err := netlink.RouteList(cards[0], family)
				if err != nil || !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Gw.String() == c.route }) {
					t.Errorf("no route by %s: %v, %v", c.route, routes, err)
				}
			}
			// The router speaks once it is asked: what network_data does not ask for had its time to come.
			heard := func() bool {
				asksRouters(t, "eth0")
				asksRouters(t, "eth1")
				return strings.Count(said(), "RTR-ADVERT(far0)") > 1 && strings.Count(said(), "RTR-ADVERT(far1)") > 1
			}
			within(t, time.Minute, "the router has spoken on both cables", heard)
			if now, none := shown(t, "eth0"), shown(t, "eth1"); !slices.Equal(now, c.want) || none != nil {
				t.Errorf("then the first card has %v, want %v; the second, which has no network, %v", now, c.want, none)
			}
			if l, err := netlink.LinkByName("eth0"); err != nil || l.Attrs().MTU != 1400 {
				t.Errorf("the first card: %v, %v", l, err)
			}
		})
	}
}
