package strangers

import (
	"net/netip"
	"sync"
	"time"
)

// share is a number of places that addresses take.
type share struct {
	max, each int

	mu    sync.Mutex
	taken int
	by    map[netip.Prefix]int
}

func newShare(max, each int) *share { return &share{max: max, each: each, by: map[netip.Prefix]int{}} }

// take takes a place for an address, unless that leaves less to others than the address has.
func (s *share) take(by netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[by]+1 > min(s.each, s.max-s.taken) {
		return false
	}
	s.taken++
	s.by[by]++
	return true
}

func (s *share) give(by netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[by]--; s.by[by] <= 0 {
		delete(s.by, by)
	}
}

// sameHost is what one host may choose among of its addresses: all of an IPv6 network of 64 bits.
const sameHost = 64

// of is what shares of the budget are held by: an IPv4 address, or the network of an IPv6 one.
func of(from netip.Addr) netip.Prefix {
	from = from.Unmap().WithZone("")
	bits := from.BitLen()
	if from.Is6() {
		bits = sameHost
	}
	p, err := from.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address is known: all of those share
	}
	return p
}

// maxPaces is how many nodes' paces are remembered before those are forgotten that have all of theirs again.
const maxPaces = 1024

// paces is how many bytes each node has sent lately.
type paces struct {
	mu sync.Mutex
	of map[string]pace
}

type pace struct {
	left float64 // bytes
	at   time.Time
}

func (p pace) now(rate, burst float64, now time.Time) float64 {
	return min(burst, p.left+rate*max(0, now.Sub(p.at).Seconds()))
}

func (p *paces) take(node string, n, rate, burst float64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]pace{}
	}
	had, known := p.of[node]
	left := burst
	if known {
		left = had.now(rate, burst, now)
	} else if len(p.of) >= maxPaces {
		for other, o := range p.of {
			if o.now(rate, burst, now) >= burst {
				delete(p.of, other)
			}
		}
	}
	if n > left {
		return false
	}
	p.of[node] = pace{left - n, now}
	return true
}
