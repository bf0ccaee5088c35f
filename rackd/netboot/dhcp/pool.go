package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/strangers"
)

const (
	// offerTime is how long an offered address waits for its request.
	offerTime = time.Minute
	// declineTime is how long an address that somebody else uses is set aside.
	declineTime = 10 * time.Minute
	// maxRange bounds the range, and with it the memory that clients can fill.
	maxRange = 1 << 16
	// mostAside is how many addresses of other servers are set aside for one machine. Anyone can decline them in its name, and a network of
	// IPv6 has no end of them.
	mostAside = 4
)

// lease is an address that a machine has.
type lease struct {
	MAC     string     `json:"mac"`
	Address netip.Addr `json:"address"`
	Until   time.Time  `json:"until"`
	// Declined: MAC found somebody else using the address, or is said to have it beside the one it
	// has; nobody gets it until Until.
	Declined bool `json:"declined,omitempty"`
	// Heard: another server gives it, as a request has told that anyone may have sent.
	Heard bool `json:"heard,omitempty"`
	// Stranger: the machine was not enrolled when it got it.
	Stranger bool `json:"stranger,omitempty"`
	// offered: nobody has asked for it yet.
	offered bool
}

// pool hands out addresses of its range, and keeps account of those that the other
// rackds of the subnet give, as far as it overhears the machines' requests: when one
// of them has gone, its machines keep their addresses with this one. A machine's
// address is derived from its MAC, probing on where that is taken, so rackds that
// share a range mostly agree; ranges of their own rule out that two machines that ask
// at the same moment get the same one. Safe for concurrent use.
//
// byMAC[l.MAC] == l.Address for each lease of byAddr that is not declined.
type pool struct {
	from, to netip.Addr
	size     uint32 // addresses of the range
	subnet   netip.Prefix
	reserved map[netip.Addr]bool // never given to a machine, in the range or not
	ttl      time.Duration
	now      func() time.Time
	logger   *slog.Logger
	probe    Probe // nil: addresses are offered without
	// stranger says whether a machine is not enrolled. It is asked without mu: it may ask back.
	stranger func(mac string) bool
	most     int    // addresses that strangers may have
	beyond   func() // is told when a stranger would have more

	log leaseFile // used by flush alone

	mu     sync.Mutex
	theirs int       // leases of byAddr that are strangers'
	news   []lease   // not yet in the file
	swept  time.Time // when ended leases were last forgotten
	byAddr map[netip.Addr]lease
	byMAC  map[string]netip.Addr
	aside  map[string]int // by MAC, how many leases of byAddr are declined ones of other servers' addresses
	probed map[netip.Addr]probed
}

var errStrangersFull = errors.New("machines that are not enrolled have their part of the DHCP range: enrol the machine, or raise --strangers-range")

var errPoolFull = errors.New("no free address is left in the DHCP range")

// openPool returns a pool with the leases of c.LeaseFile. Its range is one of IPv4 or of IPv6.
func openPool(c Config) (*pool, error) {
	if !c.From.IsValid() || c.From.Is4() != c.To.Is4() || c.From.Zone() != "" || c.To.Less(c.From) {
		return nil, fmt.Errorf("DHCP range %s-%s is not a range of addresses of one kind: give the first and the last", c.From, c.To)
	}
	n, ok := number(c.From, c.To)
	if !ok || n >= maxRange {
		return nil, fmt.Errorf("DHCP range %s-%s has too many addresses: at most %d are possible", c.From, c.To, maxRange)
	}
	ones, _ := c.Mask.Size()
	p := &pool{from: c.From, to: c.To, size: n + 1, subnet: netip.PrefixFrom(c.From, ones).Masked(), ttl: c.LeaseTime, log: leaseFile{path: c.LeaseFile}, now: c.Now, logger: c.Log, probe: c.Probe,
		stranger: func(mac string) bool { return false }, beyond: func() {},
		reserved: map[netip.Addr]bool{c.ServerIP: true, c.Router: true},
		byAddr:   map[netip.Addr]lease{}, byMAC: map[string]netip.Addr{}, aside: map[string]int{}, probed: map[netip.Addr]probed{}}
	if !p.subnet.Contains(c.To) {
		return nil, fmt.Errorf("DHCP range %s-%s leaves the subnet %s of its first address: correct the range or the prefix", c.From, c.To, p.subnet)
	}
	if c.Discovery {
		p.stranger = func(mac string) bool { _, known := c.Directory.ByMAC(mac); return !known }
		p.most = max(1, int(p.size)*c.Strangers.Range/100)
		p.beyond = func() { c.Strangers.Refuse(strangers.Addresses) }
	}
	for _, d := range c.DNS {
		p.reserved[d] = true
	}
	if ones < c.From.BitLen()-1 { // the subnet's own address, which is all routers' in IPv6
		p.reserved[p.subnet.Addr()] = true
	}
	if c.From.Is4() && ones < 31 {
		p.reserved[broadcast(p.subnet)] = true
	}
	leases, err := load(c.LeaseFile, c.Log)
	if err != nil {
		return nil, err
	}
	now := p.now()
	for _, l := range leases {
		// From here on a lease ends by the clock that no step moves; one of a clock that was
		// ahead, when a lease does.
		left := min(l.Until.Sub(now), p.longest(l))
		if l.Until = now.Add(left); p.usable(l.Address) && left > 0 {
			p.put(l)
		} else if p.byAddr[l.Address].MAC == l.MAC {
			p.drop(l.Address)
		}
	}
	return p, nil
}

// longest is how long a lease of that kind may last.
func (p *pool) longest(l lease) time.Duration {
	if l.Declined {
		return max(declineTime, p.ttl)
	}
	return p.ttl
}

// note keeps l for the file: what is not in it is not to be acknowledged. Its caller holds mu.
func (p *pool) note(l lease) {
	if p.log.path != "" {
		p.news = append(p.news, l)
	}
}

// givable reports whether a may be given to anybody by this server.
func (p *pool) givable(a netip.Addr) bool {
	return p.usable(a) && !a.Less(p.from) && !p.to.Less(a)
}

// usable reports whether a machine may have a: another server's range may hold it.
func (p *pool) usable(a netip.Addr) bool {
	return a.Zone() == "" && p.subnet.Contains(a) && !p.reserved[a]
}

// put records l in place of what its machine and its address had. One more address of another server than a machine may have set aside is
// forgotten: this server offers it to no machine.
func (p *pool) put(l lease) {
	p.drop(l.Address)
	if p.isAside(l) {
		if p.aside[l.MAC] >= mostAside {
			return
		}
		p.aside[l.MAC]++
	}
	if !l.Declined {
		if a, ok := p.byMAC[l.MAC]; ok {
			p.drop(a)
		}
		p.byMAC[l.MAC] = l.Address
	}
	p.byAddr[l.Address] = l
	if l.Stranger {
		p.theirs++
	}
}

// full reports whether strangers have their part of the range, so that one of them gets no further address. Its caller holds mu.
func (p *pool) full() bool {
	if p.theirs < p.most {
		return false
	}
	p.beyond()
	return true
}

// isAside reports whether l sets an address aside that this server does not give.
func (p *pool) isAside(l lease) bool { return l.Declined && !p.givable(l.Address) }

func (p *pool) drop(a netip.Addr) {
	l, ok := p.byAddr[a]
	if ok && !l.Declined {
		delete(p.byMAC, l.MAC)
	}
	if ok && p.isAside(l) {
		if p.aside[l.MAC]--; p.aside[l.MAC] == 0 {
			delete(p.aside, l.MAC)
		}
	}
	if p.byAddr[a].Stranger {
		p.theirs--
	}
	delete(p.byAddr, a)
}

// freeFor reports whether mac may be given a: it is in the range, and nobody else
// has it.
func (p *pool) freeFor(mac string, a netip.Addr) bool { return p.givable(a) && p.open(mac, a) }

// open reports whether nobody but mac is known to have a.
func (p *pool) open(mac string, a netip.Addr) bool {
	if p.foreign(mac, a) {
		return false
	}
	l, taken := p.byAddr[a]
	return !taken || !l.Until.After(p.now()) || l.MAC == mac && !l.Declined
}

// offer reserves an address for the machine: the one it has, else the one it wishes
// for, else the one derived from its MAC.
func (p *pool) offer(mac string, wish netip.Addr) (netip.Addr, error) {
	stranger := p.stranger(mac)
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.now().Add(offerTime)
	if a, ok := p.byMAC[mac]; ok && (p.byAddr[a].Until.After(p.now()) || p.open(mac, a)) {
		if l := p.byAddr[a]; l.Until.Before(until) {
			l.Until = until
			p.put(l)
		}
		return a, nil
	}
	if stranger && p.full() {
		return netip.Addr{}, errStrangersFull
	}
	a := wish
	if !p.freeFor(mac, a) {
		var err error
		if a, err = p.choose(mac); err != nil {
			return a, err
		}
	}
	p.put(lease{MAC: mac, Address: a, Until: until, offered: true, Stranger: stranger})
	return a, nil
}

// verdict is what becomes of a request for an address.
type verdict int

const (
	granted verdict = iota
	// refused: the machine cannot have it, and shall start anew.
	refused
	// unknown: it may be another server's, which knows better.
	unknown
)

// take gives the machine the address it asks for, unless it is not to be had. A
// machine that uses an address of another server, which does not answer it any more,
// keeps it.
func (p *pool) take(mac string, wanted netip.Addr, uses bool) verdict {
	stranger := p.stranger(mac)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.byMAC[mac]
	switch {
	case !p.usable(wanted) || !p.open(mac, wanted) && !((uses || p.byAddr[wanted].Heard) && p.byAddr[wanted].MAC == mac):
		// A machine that uses the address has not declined it: the decline was a stranger's, in its name.
		return refused
	case !p.givable(wanted) && !uses && p.byAddr[wanted].MAC != mac:
		return unknown
	case stranger && !has && p.byAddr[wanted].MAC != mac && p.full():
		return refused
	}
	l := lease{MAC: mac, Address: wanted, Until: p.now().Add(p.ttl), Stranger: stranger}
	p.put(l)
	p.note(l)
	return granted
}

// learn notes that another server gives the machine an address: neither ours, nor
// one that we would give to somebody else. A mere offer of ours gives way. Anyone can say so, so it ends no
// lease: one that we gave stays the machine's, and is returned. ok is false for what is not believed.
func (p *pool) learn(mac string, a netip.Addr) (ours netip.Addr, ok bool) {
	stranger := p.stranger(mac)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.byAddr[a]
	if !p.usable(a) || !p.open(mac, a) && !at.offered && (at.MAC != mac || p.foreign(mac, a)) {
		return ours, false
	}
	if stranger && at.MAC != mac && p.full() {
		return ours, false
	}
	l := lease{MAC: mac, Address: a, Until: p.now().Add(p.ttl), Heard: true, Stranger: stranger}
	old := p.byAddr[p.byMAC[mac]]
	live := old.MAC == mac && !old.offered && old.Until.After(p.now())
	switch {
	case live && old.Address == a:
		l.Heard = old.Heard
	case live && !old.Heard:
		l.Declined, ours = true, old.Address
	}
	p.put(l)
	p.note(l)
	if live && old.Heard && old.Address != a {
		old.Declined = true // whether the machine has left it only its end shows
		p.put(old)
		p.note(old)
	}
	return ours, true
}

func (p *pool) choose(mac string) (netip.Addr, error) {
	var last lease
	for a := range p.inOrder(mac) {
		if p.freeFor(mac, a) {
			return a, nil
		}
		if l := p.byAddr[a]; l.Declined && p.givable(a) && (!last.Declined || l.Until.Before(last.Until)) {
			last = l
		}
	}
	// Declines are easily forged: rather than no address a machine is offered the one that was declined first,
	// and declines it where another machine does have it.
	if last.Declined {
		return last.Address, nil
	}
	return netip.Addr{}, fmt.Errorf("%w: all from %s to %s are in use; widen the range or shorten the lease time", errPoolFull, p.from, p.to)
}

// inOrder are the addresses of the range in the order in which the machine may get them: first the one
// derived from its MAC.
func (p *pool) inOrder(mac string) iter.Seq[netip.Addr] {
	h := fnv.New32a()
	h.Write([]byte(mac))
	n := p.size
	return func(yield func(netip.Addr) bool) {
		for i := range n {
			if !yield(address(p.from, (h.Sum32()%n+i)%n)) {
				return
			}
		}
	}
}

// decline sets an address aside that its machine found in use.
func (p *pool) decline(mac string, a netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own, ok := p.byMAC[mac]; !ok || own != a {
		return // not this client's to decline
	}
	l := lease{MAC: mac, Address: a, Until: p.now().Add(declineTime), Declined: true, Stranger: p.byAddr[a].Stranger}
	if old := p.byAddr[a]; !old.offered && old.Until.After(l.Until) {
		l.Until = old.Until // a stranger may have sent this, and the machine uses the address as long as its lease lasts
	}
	p.put(l)
	p.note(l)
}

// macOf returns the machine that has the address.
func (p *pool) macOf(a netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.byAddr[a.Unmap()]
	return l.MAC, ok && !l.Declined && l.Until.After(p.now())
}

// taken counts the addresses that are not free.
func (p *pool) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byAddr)
}

// number is how far an address is behind the first of a range; ok is false for one that is before it, or far away.
func number(from, a netip.Addr) (n uint32, ok bool) {
	f, x := from.As16(), a.As16()
	d := binary.BigEndian.Uint64(x[8:]) - binary.BigEndian.Uint64(f[8:])
	return uint32(d), [8]byte(f[:8]) == [8]byte(x[:8]) && d <= math.MaxUint32
}

// address is the one that number gives n for.
func address(from netip.Addr, n uint32) netip.Addr {
	b := from.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+uint64(n))
	if from.Is4() {
		return netip.AddrFrom16(b).Unmap()
	}
	return netip.AddrFrom16(b)
}

// broadcast is the last address of an IPv4 subnet.
func broadcast(subnet netip.Prefix) netip.Addr {
	return address(subnet.Masked().Addr(), ^uint32(0)>>subnet.Bits())
}
