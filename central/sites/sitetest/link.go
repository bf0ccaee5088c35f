package sitetest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Link is a WAN link, as a TCP proxy on the loopback, that counts what crosses it
// and can be cut. Safe for concurrent use.
type Link struct {
	listener net.Listener
	to       string
	open     sync.WaitGroup
	up, down atomic.Int64

	mu    sync.Mutex
	cond  *sync.Cond
	state linkState
	conns map[net.Conn]struct{}
}

type linkState int

const (
	whole   linkState = iota
	refused           // connections are closed and refused, as by a router that says so
	silent            // packets vanish, as they do on most broken links
	closed
)

// NewLink returns a link to an address that is whole until t ends.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{listener: listener, to: to, conns: map[net.Conn]struct{}{}}
	l.cond = sync.NewCond(&l.mu)
	l.open.Go(l.accept)
	t.Cleanup(func() {
		l.set(closed)
		listener.Close()
		l.open.Wait()
	})
	return l
}

// Addr is where the site dials.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Cut breaks the link so that both ends notice.
func (l *Link) Cut() { l.set(refused) }

// Silence breaks the link so that nobody is told: nothing that is sent arrives.
func (l *Link) Silence() { l.set(silent) }

// Mend makes the link whole. What was sent over a silent one arrives late.
func (l *Link) Mend() { l.set(whole) }

// Bytes returns how many bytes have crossed the link from the site and to it, those
// of TCP and IP left out.
func (l *Link) Bytes() (fromSite, toSite int64) { return l.up.Load(), l.down.Load() }

func (l *Link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	if s == refused || s == closed {
		for c := range l.conns {
			c.Close()
		}
	}
	l.cond.Broadcast()
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.to)
		if err != nil {
			near.Close()
			continue
		}
		if !l.keep(near, far) {
			continue
		}
		l.open.Go(func() { l.copy(far, near, &l.up) })
		l.open.Go(func() { l.copy(near, far, &l.down) })
	}
}

// keep closes the connections of a link that is down.
func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.state == refused || l.state == closed {
			c.Close()
			continue
		}
		l.conns[c] = struct{}{}
	}
	return l.state == whole || l.state == silent
}

func (l *Link) copy(to, from net.Conn, count *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		for l.state == silent {
			l.cond.Wait()
		}
		l.mu.Unlock()
		if n > 0 {
			count.Add(int64(n))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
