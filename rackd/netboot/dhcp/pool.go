package dhcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lease is an address that a machine has.
type lease struct {
	MAC     string     `json:"mac"`
	Address netip.Addr `json:"address"`
	Until   time.Time  `json:"until"`
	// Declined: somebody else uses the address; nobody gets it until Until.
	Declined bool `json:"declined,omitempty"`
}

// pool hands out addresses. A machine's address is derived from its MAC, probing on
// where that is taken: rackds of one rack give a machine the same address most of
// the time, although they share nothing. Safe for concurrent use.
type pool struct {
	from, to netip.Addr
	ttl      time.Duration
	path     string
	now      func() time.Time

	mu     sync.Mutex
	byMAC  map[string]lease
	byAddr map[netip.Addr]string // MAC, or "" for declined
}

var errPoolFull = errors.New("no free address is left in the DHCP range")

func openPool(path string, from, to netip.Addr, ttl time.Duration, now func() time.Time) (*pool, error) {
	if !from.Is4() || !to.Is4() || to.Less(from) {
		return nil, fmt.Errorf("DHCP range %s-%s is not a range of IPv4 addresses", from, to)
	}
	p := &pool{from: from, to: to, ttl: ttl, path: path, now: now, byMAC: map[string]lease{}, byAddr: map[netip.Addr]string{}}
	body, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read DHCP leases: %w", err)
	}
	var leases []lease
	if err := json.Unmarshal(body, &leases); err != nil {
		return nil, fmt.Errorf("DHCP leases in %s are unreadable: %w; remove the file to start anew", path, err)
	}
	for _, l := range leases {
		if p.contains(l.Address) && l.Until.After(now()) {
			p.put(l)
		}
	}
	return p, nil
}

func (p *pool) contains(a netip.Addr) bool { return !a.Less(p.from) && !p.to.Less(a) }

func (p *pool) put(l lease) {
	if !l.Declined {
		p.byMAC[l.MAC] = l
	}
	p.byAddr[l.Address] = l.MAC
	if l.Declined {
		p.byAddr[l.Address] = ""
		p.byMAC["declined "+l.Address.String()] = l
	}
}

func (p *pool) size() uint32 { return number(p.to) - number(p.from) + 1 }

// offer returns the machine's address, choosing one when it has none. It stays
// reserved for a minute, or for the whole lease when the client asked for it.
func (p *pool) offer(mac string, take bool) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.byMAC[mac]
	if !ok {
		a, err := p.choose(mac)
		if err != nil {
			return a, err
		}
		l = lease{MAC: mac, Address: a}
	}
	until := p.now().Add(time.Minute)
	if take {
		until = p.now().Add(p.ttl)
	}
	if until.After(l.Until) {
		l.Until = until
	}
	p.put(l)
	if !take {
		return l.Address, nil
	}
	return l.Address, p.save()
}

func (p *pool) choose(mac string) (netip.Addr, error) {
	p.expire()
	h := fnv.New32a()
	h.Write([]byte(mac))
	n := p.size()
	for i := range n {
		a := address(number(p.from) + (h.Sum32()%n+i)%n)
		if _, taken := p.byAddr[a]; !taken {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: all %d from %s to %s are in use", errPoolFull, n, p.from, p.to)
}

func (p *pool) expire() {
	for key, l := range p.byMAC {
		if !l.Until.After(p.now()) {
			delete(p.byMAC, key)
			delete(p.byAddr, l.Address)
		}
	}
}

// release forgets the machine's address.
func (p *pool) release(mac string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.byMAC[mac]
	if !ok {
		return nil
	}
	delete(p.byMAC, mac)
	delete(p.byAddr, l.Address)
	return p.save()
}

// decline sets an address aside that a client found in use.
func (p *pool) decline(mac string, a netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, ok := p.byMAC[mac]; !ok || l.Address != a {
		return nil // not this client's to decline
	}
	delete(p.byMAC, mac)
	p.put(lease{MAC: mac, Address: a, Until: p.now().Add(10 * time.Minute), Declined: true})
	return p.save()
}

// macOf returns the machine that has the address.
func (p *pool) macOf(a netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mac := p.byAddr[a.Unmap()]
	return mac, mac != ""
}

// save writes all leases to a new file and moves it into place.
func (p *pool) save() error {
	if p.path == "" {
		return nil
	}
	leases := make([]lease, 0, len(p.byMAC))
	for _, l := range p.byMAC {
		leases = append(leases, l)
	}
	body, err := json.Marshal(leases)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), ".leases-*")
	if err != nil {
		return fmt.Errorf("write DHCP leases: %w", err)
	}
	_, err = f.Write(body)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write DHCP leases: %w", err)
	}
	return nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
