package routeradv

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mdlayher/ndp"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

var (
	own     = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	booting = net.HardwareAddr{2, 0, 0, 0, 0, 0x10}
	running = net.HardwareAddr{2, 0, 0, 0, 0, 0x11}
	router  = net.HardwareAddr{2, 0, 0, 0, 0, 0x99}
)

// wire is a link whose other end is the test.
type wire struct {
	in, out chan []byte
	closed  chan struct{}
	down    chan error // fails one read
}

func (w *wire) MAC() net.HardwareAddr { return own }

func (w *wire) Receive(frame []byte) (int, error) {
	select {
	case f := <-w.in:
		return copy(frame, f), nil
	case err := <-w.down:
		return 0, err
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

func (w *wire) Send(frame []byte) error {
	w.out <- frame
	return nil
}

func (w *wire) Close() error {
	close(w.closed)
	return nil
}

// rack has one machine that boots the ramdisk, and one that runs.
type rack struct{}

func (rack) ByUUID(string) (netboot.Machine, bool) { return netboot.Machine{}, false }

func (rack) ByMAC(mac string) (netboot.Machine, bool) {
	switch mac {
	case booting.String():
		return netboot.Machine{Order: bootorder.Ramdisk(bootorder.Load{})}, true
	case running.String():
		return netboot.Machine{Order: bootorder.LocalDisk()}, true
	}
	return netboot.Machine{}, false
}

// serve runs a server in a bubble, and ends it after the test.
func serve(t *testing.T, test func(w *wire)) { serveWith(t, DHCP{}, test) }

func serveWith(t *testing.T, dhcp DHCP, test func(w *wire)) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{make(chan []byte), make(chan []byte, 1000), make(chan struct{}), make(chan error)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- New(w, rack{}, dhcp, nil, slog.New(slog.DiscardHandler)).Serve(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// solicits sends a solicitation, and returns how long an answer took, false for none within ten seconds.
func (w *wire) solicits(mac net.HardwareAddr, source netip.Addr) ([]byte, time.Duration, bool) {
	begun := time.Now()
	w.in <- frame(mac, allRoutersMAC, source, allRouters, &ndp.RouterSolicitation{})
	for late := time.After(10 * time.Second); ; {
		select {
		case f := <-w.out:
			if !bytes.Equal(f[:6], allRoutersMAC) { // else the server asks for routers
				return f, time.Since(begun), true
			}
		case <-late:
			return nil, 0, false
		}
	}
}

func (w *wire) advertises(from, to net.HardwareAddr, lifetime time.Duration) {
	w.in <- frame(from, to, linkLocal(from), allNodes, &ndp.RouterAdvertisement{RouterLifetime: lifetime})
}

// A machine that boots is answered at once, but for a moment in which routers are asked. The answer is for that
// machine, and makes nobody a router.
func TestMachineThatBootsIsAnswered(t *testing.T) {
	serve(t, func(w *wire) {
		got, took, ok := w.solicits(booting, linkLocal(booting))
		if !ok || took > listensFirst {
			t.Fatalf("the first: %t after %s", ok, took)
		}
		if got, want := [2]string{net.HardwareAddr(got[:6]).String(), netip.AddrFrom16([16]byte(got[38:54])).String()}, [2]string{booting.String(), linkLocal(booting).String()}; got != want {
			t.Errorf("sent to %v, want %v", got, want)
		}
		m, err := ndp.ParseMessage(got[ethernetSize+ipv6Size:])
		if err != nil {
			t.Fatal(err)
		}
		ra, is := m.(*ndp.RouterAdvertisement)
		if !is || ra.RouterLifetime != 0 || ra.ManagedConfiguration || ra.OtherConfiguration || len(ra.Options) != 1 || got[ethernetSize+7] != 255 {
			t.Errorf("sent: %+v", m)
		}
		if _, took, ok := w.solicits(booting, linkLocal(booting)); !ok || took != 0 {
			t.Errorf("right after: %t after %s", ok, took)
		}
		time.Sleep(10 * time.Minute)
		got, took, ok = w.solicits(booting, netip.IPv6Unspecified())
		if !ok || took > askedWithin {
			t.Fatalf("much later: %t after %s", ok, took)
		}
		if to := net.HardwareAddr(got[:6]).String(); to != booting.String() {
			t.Errorf("a machine without an address: sent to %s", to)
		}
	})
}

// Where rackd serves DHCPv6, the answer sends the machine there; with discovery a stranger too, and never one that runs.
func TestMachinesAreSentToDHCPv6(t *testing.T) {
	prefix := netip.MustParsePrefix("fd00:77::/64")
	for _, discovery := range []bool{false, true} {
		serveWith(t, DHCP{Prefix: prefix, Discovery: discovery}, func(w *wire) {
			time.Sleep(time.Minute)
			got, _, ok := w.solicits(booting, linkLocal(booting))
			if !ok {
				t.Fatal("a machine that boots is not answered")
			}
			m, err := ndp.ParseMessage(got[ethernetSize+ipv6Size:])
			if err != nil {
				t.Fatal(err)
			}
			ra, is := m.(*ndp.RouterAdvertisement)
			if !is || ra.RouterLifetime != 0 || !ra.ManagedConfiguration || !ra.OtherConfiguration || len(ra.Options) != 2 {
				t.Fatalf("sent: %+v", m)
			}
			if p, is := ra.Options[1].(*ndp.PrefixInformation); !is || p.Prefix != prefix.Addr() || p.PrefixLength != 64 || !p.OnLink || p.AutonomousAddressConfiguration || p.ValidLifetime != ndp.Infinity {
				t.Errorf("prefix: %+v", ra.Options[1])
			}
			if _, _, ok := w.solicits(router, linkLocal(router)); ok != discovery {
				t.Errorf("discovery %t: a stranger is answered: %t", discovery, ok)
			}
			if _, _, ok := w.solicits(running, linkLocal(running)); ok {
				t.Error("a machine that runs is answered")
			}
		})
	}
}

// Machines that run, strangers and other servers like this one are left alone.
func TestNobodyElseIsAnswered(t *testing.T) {
	serve(t, func(w *wire) {
		time.Sleep(time.Minute)
		for name, mac := range map[string]net.HardwareAddr{"a machine that runs": running, "a stranger": router, "itself": own} {
			if _, _, ok := w.solicits(mac, linkLocal(mac)); ok {
				t.Errorf("%s is answered", name)
			}
		}
		if _, _, ok := w.solicits(booting, netip.MustParseAddr("2001:db8::1")); ok {
			t.Error("a solicitation from afar is answered")
		}
		for len(w.out) > 0 {
			if f := <-w.out; !bytes.Equal(f[:6], allRoutersMAC) {
				t.Errorf("sent unasked: % x", f)
			}
		}
	})
}

// Where a router is, the server is silent; where it ends, the server asks again.
func TestRoutersGoFirst(t *testing.T) {
	for name, c := range map[string]struct {
		lifetime, silent time.Duration
	}{"for half an hour": {30 * time.Minute, 30 * time.Minute}, "as no default router": {0, heardAtLeast}, "for ever": {9000 * time.Second, heardAtMost}} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(w *wire) {
				time.Sleep(time.Minute)
				w.advertises(router, allNodesMAC, c.lifetime)
				if _, _, ok := w.solicits(booting, linkLocal(booting)); ok {
					t.Error("answered beside a router")
				}
				time.Sleep(c.silent)
				if _, took, ok := w.solicits(booting, linkLocal(booting)); !ok || took > askedWithin {
					t.Errorf("when the router has gone: %t after %s", ok, took)
				}
			})
		})
	}
	t.Run("that is heard only when it is asked", func(t *testing.T) {
		serve(t, func(w *wire) {
			<-w.out
			time.Sleep(time.Minute)
			w.in <- frame(booting, allRoutersMAC, linkLocal(booting), allRouters, &ndp.RouterSolicitation{})
			if f := <-w.out; !bytes.Equal(f[:6], allRoutersMAC) {
				t.Fatalf("sent before routers were asked: % x", f)
			}
			w.advertises(router, allNodesMAC, time.Hour)
			time.Sleep(time.Minute)
			if len(w.out) > 0 {
				t.Errorf("answered beside a router: % x", <-w.out)
			}
		})
	})
	t.Run("another rackd's answer is no router", func(t *testing.T) {
		serve(t, func(w *wire) {
			time.Sleep(time.Minute)
			w.advertises(router, booting, 0)
			if _, _, ok := w.solicits(booting, linkLocal(booting)); !ok {
				t.Error("not answered")
			}
		})
	})
}

// A flood in a machine's name costs a bounded number of answers.
func TestFloodOfSolicitations(t *testing.T) {
	serve(t, func(w *wire) {
		time.Sleep(listensFirst)
		<-w.out
		for range 10 * answersAtOnce {
			w.in <- frame(booting, allRoutersMAC, linkLocal(booting), allRouters, &ndp.RouterSolicitation{})
		}
		synctest.Wait()
		if got := len(w.out); got != answersAtOnce {
			t.Errorf("%d answers, want %d", got, answersAtOnce)
		}
	})
}

// Whatever the wire brings is read or left.
// An interface that goes down fails a read. The server goes on once it is back.
func TestInterfaceThatGoesDown(t *testing.T) {
	serve(t, func(w *wire) {
		w.down <- &net.OpError{Op: "recvfrom", Err: syscall.ENETDOWN}
		if _, took, ok := w.solicits(booting, linkLocal(booting)); !ok {
			t.Errorf("no answer within %s", took)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(solicitation(router))
	f.Add(advertisement(router, message{from: own, source: linkLocal(own)}, netip.MustParsePrefix("fd00::/64")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := read(b, own); ok && len(m.from) != 6 {
			t.Errorf("% x: %v", b, m)
		}
	})
}
