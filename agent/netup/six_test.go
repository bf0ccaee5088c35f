package netup

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"
)

// dhcp6Server gives leases of ten seconds, which are to be renewed long before, and can be told otherwise.
type dhcp6Server struct {
	mu   sync.Mutex
	id   *dhcpv6.DUIDUUID
	give net.IP
	seen []dhcpv6.MessageType
}

func (d *dhcp6Server) set(change func()) { d.mu.Lock(); defer d.mu.Unlock(); change() }

func (d *dhcp6Server) handle(conn net.PacketConn, peer net.Addr, p dhcpv6.DHCPv6) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := p.(*dhcpv6.Message)
	if !ok {
		return
	}
	d.seen = append(d.seen, m.Type())
	if to := m.Options.ServerID(); to != nil && !to.Equal(d.id) {
		return
	}
	kind := dhcpv6.MessageTypeReply
	if m.Type() == dhcpv6.MessageTypeSolicit {
		kind = dhcpv6.MessageTypeAdvertise
	}
	r := &dhcpv6.Message{MessageType: kind, TransactionID: m.TransactionID}
	r.AddOption(m.GetOneOption(dhcpv6.OptionClientID))
	r.AddOption(dhcpv6.OptServerID(d.id))
	if asks := m.Options.OneIANA(); asks != nil {
		ia := &dhcpv6.OptIANA{IaId: asks.IaId, T1: 2 * time.Second, T2: 4 * time.Second}
		if had := asks.Options.OneAddress(); had != nil && !had.IPv6Addr.Equal(d.give) {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: had.IPv6Addr}) // it ends
		} else {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: d.give, PreferredLifetime: 10 * time.Second, ValidLifetime: 10 * time.Second})
		}
		r.AddOption(ia)
	}
	conn.WriteTo(r.ToBytes(), peer)
}

// cable makes a network card, and the other end of its cable.
func cable(t *testing.T) netlink.Link {
	t.Helper()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nic"}, PeerName: "server"}); err != nil {
		t.Fatal(err)
	}
	var nic netlink.Link
	for _, name := range []string{"server", "nic"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		nic = l
	}
	return nic
}

// keeps runs a manager on the card, for IPv6.
func keeps(t *testing.T, m *Manager) (leased chan struct{}) {
	m.Log, m.ResolvConf = slog.New(slog.NewTextHandler(io.Discard, nil)), filepath.Join(t.TempDir(), "resolv.conf")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	leased = make(chan struct{})
	go func() { defer close(done); m.keep6(ctx, "nic", 100, func() { close(leased) }) }()
	t.Cleanup(func() { cancel(); <-done })
	return leased
}

// shows6 waits until the card has exactly these addresses beside its link-local one.
func shows6(t *testing.T, nic netlink.Link, what string, want ...string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		list, err := netlink.AddrList(nic, netlink.FAMILY_V6)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range list {
			if !a.IP.IsLinkLocalUnicast() {
				got = append(got, a.IPNet.String())
			}
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: the card has %v, want %v", what, got, want)
		}
	}
}

// A lease is renewed by its server, and by another when that has gone; one that is refused goes with its address.
func TestDHCPv6LeaseLife(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	nic := cable(t)
	d := &dhcp6Server{id: &dhcpv6.DUIDUUID{UUID: [16]byte{1}}, give: net.ParseIP("fd00:5::7")}
	s, err := server6.NewServer("server", nil, d.handle)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	leased := keeps(t, &Manager{})
	shows6(t, nic, "first", "fd00:5::7/128")
	<-leased
	d.set(func() { d.id, d.seen = &dhcpv6.DUIDUUID{UUID: [16]byte{2}}, nil })
	count := func(kind dhcpv6.MessageType) (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, k := range d.seen {
			if k == kind {
				n++
			}
		}
		return n
	}
	for limit := time.Now().Add(20 * time.Second); count(dhcpv6.MessageTypeRebind) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it asked no other server")
		}
	}
	if count(dhcpv6.MessageTypeRenew) == 0 || count(dhcpv6.MessageTypeSolicit) > 0 {
		t.Errorf("before it asked any server, it sent %v", d.seen)
	}
	shows6(t, nic, "another server", "fd00:5::7/128")
	d.set(func() { d.give, d.seen = net.ParseIP("fd00:5::8"), nil })
	shows6(t, nic, "refused", "fd00:5::8/128")
}

// An address that another host has is declined, and not used.
func TestDHCPv6AddressOfAnotherHost(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	nic := cable(t)
	server, err := netlink.LinkByName("server")
	if err != nil {
		t.Fatal(err)
	}
	taken := &net.IPNet{IP: net.ParseIP("fd00:5::7"), Mask: net.CIDRMask(128, 128)}
	if err := netlink.AddrAdd(server, &netlink.Addr{IPNet: taken, Flags: 0x02}); err != nil { // IFA_F_NODAD
		t.Fatal(err)
	}
	d := &dhcp6Server{id: &dhcpv6.DUIDUUID{UUID: [16]byte{1}}, give: taken.IP}
	s, err := server6.NewServer("server", nil, d.handle)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	keeps(t, &Manager{})
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		d.mu.Lock()
		declined := slices.Contains(d.seen, dhcpv6.MessageTypeDecline)
		d.mu.Unlock()
		if declined {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("it declined nothing, and sent %v", d.seen)
		}
	}
	shows6(t, nic, "declined")
	d.set(func() { d.give = net.ParseIP("fd00:5::8") })
	shows6(t, nic, "another address", "fd00:5::8/128")
}

// dnsmasq, a server of others, gives an address, a name server and a boot file, and advertises itself as a router:
// the kernel makes an address of its prefix, and a route.
func TestDHCPv6OfDnsmasq(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("not run: dnsmasq is not installed")
	}
	if !ownNetwork(t) {
		return
	}
	nic := cable(t)
	server, err := netlink.LinkByName("server")
	if err != nil {
		t.Fatal(err)
	}
	// The server's end is another host's: it goes where this process's end is not.
	holder := exec.Command("unshare", "--net", "sleep", "600")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	inside := func(args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net"}, args...)...)
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		own, err1 := os.Readlink("/proc/self/ns/net")
		other, err2 := os.Readlink("/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net")
		if err1 == nil && err2 == nil && own != other {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("no second network")
		}
	}
	if err := netlink.LinkSetNsPid(server, holder.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ip", "link", "set", "server", "up"}, {"ip", "address", "add", "fd00:6::1/64", "dev", "server", "nodad"}} {
		if out, err := inside(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	dnsmasq := inside("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=server", "--bind-dynamic", "--enable-ra", "--user=root", "--pid-file=",
		"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--dhcp-range=fd00:6::10,fd00:6::10,slaac,64,10m", "--dhcp-option=option6:dns-server,[fd00:6::53]",
		"--dhcp-option=option6:59,http://[fd00:6::1]:8080/boot/parameters")
	var said strings.Builder
	dnsmasq.Stderr = &said
	if err := dnsmasq.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dnsmasq.Process.Kill()
		dnsmasq.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	m := &Manager{BootClass: "IronyardAgent"}
	leased := keeps(t, m)
	mac := nic.Attrs().HardwareAddr
	made := netip.AddrFrom16([16]byte{0: 0xfd, 3: 6, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
	want := []string{"fd00:6::10/128", made.String() + "/64"}
	slices.Sort(want)
	shows6(t, nic, "dnsmasq", want...)
	<-leased
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		list := m.BootFiles(t.Context(), false, func(string) bool { return true })
		conf, _ := os.ReadFile(m.ResolvConf)
		if len(list) == 1 && list[0] == (BootFile{mac.String(), "http://[fd00:6::1]:8080/boot/parameters"}) && string(conf) == "nameserver fd00:6::53\n" {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("boot files %v, resolver %q", list, conf)
		}
	}
	if list := m.BootFiles(t.Context(), true, func(string) bool { return true }); len(list) != 1 || !strings.HasSuffix(list[0].Name, "/boot/parameters") {
		t.Errorf("asked again, it names %v", list)
	}
	routes, err := netlink.RouteList(nic, netlink.FAMILY_V6)
	if err != nil || !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Gw != nil && r.Gw.IsLinkLocalUnicast() }) {
		t.Errorf("no default route: %v, %v", routes, err)
	}
}

// Another server answers first, which has no address to give: the machine gets that of the one that has.
func TestDHCPv6BesideAServerWithoutAddresses(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	nic := cable(t)
	d := &dhcp6Server{id: &dhcpv6.DUIDUUID{UUID: [16]byte{1}}, give: net.ParseIP("fd00:5::7")}
	s, err := server6.NewServer("server", nil, func(conn net.PacketConn, peer net.Addr, p dhcpv6.DHCPv6) {
		if m, ok := p.(*dhcpv6.Message); ok && m.Type() == dhcpv6.MessageTypeSolicit {
			r := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeAdvertise, TransactionID: m.TransactionID}
			r.AddOption(m.GetOneOption(dhcpv6.OptionClientID))
			r.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{2}}))
			r.AddOption(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail})
			conn.WriteTo(r.ToBytes(), peer)
		}
		d.handle(conn, peer, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	keeps(t, &Manager{})
	shows6(t, nic, "beside it", "fd00:5::7/128")
}

// Another server answers first, which gives addresses and names no boot file: the one that does is heard.
func TestBootFileOfTheSecondServer(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	cable(t)
	const file = "http://[fd00:5::1]:8080/boot/parameters"
	s, err := server6.NewServer("server", nil, func(conn net.PacketConn, peer net.Addr, p dhcpv6.DHCPv6) {
		m, ok := p.(*dhcpv6.Message)
		if !ok || m.Type() != dhcpv6.MessageTypeInformationRequest {
			return
		}
		for i, named := range []string{"", file} {
			r := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: m.TransactionID}
			r.AddOption(m.GetOneOption(dhcpv6.OptionClientID))
			r.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDUUID{UUID: [16]byte{byte(i)}}))
			if named != "" {
				r.AddOption(dhcpv6.OptBootFileURL(named))
			}
			conn.WriteTo(r.ToBytes(), peer)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	m := &Manager{BootClass: "IronyardAgent", Log: slog.New(slog.DiscardHandler)}
	m.boot.leased(leasedAt{"nic", true}, netip.MustParsePrefix("fd00:5::7/128"), "")
	ours := func(name string) bool { return strings.HasSuffix(name, "/boot/parameters") }
	if list := m.BootFiles(t.Context(), false, ours); len(list) != 1 || list[0].Name != file {
		t.Errorf("boot files %v", list)
	}
}

// What cannot be used of a reply is refused.
func TestRead6(t *testing.T) {
	reply := func(change func(*dhcpv6.OptIANA)) *dhcpv6.Message {
		ia := &dhcpv6.OptIANA{T1: 5 * time.Second, T2: 8 * time.Second}
		change(ia)
		return &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, Options: dhcpv6.MessageOptions{Options: dhcpv6.Options{ia}}}
	}
	has := func(ip string, valid time.Duration) func(*dhcpv6.OptIANA) {
		return func(ia *dhcpv6.OptIANA) {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(ip), ValidLifetime: valid})
		}
	}
	s, err := read6(reply(has("fd00::7", time.Minute)))
	if err != nil || s.addr != netip.MustParsePrefix("fd00::7/128") || s.renew != 5*time.Second || s.rebind != 8*time.Second || s.expire != time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := read6(reply(has("fd00::7", time.Second))); err != nil || s.renew >= s.rebind || s.rebind >= s.expire || s.expire != minLease {
		t.Errorf("a short one: %+v, %v", s, err)
	}
	endless := reply(func(ia *dhcpv6.OptIANA) {
		ia.T1, ia.T2 = time.Hour, 0
		has("fd00::7", 0xffffffff*time.Second)(ia)
	})
	if s, err := read6(endless); err != nil || s.renew != time.Hour || s.rebind <= s.renew || s.rebind >= s.expire {
		t.Errorf("one without an end: %+v, %v", s, err)
	}
	for name, m := range map[string]*dhcpv6.Message{
		"nothing":    {},
		"ended":      reply(has("fd00::7", 0)),
		"link-local": reply(has("fe80::7", time.Minute)),
		"multicast":  reply(has("ff02::1", time.Minute)),
		"loopback":   reply(has("::1", time.Minute)),
		"IPv4":       reply(has("::ffff:10.0.0.1", time.Minute)),
		"refused":    reply(func(ia *dhcpv6.OptIANA) { ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail}) }),
	} {
		if s, err := read6(m); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
