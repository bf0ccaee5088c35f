package strangers

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// Listen lets connections of l in, as far as strangers' part goes. A further one is closed at once; agents try again.
func (g *Gate) Listen(l net.Listener) net.Listener {
	return &listener{l, g, g.connections, Connections}
}

// ListenTLS is Listen for a server of TLS whose peers show nothing: a connection counts until its first request.
func (g *Gate) ListenTLS(l net.Listener) net.Listener {
	return &listener{l, g, g.handshakes, Handshakes}
}

type listener struct {
	net.Listener
	gate  *Gate
	share *share
	part  Part
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var from netip.Addr
		if peer, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			from = peer.Addr()
		}
		if leave, ok := l.gate.take(l.share, l.part, from); ok {
			return &conn{c, leave}, nil
		}
		c.Close() // it has got nothing that could be lost
	}
}

// conn holds a place until it is closed or its peer is known.
type conn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// Known gives back the place of a connection that Listen let in, or of TLS over it: its peer has shown who it is.
func Known(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if in, ok := c.(*conn); ok {
		in.leave()
	}
}
