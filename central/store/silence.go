package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How long a database server that was asked something may be silent, or take no bytes. A server whose process
// stands still keeps its connections open: nothing else ends a statement of a caller without a deadline.
// No statement of central takes as long. Those of a migration may, because they build indexes.
const (
	silentFor          = 2 * time.Minute
	silentForMigration = time.Hour
)

// silence is how long each connection of an engine bears silence.
type silence struct{ limit atomic.Int64 }

func (s *silence) set(d time.Duration) { s.limit.Store(int64(d)) }

func (s *silence) get() time.Duration { return time.Duration(s.limit.Load()) }

// dial returns dial for connections that end when their server is silent.
func (s *silence) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &heardConn{Conn: c, silence: s}, nil
	}
}

// heardConn is a connection on which each read and each write has a bound. Deadlines that its user sets go first.
// The client reads and writes only while it waits for the server: a connection that rests is not bounded.
type heardConn struct {
	net.Conn
	silence *silence

	mu    sync.Mutex
	users bool      // the user's deadline is in force
	ends  time.Time // the deadline that is set otherwise
}

// slack is by how much a bound may be shorter than it says: a deadline is not set for each of many reads.
const slack = time.Second / 8

// wait sets the deadline of a read or write that begins.
func (c *heardConn) wait() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users {
		return nil
	}
	limit := c.silence.get()
	end := time.Now().Add(limit)
	if near := end.Add(-min(slack, limit/8)); !c.ends.Before(near) && !c.ends.After(end) {
		return nil
	}
	c.ends = end
	return c.Conn.SetDeadline(end)
}

func (c *heardConn) Read(b []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.judge(err)
}

func (c *heardConn) Write(b []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	return n, c.judge(err)
}

// judge says which bound has ended a read or write.
func (c *heardConn) judge(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users {
		return err
	}
	return fmt.Errorf("the database server at %s has been silent for %s: does its process run, and is its network whole? %w", c.RemoteAddr(), c.silence.get(), err)
}

// SetDeadline implements net.Conn.
func (c *heardConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users, c.ends = !t.IsZero(), time.Time{}
	return c.Conn.SetDeadline(t)
}
