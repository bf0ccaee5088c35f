package attack

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/e2e/fleet/journal"
)

// forge sends a DHCP message in the name of a machine from the stranger's host, and
// returns the answer to it, if the stranger is given one.
func (y *yard) forge(t *testing.T, e *enrolled, kind dhcpv4.MessageType, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	mac, err := net.ParseMAC(e.MAC)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient"))}, more...)...)
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
