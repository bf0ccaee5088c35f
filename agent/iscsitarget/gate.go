package iscsitarget

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// gate is the door to a target on loopback: it takes in the addresses of some networks, and copies what they say.
type gate struct {
	from   []netip.Prefix
	inside string
	log    *slog.Logger
	port   int
	l      net.Listener
	done   chan struct{} // closed by close
	// changed has one place: a connection has come or gone.
	changed chan struct{}

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	in     int                // connections that are through
	of     map[netip.Addr]int // connections by address
	wg     sync.WaitGroup
}

// open opens the gate to a server on loopback.
func open(ctx context.Context, port int, from []netip.Prefix, inside string, log *slog.Logger) (*gate, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	g := &gate{from: from, inside: inside, log: log, port: l.Addr().(*net.TCPAddr).Port, l: l, done: make(chan struct{}), changed: make(chan struct{}, 1),
		conns: map[net.Conn]bool{}, of: map[netip.Addr]int{}}
	g.wg.Go(g.accept)
	return g, nil
}

// mostTurnedAway is how many strangers are logged: rackd takes a bounded number of the agent's lines.
const mostTurnedAway = 20

// mostOfOne bounds the connections of one address, and mostOfAll those of all. Each takes two of the agent's files.
// Who connects has not shown yet that it may. An initiator has one, and a system that boots from the target a second.
const (
	mostOfOne = 16
	mostOfAll = 128
)

// acceptAgain is how long the gate rests when no connection can be taken in, for want of files as a rule.
const acceptAgain = 100 * time.Millisecond

func (g *gate) accept() {
	away := 0
	for {
		c, err := g.l.Accept()
		if err != nil {
			select {
			case <-g.done:
				return
			case <-time.After(acceptAgain): // another machine's disk must not end by this
				continue
			}
		}
		at, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil || !g.admits(at.Addr()) || !g.seat(at.Addr(), 1) {
			if away++; away <= mostTurnedAway {
				g.log.Warn("a stranger at the iSCSI target is turned away", "from", c.RemoteAddr().String(), "further_are_logged", away < mostTurnedAway)
			}
			c.Close()
			continue
		}
		g.wg.Go(func() {
			defer g.seat(at.Addr(), -1)
			g.pass(c)
		})
	}
}

// seat counts the connections of an address, by one more or less; false: there is no room for one more.
func (g *gate) seat(a netip.Addr, by int) bool {
	a = a.Unmap().WithZone("")
	g.mu.Lock()
	defer g.mu.Unlock()
	all := 0
	for _, n := range g.of {
		all += n
	}
	if by > 0 && (g.of[a] >= mostOfOne || all >= mostOfAll) {
		return false
	}
	if g.of[a] += by; g.of[a] == 0 {
		delete(g.of, a)
	}
	return true
}

// admits reports whether an address may come in.
func (g *gate) admits(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.from, func(p netip.Prefix) bool { return p.Contains(a) })
}

// keep remembers a connection, to close it with the gate; false: the gate is closed.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		c.Close()
		return false
	}
	g.conns[c] = true
	return true
}

func (g *gate) forget(c net.Conn) {
	c.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// count counts those who are through.
func (g *gate) count(by int) {
	g.mu.Lock()
	g.in += by
	g.mu.Unlock()
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// pass copies in both directions until one side ends. The kernel does it, by splice.
func (g *gate) pass(c net.Conn) {
	if !g.keep(c) {
		return
	}
	defer g.forget(c)
	to, err := net.DialTimeout("tcp", g.inside, 10*time.Second)
	if err != nil {
		g.log.Error("the iSCSI target does not answer", "error", err)
		return
	}
	if !g.keep(to) {
		return
	}
	defer g.forget(to)
	g.count(1)
	defer g.count(-1)
	back := make(chan struct{})
	g.wg.Go(func() {
		defer close(back)
		_, _ = io.Copy(c, to) // an end of either side is an end of both
		c.Close()
	})
	_, _ = io.Copy(to, c)
	to.Close()
	<-back
}

// watch calls idle when no connection is through the gate for that long. It returns when the gate closes.
func (g *gate) watch(limit time.Duration, idle func()) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-g.changed:
			g.mu.Lock()
			in := g.in
			g.mu.Unlock()
			if timer.Stop(); in == 0 {
				timer.Reset(limit)
			}
		case <-timer.C:
			idle()
			return
		}
	}
}

// close ends the gate and all connections, and returns when they have ended.
func (g *gate) close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.done)
		g.l.Close()
		for c := range g.conns {
			c.Close()
		}
	}
	g.mu.Unlock()
	g.wg.Wait()
}
