package iscsi

import (
	"net"
	"sync/atomic"
)

// blackHole is a connection whose writes get lost once swallow is set.
type blackHole struct {
	net.Conn
	swallow atomic.Bool
}

// Write implements net.Conn.
func (b *blackHole) Write(p []byte) (int, error) {
	if b.swallow.Load() {
		return len(p), nil
	}
	return b.Conn.Write(p)
}
