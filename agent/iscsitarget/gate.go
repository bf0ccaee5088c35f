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
	"sync/atomic"
	"time"
)

// The bounds of a gate. The kernel's target takes one login at a time, and waits for its rest for 15 s. Without bounds, hosts that
// connect and say nothing would keep its initiator out.
const (
	// mostConns is how many connections there are, mostOfAddress how many of one address (IPv6: one network of 64 bits). An address
	// has no more than is left for others.
	mostConns     = 64
	mostOfAddress = 8
	// firstWithin bounds the wait for the first request of a login.
	firstWithin = 5 * time.Second
)

// gate is the door to a target on loopback: it takes in the addresses of some networks whose first words are a login with the name of
// the one initiator, and copies what they say.
type gate struct {
	from      []netip.Prefix
	initiator string
	inside    string
	log       *slog.Logger
	port      int
	l         net.Listener
	done      chan struct{} // closed by close
	// changed has one place: a connection has come or gone.
	changed chan struct{}

	away atomic.Int64 // strangers who were turned away

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	guests map[netip.Prefix]int // connections that were taken in, by address
	all    int                  // of them
	in     int                  // connections that are through
	wg     sync.WaitGroup
}

// open opens the gate to a server on loopback.
func open(ctx context.Context, port int, from []netip.Prefix, initiator, inside string, log *slog.Logger) (*gate, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	g := &gate{from: from, initiator: initiator, inside: inside, log: log, port: l.Addr().(*net.TCPAddr).Port, l: l, done: make(chan struct{}), changed: make(chan struct{}, 1),
		conns: map[net.Conn]bool{}, guests: map[netip.Prefix]int{}}
	g.wg.Go(g.accept)
	return g, nil
}

// mostTurnedAway is how many strangers are logged: rackd takes a bounded number of the agent's lines.
const mostTurnedAway = 20

// acceptAgain is how long the gate rests when no connection can be taken in, for want of files as a rule.
const acceptAgain = 100 * time.Millisecond

func (g *gate) accept() {
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
		why := "its address"
		var leave func()
		if err == nil && g.admits(at.Addr()) {
			why, leave = "too many connections", g.enter(at.Addr())
		}
		if leave == nil {
			g.turnAway(c, why)
			continue
		}
		g.wg.Go(func() {
			defer leave()
			if err := g.pass(c); err != nil {
				g.turnAway(c, err.Error())
			}
		})
	}
}

// turnAway closes a connection, and logs it for the first of them.
func (g *gate) turnAway(c net.Conn, why string) {
	if n := g.away.Add(1); n <= mostTurnedAway {
		g.log.Warn("a stranger at the iSCSI target is turned away", "from", c.RemoteAddr().String(), "because_of", why, "further_are_logged", n < mostTurnedAway)
	}
	c.Close()
}

// enter takes a place for an address; nil: there is none.
func (g *gate) enter(from netip.Addr) (leave func()) {
	from = from.Unmap().WithZone("")
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	by := netip.PrefixFrom(from, bits).Masked()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.guests[by]+1 > min(mostOfAddress, mostConns-g.all) {
		return nil
	}
	g.guests[by]++
	g.all++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all--
		if g.guests[by]--; g.guests[by] == 0 {
			delete(g.guests, by)
		}
	}
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

// pass copies in both directions until one side ends. The kernel does it, by splice. An error is why the caller was not let through.
func (g *gate) pass(c net.Conn) error {
	if !g.keep(c) {
		return nil
	}
	defer g.forget(c)
	first, err := firstRequest(c, g.initiator)
	if err != nil {
		return err
	}
	to, err := net.DialTimeout("tcp", g.inside, 10*time.Second)
	if err != nil {
		g.log.Error("the iSCSI target does not answer", "error", err)
		return nil
	}
	if !g.keep(to) {
		return nil
	}
	defer g.forget(to)
	_ = to.SetWriteDeadline(time.Now().Add(firstWithin)) // Write fails then
	if _, err := to.Write(first); err != nil {
		return nil // it ends
	}
	_ = to.SetWriteDeadline(time.Time{})
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
	return nil
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
