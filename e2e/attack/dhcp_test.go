package attack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

// forge sends a DHCP message in the name of a machine from the stranger's host, and
// returns the answer to it, if the stranger is given one.
func (y *yard) forge(t *testing.T, e *enrolled, kind dhcpv4.MessageType, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	mac, err := net.ParseMAC(e.MAC)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind), asBIOS}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []uint16{dhcpv4.ClientPort, dhcpv4.ServerPort} { // a client's answers, and a relay's
		conn, err := y.hosts["stranger"].ListenPacket("udp4", y.hosts["stranger"].At(port))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := exchange(conn, addresses["rackd-a"], m)
		conn.Close()
		if err == nil {
			return answer
		}
	}
	return nil
}

// A stranger releases a machine's address in its name and, while the machine's image is written, says that another server has
// given the machine the stranger's own address.
func TestForgedDHCP(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	stranger, theirs := net.IP(y.hosts["stranger"].Addr.AsSlice()), net.IP(e.host.Addr.AsSlice())
	server := dhcpv4.OptServerIdentifier(net.ParseIP(addresses["rackd-a"]))
	y.forge(t, e, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(theirs), dhcpv4.WithOption(server))
	again := y.lease(e.machine)
	judge(t, line{15, onTheNetwork, "release a machine's address in its name", fmt.Sprintf("the machine keeps it: %t", again == nil), "true", again != nil})

	i := y.newImpostor(t, e)
	y.deploy(ctx, t, e)
	if err := e.noted(ctx, journal.WriteBegun); err != nil {
		t.Fatal(err)
	}
	y.forge(t, e, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(stranger)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(stranger)))
	for range 3 {
		i.lookup(ctx, i.script(ctx))
		i.beat(ctx, i.ca)
	}
	n, err := y.settled(ctx, e, deployEnds)
	i.mu.Lock()
	defer i.mu.Unlock()
	judge(t, line{1, onTheNetwork, "DHCP in a machine's name while its image is written", fmt.Sprintf("%d scripts, %d tokens, %d heartbeats taken, %d commands, %d config drives", i.scripts, len(i.tokens), len(i.accepted), len(i.commands), i.drives),
		"the script", len(i.tokens) > 0 || len(i.accepted) > 0 || len(i.commands) > 0})
	y.judgeDeploy(ctx, t, e, n, err, 1, "the deploy beside forged DHCP")
	if err := y.operator.awaits(ctx, e.id, "active", time.Second); err != nil {
		t.Errorf("forged DHCP alone may not end a deploy: %v", err)
	}
}

// elsewhere is an address of a network that no rackd serves; the yard's router leads there.
const elsewhere = "203.0.113.9"

// routes has the stranger's second host be the router to elsewhere for rackds, and returns what counts the packets that come
// there, as a relay gets them.
func (y *yard) routes(ctx context.Context, t *testing.T, rackds ...string) (came *atomic.Int64) {
	t.Helper()
	router := y.hosts["stranger2"]
	if err := router.Own(netip.MustParsePrefix("203.0.113.0/24")); err != nil {
		t.Fatal(err)
	}
	for _, r := range rackds {
		if _, err := y.run(ctx, r, "ip", "route", "replace", "203.0.113.0/24", "via", router.Addr.String()); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := router.ListenPacket("udp4", fmt.Sprintf("%s:%d", elsewhere, dhcpv4.ServerPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	came = new(atomic.Int64)
	go func() {
		for buf := make([]byte, 4096); ; came.Add(1) {
			if _, _, err := conn.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	return came
}

// say sends a DHCP message in the name of a machine from the stranger's host and waits for no answer.
func (y *yard) say(t *testing.T, rackd, mac string, kind dhcpv4.MessageType, more ...dhcpv4.Modifier) {
	t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind), asBIOS}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := y.hosts["stranger"].ListenPacket("udp4", y.hosts["stranger"].At(0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.ParseIP(addresses[rackd]), Port: dhcpv4.ServerPort}); err != nil {
		t.Fatal(err)
	}
}

// A stranger names a relay of a network elsewhere, so that rackds send their answers there: to a rackd that gives addresses,
// and to one beside another server.
func TestForgedRelays(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	y.lateRackd(ctx, t, "rackd-d", siteName, groupD)
	served, err := y.startMachine(ctx, "relayed", networkOf(3, 10), "rackd-d")
	if err != nil {
		t.Fatal(err)
	}
	macs := map[string]string{"rackd-d": y.enrolMachine(ctx, t, served, groupD, nil).MAC, "rackd-c": f.machineOf(ctx, t, 10).MAC}
	came := y.routes(ctx, t, "rackd-c", "rackd-d")
	const tries = 10
	for rackd, mac := range macs {
		before := y.metric(ctx, t, rackd, "ironyard_rackd_dhcp_replies_total")
		relay, err := y.hosts["stranger"].ListenPacket("udp4", y.hosts["stranger"].At(dhcpv4.ServerPort))
		if err != nil {
			t.Fatal(err)
		}
		hw, err := net.ParseMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		near, err := dhcpv4.NewDiscovery(hw, asBIOS, dhcpv4.WithGatewayIP(net.IP(y.hosts["stranger"].Addr.AsSlice())))
		if err != nil {
			t.Fatal(err)
		}
		for range tries {
			y.say(t, rackd, mac, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.ParseIP(elsewhere).To4()))
		}
		// A relay of the own network is answered, and after what came before it.
		if err := until(ctx, 5*time.Second, func(context.Context) error { _, err := exchange(relay, addresses[rackd], near); return err }); err != nil {
			t.Errorf("%s answers no relay of its own network: %v", rackd, err)
		}
		relay.Close()
		// It counts an answer after it has sent it.
		if err := until(ctx, 5*time.Second, func(context.Context) error {
			if y.metric(ctx, t, rackd, "ironyard_rackd_dhcp_replies_total") == before {
				return fmt.Errorf("%s counts no answer", rackd)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	judge(t, line{15, onTheNetwork, "answers to a relay in another network", fmt.Sprintf("%d of %d packets, from a server and a proxy", came.Load(), 2*tries), "0", came.Load() > 0})
	y.declines(ctx, t, macs["rackd-d"])
}

// declines has a stranger take addresses in one machine's name and decline them, more than rackd-d has, and another machine
// ask for one.
func (y *yard) declines(ctx context.Context, t *testing.T, mac string) {
	t.Helper()
	next, err := y.startMachine(ctx, "declined", networkOf(3, 11), "rackd-d")
	if err != nil {
		t.Fatal(err)
	}
	// It has no address yet: the attack is on the one that it asks for.
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": next.Name(), "driver": next.Enrolment.Driver, "driver_info": next.Enrolment.DriverInfo, "conductor_group": groupD}, &n); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.persist(ctx, "POST", "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": next.MAC}, nil); err != nil {
		t.Fatal(err)
	}
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := y.hosts["stranger"].ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", dhcpv4.ClientPort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	taken := 0
	for range 40 {
		discover, err := dhcpv4.NewDiscovery(hw)
		if err != nil {
			t.Fatal(err)
		}
		offer, err := exchange(conn, addresses["rackd-d"], discover)
		if err != nil {
			break
		}
		taken++
		ip := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr))
		y.say(t, "rackd-d", mac, dhcpv4.MessageTypeRequest, ip)
		y.say(t, "rackd-d", mac, dhcpv4.MessageTypeDecline, ip)
	}
	if taken == 0 {
		t.Error("rackd-d offers a machine that it knows no address at all")
	}
	hw, err = net.ParseMAC(next.MAC)
	if err != nil {
		t.Fatal(err)
	}
	client, err := next.host.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", dhcpv4.ClientPort))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reached, over := "", false
	dropped := y.metric(ctx, t, "rackd-d", `ironyard_rackd_dhcp_dropped_total{reason="unknown"`)
	discover, err := dhcpv4.NewDiscovery(hw)
	if err == nil {
		err = until(ctx, 5*time.Second, func(context.Context) error {
			offer, err := exchange(client, addresses["rackd-d"], discover)
			if err == nil {
				reached = fmt.Sprintf("%d taken and declined, another machine is offered %s", taken, offer.YourIPAddr)
			}
			return err
		})
	}
	if err != nil {
		reached, over = fmt.Sprintf("%d taken and declined, another machine is offered none", taken), true
		if y.metric(ctx, t, "rackd-d", `ironyard_rackd_dhcp_dropped_total{reason="unknown"`) > dropped+4 {
			t.Error("rackd-d does not know the other machine")
		}
	}
	judge(t, line{15, onTheNetwork, "take and decline all addresses in a machine's name", reached, "an address for each other", over})
}

// While a machine's image is written a stranger releases and declines its address in its name, at a server and at a proxy,
// again and again. The machine renews its lease meanwhile.
func TestForgedReleaseAndDecline(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	served := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, served)
	for _, c := range []struct {
		rackd string
		e     *enrolled
	}{{"rackd-a", served}, {"rackd-c", f.machineOf(ctx, t, 11)}} {
		e, theirs := c.e, net.IP(c.e.host.Addr.AsSlice())
		y.deploy(ctx, t, e)
		if err := e.noted(ctx, journal.WriteBegun); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			y.say(t, c.rackd, e.MAC, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(theirs), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(addresses[c.rackd]))))
			y.say(t, c.rackd, e.MAC, dhcpv4.MessageTypeDecline, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(theirs)))
		}
		kept := "a proxy gives none"
		if c.rackd == "rackd-a" {
			kept = fmt.Sprint(y.renews(t, e))
		}
		n, err := y.settled(ctx, e, deployEnds)
		judge(t, line{15, onTheNetwork, "release and decline a machine's address while its image is written, at " + c.rackd, fmt.Sprintf("address renewed: %s, the node is %s %.100s", kept, n.State, n.LastError),
			"renewed, active", kept == "false" || err != nil || n.State != "active"})
	}
}

// renews reports whether a machine that uses its address may go on with it.
func (y *yard) renews(t *testing.T, e *enrolled) bool {
	t.Helper()
	hw, err := net.ParseMAC(e.MAC)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := e.host.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", dhcpv4.ClientPort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask, err := dhcpv4.New(dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithClientIP(net.IP(e.host.Addr.AsSlice())))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := exchange(conn, addresses["rackd-a"], ask)
	return err == nil && answer.MessageType() == dhcpv4.MessageTypeAck
}
