package netup

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/vishvananda/netlink"
)

// inside is set for a test that runs in a network of its own.
const inside = "NETUP_TEST_INSIDE"

// ownNetwork runs the test again, in a process with a network of its own; it reports
// whether this is that process.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		minLease = lease
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("makes a network of its own, which needs root")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: "+t.Name()+" ") {
		t.Skipf("%s", out)
	}
	return false
}

// lease is how long the leases of dhcpServer last. Its own server is asked to go on with it after renewal, and any after rebinding.
const lease, renewal, rebinding = 7 * time.Second, 2 * time.Second, 4 * time.Second

// dhcpServer gives leases, and can be told otherwise.
type dhcpServer struct {
	id   net.IP
	mu   sync.Mutex
	give net.IP
	mute bool // says nothing at all
	nak  bool // refuses renewals
	seen []dhcpv4.MessageType
}

func (d *dhcpServer) set(change func()) { d.mu.Lock(); defer d.mu.Unlock(); change() }

func (d *dhcpServer) handle(conn net.PacketConn, _ net.Addr, m *dhcpv4.DHCPv4) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, m.MessageType())
	kind := dhcpv4.MessageTypeOffer
	if m.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
		if d.nak && !m.ClientIPAddr.IsUnspecified() {
			kind, d.nak = dhcpv4.MessageTypeNak, false
		}
	}
	if d.mute {
		return
	}
	mods := []dhcpv4.Modifier{dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(d.id))}
	if kind != dhcpv4.MessageTypeNak {
		mods = append(mods, dhcpv4.WithYourIP(d.give), dhcpv4.WithLeaseTime(uint32(lease.Seconds())), dhcpv4.WithOption(dhcpv4.OptRenewTimeValue(renewal)),
			dhcpv4.WithOption(dhcpv4.OptRebindingTimeValue(rebinding)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(net.IPv4(10, 5, 0, 1)))
	}
	r, err := dhcpv4.NewReplyFromRequest(m, mods...)
	if err == nil {
		conn.WriteTo(r.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort})
	}
}

// machine is a manager on one end of a cable, with a DHCP server at the other.
func machine(t *testing.T, d *dhcpServer) netlink.Link {
	t.Helper()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nic"}, PeerName: "server"}); err != nil {
		t.Fatal(err)
	}
	server, err := netlink.LinkByName("server")
	if err != nil {
		t.Fatal(err)
	}
	nic, err := netlink.LinkByName("nic")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(server); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(nic); err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(server, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 6, 0, 1), Mask: net.CIDRMask(24, 32)}}); err != nil {
		t.Fatal(err)
	}
	s, err := server4.NewServer("server", nil, d.handle)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	m := &Manager{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), ResolvConf: filepath.Join(t.TempDir(), "resolv.conf")}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.keep(ctx, "nic", 100, settings{}, func() {}) }()
	t.Cleanup(func() { cancel(); <-done })
	return nic
}

// shows waits until the interface has exactly these addresses, and a default route if it has any.
func shows(t *testing.T, nic netlink.Link, what string, want ...string) {
	t.Helper()
	limit, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		addrs, err := netlink.AddrList(nic, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		routes, err := netlink.RouteList(nic, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range addrs {
			got = append(got, a.IP.String())
		}
		byRouter := false
		for _, r := range routes {
			byRouter = byRouter || r.Gw != nil
		}
		if len(got) == len(want) && (len(want) == 0 || got[0] == want[0]) && byRouter == (len(want) > 0) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: the interface has %v, routes %v; want %v", what, got, routes, want)
		}
	}
}

// A server's refusal is obeyed: the address goes at once, and the machine asks from the start.
func TestRefusedAddressIsGivenUp(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	d := &dhcpServer{id: net.IPv4(10, 6, 0, 1), give: net.IPv4(10, 5, 0, 7)}
	nic := machine(t, d)
	shows(t, nic, "first", "10.5.0.7")
	d.set(func() { d.nak, d.give, d.seen = true, net.IPv4(10, 5, 0, 8), nil })
	shows(t, nic, "refused", "10.5.0.8")
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seen) < 2 || d.seen[0] != dhcpv4.MessageTypeRequest || d.seen[1] != dhcpv4.MessageTypeDiscover {
		t.Errorf("after the refusal it sent %v", d.seen)
	}
}

// An address whose lease has ended may be another machine's by now: it goes, routes and all.
func TestExpiredAddressIsGivenUp(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	d := &dhcpServer{id: net.IPv4(10, 6, 0, 1), give: net.IPv4(10, 5, 0, 7)}
	nic := machine(t, d)
	shows(t, nic, "first", "10.5.0.7")
	d.set(func() { d.mute = true })
	shows(t, nic, "the lease has ended")
	d.set(func() { d.mute, d.give = false, net.IPv4(10, 5, 0, 9) })
	shows(t, nic, "the server is back", "10.5.0.9")
}

// When the server has gone for good, another that knows the address renews it, before it ends.
func TestAnotherServerRenews(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	d := &dhcpServer{id: net.IPv4(10, 6, 0, 1), give: net.IPv4(10, 5, 0, 7)}
	nic := machine(t, d)
	shows(t, nic, "first", "10.5.0.7")
	d.set(func() { d.id, d.seen = net.IPv4(10, 6, 0, 2), nil })
	limit, tick := time.After(40*time.Second), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	renewed := 0
	for began := time.Now(); time.Since(began) < lease+2*time.Second; { // longer than the lease
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("no end")
		}
		shows(t, nic, "another server", "10.5.0.7")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.seen {
		if m == dhcpv4.MessageTypeDiscover {
			t.Errorf("it asked from the start: %v", d.seen)
		}
		renewed++
	}
	if renewed == 0 {
		t.Error("it has not asked at all")
	}
}
