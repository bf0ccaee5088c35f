package iscsi

import (
	"bufio"
	"bytes"
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

// stranger is a connection that makes WRITE SAME a command that no disk knows, and counts it.
type stranger struct {
	net.Conn
	made *atomic.Int64
}

// Write implements net.Conn. A header comes in a call of its own.
func (s stranger) Write(p []byte) (int, error) {
	if len(p) == headerSize && p[0]&0x3f == opCommand && p[32] == 0x93 {
		p = bytes.Clone(p)
		p[32] = 0xc7
		s.made.Add(1)
	}
	return s.Conn.Write(p)
}

// talker is a connection that says what it was given, and forgets what it is told.
type talker struct {
	net.Conn
	says *bytes.Reader
}

// Read implements net.Conn.
func (c talker) Read(p []byte) (int, error) { return c.says.Read(p) }

// Write implements net.Conn.
func (talker) Write(p []byte) (int, error) { return len(p), nil }

// hostileLogin is a login at a target that says anything.
func hostileLogin(says []byte) *login {
	c := talker{says: bytes.NewReader(says)}
	return &login{conn: c, in: bufio.NewReader(c), target: Target{IQN: "iqn.t", Initiator: "iqn.i", CHAP: CHAP{User: "u", Secret: "s", TargetUser: "t", TargetSecret: "x"}}, cmdSN: 1}
}
