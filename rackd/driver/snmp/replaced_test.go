package snmp

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// A PDU that was replaced by one of another type is asked once more what it is.
func TestAPDUOfAnotherTypeInItsPlace(t *testing.T) {
	for _, version := range []string{"1", "2c"} {
		p, d := newPDU(t, outlets["apc_rackpdu"]), quick(t, Options{})
		n := p.node(auto, map[string]any{fieldVersion: version})
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.outlet, p.on = outlets["aten"], true })
		if is, err := d.PowerState(t.Context(), n); err != nil || is != driver.PowerOn {
			t.Errorf("version %s: %q, %v; want power on", version, is, err)
		}
	}
}

// names is a name server that has one name.
type names struct {
	mu sync.Mutex
	at netip.Addr
}

func (n *names) serve(conn net.PacketConn) {
	b := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		n.mu.Lock()
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: n.at.As4()}}}
		}
		n.mu.Unlock()
		if raw, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(raw, from)
		}
	}
}

// A PDU that has moved to another address under its name is found there.
func TestAPDUThatMoves(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{at: netip.MustParseAddr("127.0.0.2")}
	go n.serve(conn)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; conn.Close() })

	listen := func(at string, port int) *pdu {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(at), Port: port})
		if err != nil {
			t.Fatal(err)
		}
		p := &pdu{conn: c, outlet: outlets["apc_rackpdu"]}
		go p.serve()
		t.Cleanup(func() { c.Close() })
		return p
	}
	old := listen("127.0.0.2", 0)
	port := old.conn.LocalAddr().(*net.UDPAddr).Port
	d := quick(t, Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	doc := nodeAt("pdu7.example:"+strconv.Itoa(port), "apc_rackpdu", nil)
	if is, err := d.PowerState(t.Context(), doc); err != nil || is != driver.PowerOff {
		t.Fatalf("%q, %v", is, err)
	}
	old.conn.Close()
	moved := listen("127.0.0.3", port)
	moved.set(func() { moved.on = true })
	n.mu.Lock()
	n.at = netip.MustParseAddr("127.0.0.3")
	n.mu.Unlock()
	for range 2 {
		_, _ = d.PowerState(t.Context(), doc) // the first call may find out that the old place is silent
	}
	if is, err := d.PowerState(t.Context(), doc); err != nil || is != driver.PowerOn {
		t.Errorf("%q, %v; the PDU is at another address under the same name, and says power on", is, err)
	}
}
