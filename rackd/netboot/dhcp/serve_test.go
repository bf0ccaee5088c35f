package dhcp

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a connection whose other end is the test.
type wire struct {
	net.PacketConn
	from net.Addr // of what comes in
	in   chan any // []byte or error
	out  chan sent
	done chan struct{}
	once sync.Once
}

type sent struct {
	packet []byte
	to     string
}

var sender = &net.UDPAddr{IP: net.IPv4(10, 77, 0, 50), Port: 68}

func newWire() *wire {
	return &wire{from: sender, in: make(chan any, 10), out: make(chan sent, 10), done: make(chan struct{})}
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case v := <-w.in:
		if err, bad := v.(error); bad {
			return 0, nil, err
		}
		return copy(b, v.([]byte)), w.from, nil
	case <-w.done:
		return 0, nil, net.ErrClosed
	}
}

func (w *wire) WriteTo(b []byte, to net.Addr) (int, error) {
	w.out <- sent{append([]byte(nil), b...), to.String()}
	return len(b), nil
}

func (w *wire) LocalAddr() net.Addr { return sender }
func (w *wire) Close() error        { w.once.Do(func() { close(w.done) }); return nil }

func TestServeOutlivesBadPacketsAndAnInterfaceThatGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWire(), newServer(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Serve(ctx, w) }()
		w.in <- []byte("noise")
		w.in <- syscall.ENETDOWN
		w.in <- message(t, known, dhcpv4.MessageTypeDiscover).ToBytes()
		got := <-w.out
		if r, err := dhcpv4.FromBytes(got.packet); err != nil || r.MessageType() != dhcpv4.MessageTypeOffer || got.to != "255.255.255.255:68" {
			t.Errorf("sent %v to %s (%v)", r, got.to, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

func TestBootServerAnswersTheSender(t *testing.T) {
	w, s := newWire(), newServer(t, func(c *Config) { c.Mode = Proxy })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.ServeBoot(ctx, w) }()
	w.in <- message(t, known, dhcpv4.MessageTypeRequest, pxe(iana.INTEL_X86PC, "PXEClient:Arch:00000")...).ToBytes()
	got := <-w.out
	r, err := dhcpv4.FromBytes(got.packet)
	if err != nil || r.MessageType() != dhcpv4.MessageTypeAck || r.BootFileNameOption() != "undionly.kpxe" || got.to != sender.String() {
		t.Errorf("sent %v to %s (%v)", r, got.to, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeBoot returned %v", err)
	}
}
