package dhcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// hosts is a network: who uses which address, and what was probed.
type hosts struct {
	mu    sync.Mutex
	used  map[netip.Addr]string
	asked []netip.Addr
	err   error
}

const probeTime = 400 * time.Millisecond

func (h *hosts) probe(ctx context.Context, list []netip.Addr) (map[netip.Addr]string, error) {
	select {
	case <-time.After(probeTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, list...)
	out := map[netip.Addr]string{}
	for _, a := range list {
		if h.used[a] != "" {
			out[a] = h.used[a]
		}
	}
	return out, h.err
}

func (h *hosts) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

// served runs a server that probes, and returns its wire.
func served(t *testing.T, h *hosts, change func(*Config)) (w *wire, log *bytes.Buffer, end func()) {
	log = &bytes.Buffer{}
	s := newServer(t, func(c *Config) {
		c.Probe, c.Log = h.probe, slog.New(slog.NewTextHandler(log, nil))
		if change != nil {
			change(c)
		}
	})
	w = newWire()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, w) }()
	return w, log, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func (w *wire) offered(t *testing.T, mac string) (netip.Addr, time.Duration) {
	t.Helper()
	begun := time.Now()
	w.in <- message(t, mac, dhcpv4.MessageTypeDiscover).ToBytes()
	select {
	case got := <-w.out:
		r, err := dhcpv4.FromBytes(got.packet)
		if err != nil || r.MessageType() != dhcpv4.MessageTypeOffer {
			t.Fatalf("%v, %v", r, err)
		}
		return addr(r.YourIPAddr), time.Since(begun)
	case <-time.After(time.Minute):
		return netip.Addr{}, time.Since(begun)
	}
}

// An address that a host uses is offered to no machine, is set aside and is named in the log. Offers do not
// wait once the server has probed ahead; an offer before that waits for one probe.
func TestNoAddressIsOfferedBeforeItWasProbed(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "when the server has probed ahead": 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := &hosts{used: map[netip.Addr]string{}}
			for i := range 3 { // of four
				h.used[netip.MustParseAddr(fmt.Sprintf("10.77.0.%d", 100+i))] = "02:00:00:00:00:99"
			}
			w, log, end := served(t, h, nil)
			time.Sleep(wait)
			got, took := w.offered(t, known)
			if got.String() != "10.77.0.103" || took > probeTime || wait > 0 && took > 0 {
				t.Errorf("%s: %s offered after %v", name, got, took)
			}
			synctest.Wait() // for what the server probes ahead at this moment
			asked := h.count()
			if again, took := w.offered(t, known); again != got || took != 0 || h.count() != asked {
				t.Errorf("%s: asked again, %s is offered after %v", name, again, took)
			}
			if other, _ := w.offered(t, "52:54:00:00:00:02"); other.IsValid() {
				t.Errorf("%s: %s is offered, which a host uses", name, other)
			}
			synctest.Wait()
			end()
			for a, mac := range h.used {
				if strings.Count(log.String(), "address="+a.String()+" by="+mac) != 1 {
					t.Errorf("%s: %s is not named once in the log:\n%s", name, a, log)
				}
			}
		})
	}
}

// A machine that itself uses the address keeps it; a host that goes makes room after a while; a probe that
// fails costs no machine its address; a live lease is not probed.
func TestProbesThatChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[netip.Addr]string{}
		for i := range 4 {
			all[netip.MustParseAddr(fmt.Sprintf("10.77.0.%d", 100+i))] = known
		}
		h := &hosts{used: all}
		w, _, end := served(t, h, nil)
		time.Sleep(time.Second)
		got, took := w.offered(t, known)
		if !got.IsValid() || took != 0 {
			t.Errorf("its own address: %s after %v", got, took)
		}
		if other, _ := w.offered(t, "52:54:00:00:00:02"); other.IsValid() {
			t.Errorf("another machine is offered %s", other)
		}
		h.mu.Lock()
		h.used = nil
		h.mu.Unlock()
		time.Sleep(freshFor)
		if other, _ := w.offered(t, "52:54:00:00:00:02"); !other.IsValid() {
			t.Error("the hosts have gone, and their addresses are not given")
		}
		end()
	})
	synctest.Test(t, func(t *testing.T) {
		h := &hosts{err: errors.New("no such device")}
		w, log, end := served(t, h, nil)
		if got, took := w.offered(t, known); !got.IsValid() || took > probeTime {
			t.Errorf("a probe that fails: %s after %v", got, took)
		}
		end()
		if strings.Count(log.String(), "no such device") != 1 {
			t.Errorf("the log says it not once:\n%s", log)
		}
	})
}

// A machine with a live lease is offered its address without a probe.
func TestALiveLeaseIsNotProbed(t *testing.T) {
	s := newServer(t, func(c *Config) {
		c.Probe = func(context.Context, []netip.Addr) (map[netip.Addr]string, error) { return nil, nil }
	})
	m := message(t, known, dhcpv4.MessageTypeDiscover)
	if _, err := s.Answer(m); !errors.Is(err, errUnprobed) {
		t.Fatalf("an address that was not probed: %v", err)
	}
	r, err := s.afterProbe(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	answer(t, s, message(t, known, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(r.YourIPAddr))))
	s.pool.probed = map[netip.Addr]probed{}
	if again := answer(t, s, m); !again.YourIPAddr.Equal(r.YourIPAddr) {
		t.Errorf("offered %s, has %s", again.YourIPAddr, r.YourIPAddr)
	}
}
