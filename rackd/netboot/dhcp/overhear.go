package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// heardFor is how long a proxy remembers an address that a machine has asked another server for.
const heardFor = 24 * time.Hour

// heard is what a proxy has overheard: which address a machine has asked for, in a request that all
// servers get. The newest counts. Its size is bounded by maxRange, of which machines that are not enrolled may have half.
type heard struct {
	mu    sync.Mutex
	by    map[string]overheard
	whose map[netip.Addr]string // the machine that asked for an address last
	swept time.Time             // when ended ones were last forgotten
}

type overheard struct {
	at    netip.Addr
	until time.Time
}

// overhear learns from a machine's request to the server that gives the addresses.
func (s *Server) overhear(m *dhcpv4.DHCPv4, machine netboot.Machine) {
	a := addr(m.RequestedIPAddress())
	if m.MessageType() != dhcpv4.MessageTypeRequest || !a.IsValid() {
		return
	}
	if !s.served(a) {
		s.disbelieved(m, a)
		return
	}
	mac := m.ClientHWAddr.String()
	if s.heard.learn(mac, machine, a, s.cfg.Now()) {
		s.cfg.Journal.Leased(mac, a, "", "")
	}
}

// learn reports whether there was room for the machine's address.
func (h *heard) learn(mac string, machine netboot.Machine, a netip.Addr, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by, h.whose = map[string]overheard{}, map[netip.Addr]string{}
	}
	most := maxRange
	if machine.UUID == "" {
		most /= 2
	}
	if _, known := h.by[mac]; !known && len(h.by) >= most {
		h.sweep(now)
		if len(h.by) >= most {
			return false
		}
	}
	h.forget(mac)
	h.by[mac], h.whose[a] = overheard{a, now.Add(heardFor)}, mac
	return true
}

// forget forgets what was learnt of a machine. Its caller holds mu.
func (h *heard) forget(mac string) {
	if o, known := h.by[mac]; known && h.whose[o.at] == mac {
		delete(h.whose, o.at)
	}
	delete(h.by, mac)
}

// sweep forgets what has ended, now and then: all of it is looked at. Its caller holds mu.
func (h *heard) sweep(now time.Time) {
	if since := now.Sub(h.swept); since >= 0 && since < sweepEvery {
		return
	}
	h.swept = now
	for mac, o := range h.by {
		if o.until.Before(now) {
			h.forget(mac)
		}
	}
}

// Address returns the address that a machine was given, by this server or, as far as it was
// overheard, by another.
func (s *Server) Address(mac string) (netip.Addr, bool) {
	if s.pool != nil {
		return s.newest(mac)
	}
	a := s.heard.at(mac, s.cfg.Now())
	return a, a.IsValid()
}

// at returns the address that was learnt of a machine; zero for none.
func (h *heard) at(mac string, now time.Time) netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := h.by[mac]; ok && o.until.After(now) {
		return o.at
	}
	return netip.Addr{}
}

// macOf returns the machine that has asked for an address last.
func (h *heard) macOf(a netip.Addr, now time.Time) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mac, ok := h.whose[a]
	return mac, ok && h.by[mac].until.After(now)
}

// Hears reports whether machines that boot speak DHCP with this server.
func (s *Server) Hears() bool { return s.cfg.Mode != Off }

// leaseOf returns the lease that a machine has asked for.
func (p *pool) leaseOf(mac string) (l lease, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.byMAC[mac]
	l = p.byAddr[a]
	return l, ok && !l.offered && !l.Declined && l.Until.After(p.now())
}
