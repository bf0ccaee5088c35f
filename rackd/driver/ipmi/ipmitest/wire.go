// Package ipmitest is a wire between a driver of IPMI and a BMC, on which a test loses, delays and repeats datagrams.
//
// It imports only what keeps its port; only tests import it.
package ipmitest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/drivertest/closedport"
)

// Wire passes datagrams on between those who send to Address and a BMC. Safe for concurrent use.
type Wire struct {
	t     testing.TB
	front *net.UDPConn

	mu   sync.Mutex
	bmc  string
	ways map[string]*net.UDPConn // to the BMC, by the sender
	up   func(datagram []byte) []Packet
	down func(datagram []byte) []Packet
	all  sync.WaitGroup
	over bool
}

// Packet is a datagram that the wire carries, after a while.
type Packet struct {
	Data  []byte
	After time.Duration
}

// As is a datagram that is carried as it is.
func As(datagram []byte) []Packet { return []Packet{{Data: datagram}} }

// After are datagrams that are carried as they are, after a while.
func After(late time.Duration, datagrams ...[]byte) (packets []Packet) {
	for _, d := range datagrams {
		packets = append(packets, Packet{Data: d, After: late})
	}
	return packets
}

// NewWire begins to pass on. It ends with the test.
func NewWire(t testing.TB, bmc string) *Wire {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{t: t, front: front, bmc: bmc, ways: map[string]*net.UDPConn{}}
	w.all.Go(w.carryUp)
	t.Cleanup(func() { w.Cut(); front.Close() })
	return w
}

// Port is where the wire is to be reached, on 127.0.0.1.
func (w *Wire) Port() int { return w.front.LocalAddr().(*net.UDPAddr).Port }

// Cut ends the wire: nothing listens at its address from then on, until the test ends. No other socket is given the port.
func (w *Wire) Cut() {
	w.t.Helper()
	w.mu.Lock()
	w.over = true
	closedport.Keep(w.t, w.front)
	for _, way := range w.ways {
		way.Close()
	}
	w.mu.Unlock()
	w.all.Wait()
}

// To leads to another BMC from now on. Sessions with the one before are not known there.
func (w *Wire) To(bmc string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bmc = bmc
	for _, way := range w.ways {
		way.Close()
	}
	clear(w.ways)
}

// Up says what becomes of the datagrams to the BMC, and Down of those from it; nil: they are carried as they are. Neither
// may call the wire.
func (w *Wire) Up(f func(datagram []byte) []Packet) { w.mu.Lock(); defer w.mu.Unlock(); w.up = f }

// Down is Up for the other direction.
func (w *Wire) Down(f func(datagram []byte) []Packet) { w.mu.Lock(); defer w.mu.Unlock(); w.down = f }

func (w *Wire) carryUp() {
	b := make([]byte, 2048)
	for {
		n, from, err := w.front.ReadFromUDP(b)
		if err != nil {
			return
		}
		way, f := w.way(from)
		if way == nil {
			return
		}
		w.carry(f, b[:n], func(d []byte) { _, _ = way.Write(d) })
	}
}

// way is the socket to the BMC for a sender.
func (w *Wire) way(from *net.UDPAddr) (*net.UDPConn, func([]byte) []Packet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, nil
	}
	if way := w.ways[from.String()]; way != nil {
		return way, w.up
	}
	to, err := net.ResolveUDPAddr("udp", w.bmc)
	if err != nil {
		return nil, nil
	}
	way, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return nil, nil
	}
	w.ways[from.String()] = way
	w.all.Go(func() { w.carryDown(way, from) })
	return way, w.up
}

func (w *Wire) carryDown(way *net.UDPConn, to *net.UDPAddr) {
	b := make([]byte, 2048)
	for {
		n, err := way.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		f := w.down
		w.mu.Unlock()
		w.carry(f, b[:n], func(d []byte) { _, _ = w.front.WriteToUDP(d, to) })
	}
}

// carry sends what f makes of a datagram.
func (w *Wire) carry(f func([]byte) []Packet, datagram []byte, send func([]byte)) {
	packets := As(datagram)
	if f != nil {
		packets = f(append([]byte(nil), datagram...))
	}
	for _, p := range packets {
		if p.After == 0 {
			send(p.Data)
			continue
		}
		time.AfterFunc(p.After, func() { send(p.Data) })
	}
}
