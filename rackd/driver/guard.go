package driver

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// Guard returns the request with one more check of the fence, at the last moment: when
// it has its connection and nothing of it is on the wire. A TLS handshake with a slow
// BMC takes seconds, in which the node may be lost. A request that is refused loses
// its connection, which is how a transport is kept from writing.
//
// A request over HTTP/2, whose connection others share, is as it was. refused returns
// what the fence said last, nil when it did not refuse: the transport's own error only
// speaks of a closed connection.
func Guard(req *http.Request, f Fence) (guarded *http.Request, refused func() error) {
	g := &guard{fence: f}
	trace := &httptrace.ClientTrace{GotConn: g.gotConn}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), g.refused
}

type guard struct {
	fence Fence
	mu    sync.Mutex
	err   error
}

// gotConn is called by the transport's goroutine before it writes, for each attempt.
func (g *guard) gotConn(info httptrace.GotConnInfo) {
	if wire, ok := info.Conn.(*tls.Conn); ok && wire.ConnectionState().NegotiatedProtocol == "h2" {
		return
	}
	err := g.fence.Check()
	g.mu.Lock()
	g.err = err
	g.mu.Unlock()
	if err != nil {
		info.Conn.Close()
	}
}

func (g *guard) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
