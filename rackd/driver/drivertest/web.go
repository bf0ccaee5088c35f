package drivertest

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Web is the HTTP server of a BMC that a test has hang, fall silent and lose answers. What it answers is its user's. Requests are
// answered one by one.
type Web struct {
	Server *httptest.Server
	// Spoiler stands before what is answered. Its Restart is set before Play, and is called while nothing is answered.
	Spoiler Spoiler

	mu        sync.Mutex
	writes    int
	lose      bool
	hang      bool
	ended     chan struct{}
	whileRead func()
}

// NewWeb starts a server until the test ends, with TLS if secure.
func NewWeb(t *testing.T, secure bool, answer http.HandlerFunc) *Web {
	w := &Web{ended: make(chan struct{})}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hang {
			w.mu.Unlock()
			<-w.ended
			w.mu.Lock()
			panic(http.ErrAbortHandler)
		}
		w.Spoiler.Serve(rw, r, answer)
	}))
	w.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		StartTLS(t, w.Server)
	} else {
		w.Server.Start()
	}
	t.Cleanup(func() { close(w.ended); w.Server.CloseClientConnections(); w.Server.Close() })
	return w
}

// Set runs do while nothing is answered.
func (w *Web) Set(do func()) { w.mu.Lock(); defer w.mu.Unlock(); do() }

// Read is called by answer before it answers a read of the machine.
func (w *Web) Read() {
	if do := w.whileRead; do != nil {
		w.whileRead = nil
		do()
	}
}

// Wrote is called by answer once it has carried out an order. The answer may then be lost.
func (w *Web) Wrote() {
	w.writes++
	if w.lose {
		w.lose = false
		panic(http.ErrAbortHandler)
	}
}

// Play sets what of m is the server's.
func (w *Web) Play(m *Machine) *Machine {
	m.Writes = func() (n int) { w.Set(func() { n = w.writes }); return n }
	m.Lose = func() { w.Set(func() { w.lose = true }) }
	m.Spoil, m.Asked = w.Spoiler.Spoil, w.Spoiler.Asked
	m.Restart = w.Server.CloseClientConnections // what keeps no session keeps connections
	if w.Spoiler.Restart != nil {
		m.Restart = func() { w.Set(w.Spoiler.Forget) }
	}
	m.Hang = func() { w.Set(func() { w.hang = true }) }
	m.WhileRead = func(do func()) { w.Set(func() { w.whileRead = do }) }
	m.Port = func() string { _, port := w.HostPort(); return port }
	m.Silence = func() { w.Server.Listener.Close(); w.Server.CloseClientConnections() }
	return m
}

// HostPort is where the server listens.
func (w *Web) HostPort() (host, port string) {
	host, port, _ = net.SplitHostPort(w.Server.Listener.Addr().String())
	return host, port
}

// PEM is the server's certificate.
func (w *Web) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Server.Certificate().Raw}))
}
