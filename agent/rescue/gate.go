package rescue

import (
	"net"
	"sync"
)

// gate counts callers who have not logged in, and those who have.
type gate struct {
	mu      sync.Mutex
	pending int
	of      map[string]int // pending, by source
	logins  int
}

// enter reports whether one more caller of an address may try to log in.
func (g *gate) enter(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending >= maxPending || g.of[source] >= maxPerSource || g.logins >= maxLogins {
		return false
	}
	g.pending++
	g.of[source]++
	return true
}

// leave ends a try; in says that it let the caller in, who counts until out.
func (g *gate) leave(source string, in bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	if g.of[source]--; g.of[source] == 0 {
		delete(g.of, source)
	}
	if in {
		g.logins++
	}
}

func (g *gate) out() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logins--
}

// sourceOf is a caller's address without the port. Callers of an IPv6 network of 64 bits count as one.
func sourceOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}
