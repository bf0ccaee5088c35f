package vbmc

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// restartTakes is for how long a BMC takes no call that starts again with new firmware, where nothing else was set.
const restartTakes = 3 * time.Second

// Restart starts the BMC again: connections break, it knows no session and no task from before, an update that was not written is lost,
// and it takes no call for a while.
func (b *BMC) Restart() { b.restart(cmp.Or(b.Faults.restarts(), restartTakes)) }

func (b *BMC) restart(away time.Duration) {
	b.Faults.set(func() { b.Faults.back = time.Now().Add(away) })
	b.lives.end()
	b.sessions.forget()
	b.tasks.forget()
	b.callers.cut()
}

// resetManager restarts the BMC, once it has answered.
func (b *BMC) resetManager(w http.ResponseWriter, r *http.Request) {
	parameters, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var kind string
	if e := parameters.parameters("Manager.Reset", map[string]any{"ResetType": &kind}, "ResetType"); e != nil {
		e.write(w)
		return
	}
	if e := inList("the parameter ResetType of the action Manager.Reset", "ActionParameterValueNotInList", kind, managerResets); e != nil {
		e.write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	_ = http.NewResponseController(w).Flush() // a caller that has left hears nothing
	time.AfterFunc(answerLeaves, b.Restart)
}

// answerLeaves is how long the BMC goes on after it was told to restart.
const answerLeaves = 200 * time.Millisecond

var managerResets = []string{"GracefulRestart", "ForceRestart"}

// lives hold what ends with a life of the BMC.
type lives struct {
	mu     sync.Mutex
	cancel context.CancelFunc // of the update that runs
}

func (l *lives) begun(cancel context.CancelFunc) { l.mu.Lock(); defer l.mu.Unlock(); l.cancel = cancel }

func (l *lives) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// callers are the connections to the BMC.
type callers struct {
	mu   sync.Mutex
	open map[*caller]bool
}

// caller is one of them.
type caller struct {
	net.Conn
	all *callers
}

// keep notes a connection until it is closed.
func (a *callers) keep(c net.Conn) net.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[*caller]bool{}
	}
	kept := &caller{c, a}
	a.open[kept] = true
	return kept
}

// Close implements net.Conn.
func (c *caller) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// cut resets all connections.
func (a *callers) cut() {
	a.mu.Lock()
	open := a.open
	a.open = nil
	a.mu.Unlock()
	for c := range open {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	}
}
