package iscsitarget

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// echo answers on loopback with what it is sent.
func echo(t *testing.T) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer c.Close(); _, _ = io.Copy(c, c) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

func dial(t *testing.T, g *gate, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// them is the initiator of the tests.
const them = "iqn.2026-11.dev.ironyard:a1"

// loginOf is the first request of an initiator of a name.
func loginOf(name string) []byte {
	text := "InitiatorName=" + name + "\x00SessionType=Normal\x00TargetName=iqn.2008-10.org.openstack:1\x00AuthMethod=CHAP\x00"
	request := make([]byte, headerSize+(len(text)+3)&^3)
	request[0], request[1], request[6], request[7] = loginRequest, 0x81, byte(len(text)>>8), byte(len(text))
	copy(request[headerSize:], text)
	return request
}

// logIn sends a login and waits for its echo.
func logIn(t *testing.T, c net.Conn, name string) {
	t.Helper()
	request := loginOf(name)
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(request))
	if _, err := io.ReadFull(c, back); err != nil || string(back) != string(request) {
		t.Fatalf("the login comes back as %q, %v", back, err)
	}
}

// one is the network of one address.
func one(address string) []netip.Prefix {
	a := netip.MustParseAddr(address)
	return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
}

// A gate for several networks takes in the addresses of each, however they are written.
func TestGateAdmits(t *testing.T) {
	g := &gate{from: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fe80::/64")}}
	for text, want := range map[string]bool{"10.0.0.9": true, "::ffff:10.0.0.9": true, "10.0.1.9": false, "fe80::1%eth0": true, "fd00::1": false} {
		if got := g.admits(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// The gate copies for one address, turns others away, and ends what runs when it closes.
func TestGateLetsOneAddressIn(t *testing.T) {
	g, err := open(t.Context(), 0, one("127.0.0.2"), them, echo(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	c := dial(t, g, "127.0.0.2")
	got := make([]byte, 5)
	logIn(t, c, them)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	stranger := dial(t, g, "127.0.0.3")
	if n, err := stranger.Read(got); err == nil {
		t.Errorf("a stranger reads %q", got[:n])
	}
	g.close()
	if n, err := c.Read(got); err == nil {
		t.Errorf("after the end %q is read", got[:n])
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.port)); err == nil {
		c.Close()
		t.Error("the gate is closed and takes connections")
	}
}

// Strangers who come again and again displace no other lines of the agent's log.
func TestStrangersFillNoLog(t *testing.T) {
	lines := &lineCount{}
	g, err := open(t.Context(), 0, one("127.0.0.2"), them, echo(t), slog.New(slog.NewTextHandler(lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 * mostTurnedAway {
		if n, err := dial(t, g, "127.0.0.3").Read(make([]byte, 1)); err == nil {
			t.Errorf("a stranger reads %d bytes", n)
		}
	}
	g.close()
	if n := lines.Load(); n == 0 || n > mostTurnedAway+1 {
		t.Errorf("%d lines were logged", n)
	}
}

// lineCount counts the lines of a log.
type lineCount struct{ atomic.Int64 }

func (l *lineCount) Write(p []byte) (int, error) {
	l.Add(1)
	return len(p), nil
}

// A gate without connections ends; one with a connection stays.
func TestGateEndsWhenIdle(t *testing.T) {
	g, err := open(t.Context(), 0, one("127.0.0.1"), them, echo(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	ended := make(chan time.Time, 1)
	c := dial(t, g, "127.0.0.1")
	logIn(t, c, them) // it is through
	go g.watch(100*time.Millisecond, func() { ended <- time.Now() })
	select {
	case <-ended:
		t.Error("it ends while somebody is through")
	case <-time.After(400 * time.Millisecond):
	}
	gone := time.Now()
	c.Close()
	select {
	case at := <-ended:
		if at.Sub(gone) < 50*time.Millisecond {
			t.Errorf("it ends %s after the last has gone", at.Sub(gone))
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
}

// What is no name or secret reaches neither a path nor an attribute of the kernel.
func TestOptionsAreChecked(t *testing.T) {
	good := Options{IQN: "iqn.2008-10.org.openstack:0198", Initiator: "iqn.2026-11.dev.ironyard:a1", Port: 3260, From: one("10.0.0.1"),
		User: "rackd-01", Secret: "0123456789abcdef", TargetUser: "agent-01", TargetSecret: "fedcba9876543210"}
	alone := good
	alone.TargetUser, alone.TargetSecret = "", ""
	if err := errors.Join(good.check(), alone.check()); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"a path":          func(o *Options) { o.IQN = "iqn.2008-10.org/../../core" },
		"two dots":        func(o *Options) { o.IQN = "iqn.2008-10.org:a..b" },
		"no name":         func(o *Options) { o.Initiator = "" },
		"a long name":     func(o *Options) { o.Initiator = "iqn.2008-10.org:" + strings.Repeat("a", 223) },
		"a line":          func(o *Options) { o.Secret = "0123456789abcdef\nx" },
		"a short secret":  func(o *Options) { o.TargetSecret = "1" },
		"nobody":          func(o *Options) { o.From = nil },
		"no network":      func(o *Options) { o.From = []netip.Prefix{{}} },
		"half a target":   func(o *Options) { o.TargetUser = "" },
		"the inside port": func(o *Options) { o.Port = insidePort },
	} {
		o := good
		if change(&o); o.check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	s := &Server{Log: slog.New(slog.DiscardHandler)}
	if _, err := s.Start(t.Context(), "/dev/null", Options{}); err == nil || !strings.HasPrefix(err.Error(), "Error starting iSCSI target: ") {
		t.Errorf("%v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("where there is no target: %v", err)
	}
}

// short is a listener that has no file for its first connections.
type short struct {
	net.Listener
	left atomic.Int64
}

func (s *short) Accept() (net.Conn, error) {
	if s.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

// The agent has no file left for a moment. The gate of another machine's disk is there afterwards.
func TestGateOutlivesAnErrorOfAccept(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	few := &short{Listener: l}
	few.left.Store(3)
	g := &gate{from: one("127.0.0.2"), initiator: them, inside: echo(t), log: slog.New(slog.DiscardHandler), port: l.Addr().(*net.TCPAddr).Port, l: few, done: make(chan struct{}),
		changed: make(chan struct{}, 1), conns: map[net.Conn]bool{}, guests: map[netip.Prefix]int{}}
	g.wg.Go(g.accept)
	defer g.close()
	logIn(t, dial(t, g, "127.0.0.2"), them)
}
