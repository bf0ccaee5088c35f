package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// heardFor is how long a proxy remembers an address that a machine has asked another server for.
const heardFor = 24 * time.Hour

// heard is what a proxy has overheard: which address a machine has asked for, in a request that all
// servers get. The newest counts. Its size is bounded by maxRange.
type heard struct {
	mu sync.Mutex
	by map[string]overheard
}

type overheard struct {
	at    netip.Addr
	until time.Time
}

// overhear learns from a machine's request to the server that gives the addresses.
func (s *Server) overhear(m *dhcpv4.DHCPv4) {
	a := addr(m.RequestedIPAddress())
	if m.MessageType() != dhcpv4.MessageTypeRequest || !a.IsValid() {
		return
	}
	if !s.served(a) {
		s.disbelieved(m, a)
		return
	}
	mac := m.ClientHWAddr.String()
	if s.heard.learn(mac, a, s.cfg.Now()) {
		s.cfg.Journal.Leased(mac, a, "", "")
	}
}

// learn reports whether there was room.
func (h *heard) learn(mac string, a netip.Addr, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string]overheard{}
	}
	if _, known := h.by[mac]; !known && len(h.by) >= maxRange {
		for other, o := range h.by {
			if o.until.Before(now) {
				delete(h.by, other)
			}
		}
		if len(h.by) >= maxRange {
			return false
		}
	}
	h.by[mac] = overheard{a, now.Add(heardFor)}
	return true
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
