package tftp

import (
	"container/list"
	"errors"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxTransfers is how many transfers run at a time, of peers that have acknowledged.
	maxTransfers = 256
	// perAddress is how many of them one address may have: a machine loads a file after
	// the other, and begins again when it is reset.
	perAddress = 8
	// maxOpen bounds the requests whose first packet is not acknowledged yet, and
	// openPerAddress those from one address. A real peer acknowledges within milliseconds;
	// of others there may be any number, from any address, so the oldest goes first.
	maxOpen        = 1024
	openPerAddress = 4
)

// Reasons why a transfer has to go.
var (
	errBusy      = errors.New("too many transfers, try again")
	errDisplaced = errors.New("another request took its place before its first packet was acknowledged")
	errSilent    = errors.New("another transfer took its place after its peer had fallen silent")
)

// place is a transfer's share of the server.
type place struct {
	peer  netip.AddrPort
	heard time.Time // of the peer: its request, or its last acknowledgement
	acked bool
	at    *list.Element // in places.open, until acked
	end   func(why error)
	gone  bool
}

// places decides which transfers there may be. Safe for concurrent use.
type places struct {
	most int // transfers
	now  func() time.Time

	mu      sync.Mutex
	waiting *list.List // of *place, not acknowledged, oldest first
	running map[*place]bool
	byPeer  map[netip.AddrPort]*place
}

func newPlaces(most int) *places {
	return &places{most: most, now: time.Now, waiting: list.New(), running: map[*place]bool{}, byPeer: map[netip.AddrPort]*place{}}
}

// open gives a request a place; nil when it is the same again, which is being answered. end
// is called, once and without any lock, if the place is taken away.
func (p *places) open(peer netip.AddrPort, end func(why error)) *place {
	p.mu.Lock()
	var out *place
	defer func() {
		p.mu.Unlock()
		if out != nil {
			out.end(errDisplaced)
		}
	}()
	if old := p.byPeer[peer]; old != nil {
		if p.now().Sub(old.heard) < timeout {
			return nil
		}
		// It has begun again at the same port.
		p.drop(old)
		out = old
	}
	if out == nil {
		out = p.excess(peer.Addr())
	}
	x := &place{peer: peer, heard: p.now(), end: end}
	x.at = p.waiting.PushBack(x)
	p.byPeer[peer] = x
	return x
}

// excess drops the request that has to go for another from this address; nil for none.
func (p *places) excess(from netip.Addr) (out *place) {
	n := 0
	for e := p.waiting.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*place); x.peer.Addr() == from {
			if n++; out == nil {
				out = x
			}
		}
	}
	switch {
	case n >= openPerAddress:
	case p.waiting.Len() >= maxOpen:
		out = p.waiting.Front().Value.(*place)
	default:
		return nil
	}
	p.drop(out)
	return out
}

// confirm notes that the peer has acknowledged. Its first time it becomes a transfer, or
// gets errBusy.
func (p *places) confirm(x *place) error {
	p.mu.Lock()
	var out *place
	defer func() {
		p.mu.Unlock()
		if out != nil {
			out.end(errSilent)
		}
	}()
	if x.gone {
		return errDisplaced
	}
	now := p.now()
	x.heard = now
	if x.acked {
		return nil
	}
	own := 0
	var silent, ownSilent *place
	for r := range p.running {
		idle := now.Sub(r.heard) >= timeout
		if idle && (silent == nil || r.heard.Before(silent.heard)) {
			silent = r
		}
		if r.peer.Addr() == x.peer.Addr() {
			own++
			if idle && (ownSilent == nil || r.heard.Before(ownSilent.heard)) {
				ownSilent = r
			}
		}
	}
	switch {
	case own >= perAddress:
		out = ownSilent
	case len(p.running) >= p.most:
		out = silent
	default:
		p.run(x)
		return nil
	}
	if out == nil {
		return errBusy
	}
	p.drop(out)
	p.run(x)
	return nil
}

func (p *places) run(x *place) {
	p.waiting.Remove(x.at)
	x.at, x.acked = nil, true
	p.running[x] = true
}

// close gives a place back.
func (p *places) close(x *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(x)
}

// drop forgets a place. Its caller holds mu.
func (p *places) drop(x *place) {
	if x.gone {
		return
	}
	x.gone = true
	if x.at != nil {
		p.waiting.Remove(x.at)
	}
	delete(p.running, x)
	if p.byPeer[x.peer] == x {
		delete(p.byPeer, x.peer)
	}
}
