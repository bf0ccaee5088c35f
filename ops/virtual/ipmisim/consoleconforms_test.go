package ipmisim

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// keyboard is a machine's serial port, which keeps what is typed.
type keyboard struct {
	mu    sync.Mutex
	typed bytes.Buffer
	conns []net.Conn
}

func newKeyboard(t *testing.T) (k *keyboard, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k = &keyboard{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns = append(k.conns, c)
			k.mu.Unlock()
			all.Go(func() { _, _ = io.Copy(k, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.mu.Lock()
		for _, c := range k.conns {
			c.Close()
		}
		k.mu.Unlock()
		all.Wait()
	})
	return k, l.Addr().String()
}

// Write takes what is typed.
func (k *keyboard) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.typed.Write(p)
}

func (k *keyboard) text() string { k.mu.Lock(); defer k.mu.Unlock(); return k.typed.String() }

func (k *keyboard) say(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_, _ = io.WriteString(c, text)
	}
}

// The console of the driver ipmi keeps the contract of consoles on a BMC that has nothing of this project in it.
func TestConsoleConforms(t *testing.T) {
	t.Parallel()
	drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
		k, serial := newKeyboard(t)
		at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
		wire := ipmitest.NewWire(t, at.String())
		var hangs, mute atomic.Bool
		var refused atomic.Int64
		wire.Up(func(b []byte) []ipmitest.Packet {
			if hangs.Load() {
				return nil
			}
			return ipmitest.As(b)
		})
		wire.Down(func(b []byte) []ipmitest.Packet {
			if ipmitest.Refused(b) {
				refused.Add(1)
			}
			if hangs.Load() || mute.Load() {
				return nil
			}
			return ipmitest.As(b)
		})
		return &drivertest.SerialPort{
			Console: newConsole(t), Node: nodeAt(uint16(wire.Port()), "s3cret-pass", nil), Secret: "s3cret-pass", One: true,
			Say: k.say, Typed: k.text,
			Hang:    func() { hangs.Store(true) },
			Mute:    func() { mute.Store(true) },
			Silence: wire.Cut,
			Deny:    func() { wire.To(start(t, &computer{}, "an0ther-pass").String()) },
			Logins:  func() int { return int(refused.Load()) },
		}
	})
}
