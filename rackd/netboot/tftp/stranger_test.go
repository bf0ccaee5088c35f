package tftp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/strangers"
)

// ask sends a read request for the kernel from an address of loopback, and never answers.
func ask(t *testing.T, server net.Addr, from net.IP) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: from}, server.(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte("\x00\x01kernel\x00octet\x00tsize\x000\x00")); err != nil {
		t.Fatal(err)
	}
	return c
}

// Strangers who ask and never acknowledge, from one address or from many forged ones, do not
// keep a machine from its files.
func TestUnacknowledgedRequestsAreNoBurden(t *testing.T) {
	kernel := strings.Repeat("0123456789", 10_000)
	for name, from := range map[string]func(i int) net.IP{
		"one address":                       func(int) net.IP { return net.IPv4(127, 9, 0, 1) },
		"many":                              func(i int) net.IP { return net.IPv4(127, 9, byte(i>>8), byte(i)) },
		"the machine's own address, forged": func(int) net.IP { return net.IPv4(127, 0, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newServer(t, []byte(kernel))
			at, stop := listen(t, s)
			for i := range 1500 {
				ask(t, at, from(i)) // it stays open: nothing tells the server that no one listens
			}
			began := time.Now()
			if body, _, err := get(t, clientOf(t, at), "kernel"); err != nil || body != kernel {
				t.Errorf("the machine got %d bytes: %v", len(body), err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the machine waited %s", took)
			}
			stop()
		})
	}
}

// One machine has a share of the transfers, and a peer that has fallen silent gives its
// place to another.
func TestSharesOfTransfers(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPlaces(3)
	p.now = func() time.Time { return now }
	peer := func(host, port int) *place {
		return p.open(netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:%d", host, port)), func(error) {})
	}
	for port := range perAddress {
		if err := p.confirm(peer(1, 1000+port)); port < 3 && err != nil {
			t.Errorf("transfer %d: %v", port, err)
		}
	}
	two := peer(2, 1)
	if err := p.confirm(two); err == nil {
		t.Error("a fourth transfer of three")
	}
	now = now.Add(2 * timeout) // none has acknowledged anything since
	if err := p.confirm(peer(3, 1)); err != nil {
		t.Errorf("a silent peer kept its place: %v", err)
	}

	p = newPlaces(100)
	var first *place
	for port := range perAddress {
		x := peer(1, 1000+port)
		if err := p.confirm(x); err != nil {
			t.Errorf("transfer %d of one machine: %v", port, err)
		}
		if first == nil {
			first = x
		}
	}
	more := peer(1, 1)
	if err := p.confirm(more); err == nil {
		t.Errorf("one machine has more than %d transfers", perAddress)
	}
	p.close(more)
	p.close(first)
	if err := p.confirm(peer(1, 2)); err != nil {
		t.Errorf("after one ended: %v", err)
	}
}

// locked is a log that many goroutines write.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// Requests for files that are not there, from anybody and by any name, cost the log little; so does one host that fetches a
// file again and again.
func TestRequestsCostFewLines(t *testing.T) {
	s, _ := newServer(t, []byte("kernel"))
	log := &locked{}
	s.Log = slog.New(slog.NewJSONHandler(log, nil))
	at, stop := listen(t, s)
	client := clientOf(t, at)
	const tries = 200
	for range tries {
		if _, _, err := get(t, client, strings.Repeat("\x01", 450)); err == nil {
			t.Fatal("a file that is not there was sent")
		}
		if body, _, err := get(t, client, "kernel"); err != nil || body != "kernel" {
			t.Fatalf("the kernel is %q, %v", body, err)
		}
	}
	stop()
	n := strings.Count(log.String(), "\n")
	if n == 0 || n > strangers.DefaultLines+strangers.DefaultMachineLines || log.Len() > n*1500 {
		t.Errorf("%d requests made %d lines, %d bytes of log", 2*tries, n, log.Len())
	}
}
