package dhcp

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	// freshFor is how long the answer of a probe counts, and ahead how long before its end an
	// address is probed again.
	freshFor = 10 * time.Minute
	ahead    = 2 * time.Minute
	// batch is how many addresses are probed at once, and maxAhead how many of a range are probed
	// before a machine asks.
	batch    = 32
	maxAhead = 1024
	// scoutEvery is how often the server looks for addresses to probe ahead.
	scoutEvery = 5 * time.Second
	// candidates are the addresses that are probed for a machine that cannot wait, at once; tries is how
	// often, and maxProbing for how many machines at a time.
	candidates = 4
	tries      = 3
	maxProbing = 64
)

// Probe finds out which addresses are in use, each with the MAC address of the host. It takes less
// than half a second.
type Probe func(context.Context, []netip.Addr) (map[netip.Addr]string, error)

// errUnprobed: the machine is to be given an address of which it is not known that it is free.
var errUnprobed = errors.New("the address was not probed yet")

// probed is what a probe of an address has found; user is the host that has it, empty for none.
type probed struct {
	user  string
	until time.Time
}

// scouted takes in what a probe of some addresses has found, and returns those that are newly in use.
func (p *pool) scouted(asked []netip.Addr, used map[netip.Addr]string) (news []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range asked {
		if used[a] != "" && p.probed[a].user != used[a] {
			news = append(news, a)
		}
		p.probed[a] = probed{used[a], p.now().Add(freshFor)}
	}
	return news
}

// foreign reports whether another host than mac was found at a. Its caller holds mu.
func (p *pool) foreign(mac string, a netip.Addr) bool {
	f := p.probed[a]
	return f.user != "" && f.user != mac && f.until.After(p.now())
}

// unprobed returns the addresses of which the machine would be offered the first, if that was not
// probed; none when it was, or when the machine has an address.
func (p *pool) unprobed(mac string, wish netip.Addr) (list []netip.Addr) {
	stranger := p.stranger(mac)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probe == nil {
		return nil
	}
	fresh := func(a netip.Addr) bool { return p.probed[a].until.After(p.now()) }
	own, has := p.byMAC[mac]
	switch {
	case has && p.byAddr[own].Until.After(p.now()):
		return nil // a live lease, or an offer
	case has && p.open(mac, own):
		if !fresh(own) {
			list = append(list, own)
		}
		return list
	case stranger && p.theirs >= p.most:
		return nil // it gets none
	case p.freeFor(mac, wish):
		if fresh(wish) {
			return nil
		}
		list = append(list, wish)
	}
	for a := range p.inOrder(mac) {
		if !p.freeFor(mac, a) {
			continue
		}
		if fresh(a) && len(list) == 0 {
			return nil
		}
		if list = append(list, a); len(list) == candidates {
			break
		}
	}
	return list
}

// stale returns free addresses whose probe is none or ends soon.
func (p *pool) stale() (list []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for i := range min(p.size, maxAhead) {
		a := address(p.from, i)
		if l, taken := p.byAddr[a]; p.reserved[a] || taken && l.Until.After(now) || p.probed[a].until.After(now.Add(ahead)) {
			continue
		}
		if list = append(list, a); len(list) == batch {
			break
		}
	}
	return list
}

// ask probes addresses. One that fails counts as an answer that they are free: a rack without
// DHCP is worse than a conflict, which machines find out and decline.
func (s *Server) ask(ctx context.Context, list []netip.Addr) {
	used, err := s.cfg.Probe(ctx, list)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.probeLog.Do(func() {
			s.cfg.Log.Error("DHCP addresses cannot be probed before they are offered; they are offered all the same", "error", err)
		})
	}
	for _, a := range s.pool.scouted(list, used) {
		s.cfg.Log.Warn("DHCP address is in use by a host that did not get it here; it is set aside", "address", a.String(), "by", used[a],
			"todo", "take that host off the range, or shorten the range")
	}
}

// scout probes ahead, so that offers seldom wait.
func (s *Server) scout(ctx context.Context) {
	for ctx.Err() == nil {
		if list := s.pool.stale(); len(list) > 0 {
			s.ask(ctx, list)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(scoutEvery):
		}
	}
}

// probing are the machines for which addresses are being probed.
type probing struct {
	mu   sync.Mutex
	macs map[string]bool
}

// begin reports whether there is room for the machine, and it is not there already.
func (p *probing) begin(mac string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.macs == nil {
		p.macs = map[string]bool{}
	}
	if p.macs[mac] || len(p.macs) >= maxProbing {
		return false
	}
	p.macs[mac] = true
	return true
}

func (p *probing) end(mac string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.macs, mac)
}

// afterProbe answers a machine once an address for it was probed.
func (s *Server) afterProbe(ctx context.Context, m *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	for range tries {
		s.ask(ctx, s.pool.unprobed(m.ClientHWAddr.String(), addr(m.RequestedIPAddress())))
		if ctx.Err() != nil {
			return nil, nil
		}
		if r, err := s.Answer(m); !errors.Is(err, errUnprobed) {
			return r, err
		}
	}
	return nil, errors.New("the addresses that were probed for it are all in use by other hosts")
}
