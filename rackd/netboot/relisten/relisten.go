// Package relisten keeps a listener on a network interface that may be made again: a bridge or a VLAN whose configuration is loaded again,
// or a card whose driver is. The kernel binds sockets to the interface that there was. They hear nothing on the next one, and report no
// error.
//
// It may import nothing of the project. Invariant: a listener is on the interface that has the name now, or will be at the next look.
package relisten

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Every is how often it is looked whether the name means another interface.
const Every = 2 * time.Second

// Listener is one on an interface of a name. Safe for concurrent use.
type Listener[T io.Closer] struct {
	name string
	open func(name string) (T, error)
	log  *slog.Logger
	done chan struct{} // closed by Close

	mu     sync.Mutex
	now    T
	index  int
	closed bool
	failed string // why it could not be opened again, as it was logged
}

// Keep opens a listener, and another one each time that the interface was made again.
func Keep[T io.Closer](name string, log *slog.Logger, open func(name string) (T, error)) (*Listener[T], error) {
	l := &Listener[T]{name: name, open: open, log: log, done: make(chan struct{})}
	i, err := net.InterfaceByName(name) // first: one that is made again in between is found at the first look
	if err != nil {
		return nil, err
	}
	if l.now, err = open(name); err != nil {
		return nil, err
	}
	l.index = i.Index
	go l.watch()
	return l, nil
}

func (l *Listener[T]) watch() {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.look()
		case <-l.done:
			return
		}
	}
}

// look opens another listener if the interface is another one. Without an interface of the name there is nothing to do yet.
func (l *Listener[T]) look() {
	i, err := net.InterfaceByName(l.name)
	l.mu.Lock()
	if err != nil {
		l.index = 0 // it may come back with its index, from another network namespace, and the sockets are unbound
	}
	same := err != nil || i.Index == l.index || l.closed
	l.mu.Unlock()
	if same {
		return
	}
	next, err := l.open(l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if l.failed != err.Error() {
			l.failed = err.Error()
			l.log.Error("the interface was made again, and rackd cannot listen on it; it tries again", "interface", l.name, "error", err)
		}
		return
	case l.closed:
		_ = next.Close() // it was not used
		return
	}
	was := l.now
	l.now, l.index, l.failed = next, i.Index, ""
	_ = was.Close() // its interface is gone
	l.log.Warn("the interface was made again: rackd listens on the one that has its name now", "interface", l.name)
}

// Now returns the listener of now.
func (l *Listener[T]) Now() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// ends reports whether an error of a listener that was that of now is one of Close, or of the caller to judge. Else another listener has
// taken its place.
func (l *Listener[T]) ends(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed)
}

// Do calls do with the listener of now, and again with the next one where that was closed because the interface was made again.
func (l *Listener[T]) Do(do func(T) error) error {
	for {
		if err := do(l.Now()); err == nil || l.ends(err) {
			return err
		}
	}
}

// Close ends the listener.
func (l *Listener[T]) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	return l.now.Close()
}

// conn is a net.PacketConn of a Listener.
type conn struct {
	*Listener[net.PacketConn]
}

// Packets is a connection for packets that stays on the interface with a name.
func Packets(name string, log *slog.Logger, open func(name string) (net.PacketConn, error)) (net.PacketConn, error) {
	l, err := Keep(name, log, open)
	if err != nil {
		return nil, err
	}
	return conn{l}, nil
}

func (c conn) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	err = c.Do(func(p net.PacketConn) (err error) { n, from, err = p.ReadFrom(b); return err })
	return n, from, err
}

func (c conn) WriteTo(b []byte, to net.Addr) (n int, err error) {
	err = c.Do(func(p net.PacketConn) (err error) { n, err = p.WriteTo(b, to); return err })
	return n, err
}

func (c conn) LocalAddr() net.Addr                { return c.Now().LocalAddr() }
func (c conn) SetDeadline(t time.Time) error      { return c.Now().SetDeadline(t) }
func (c conn) SetReadDeadline(t time.Time) error  { return c.Now().SetReadDeadline(t) }
func (c conn) SetWriteDeadline(t time.Time) error { return c.Now().SetWriteDeadline(t) }
