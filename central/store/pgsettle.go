package store

import (
	"context"
	"fmt"
	"sync"
)

// flushLog is a transaction that writes to PostgreSQL's log, and nothing else: its commit
// is answered once it is on the disk, and with it all that was written to the log before,
// also what was committed without waiting for that (decision 43).
const flushLog = "SELECT pg_logical_emit_message(true, 'ironyard', '')"

// unsettled knows the newest commit that others may see and the disk may not have. Safe for
// concurrent use.
type unsettled struct {
	mu     sync.Mutex
	newest *settlement // nil: there was none yet
}

// settlement is a commit on its way to the disk.
type settlement struct {
	before *settlement // nil: that has ended
	done   chan struct{}
	err    error // once done: why it may not be there
}

// begin is for who is about to ask for a commit: whoever reads from now on may see it.
func (u *unsettled) begin() *settlement {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &settlement{before: u.newest, done: make(chan struct{})}
	u.newest = s
	return s
}

// seen returns the newest commit that somebody who has read by now may have seen.
func (u *unsettled) seen() *settlement {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest
}

// end says what became of it. All that was committed before shares that: the log has an order.
func (s *settlement) end(err error) {
	s.before, s.err = nil, err
	close(s.done)
}

// refused says that nothing was committed: only what was before counts.
func (s *settlement) refused() {
	if before := s.before; before != nil {
		go func() { s.end(before.wait(context.Background())) }()
		return
	}
	s.end(nil)
}

// wait returns when the commit and all before it are on the disk.
func (s *settlement) wait(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("while waiting for the database's disk: %w", ctx.Err())
	}
}

// settledConn reads what this replica has settled.
type settledConn struct {
	pgConn
	unsettled *unsettled // nil: whatever is committed is on the disk
}

func (c settledConn) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	r, err := c.pgConn.query(ctx, stmt, args...)
	if err != nil || c.unsettled == nil {
		return r, err
	}
	return &settledRows{rows: r, ctx: ctx, unsettled: c.unsettled}, nil
}

// lasting runs read, and if that has found something returns when it is there to stay, also
// what another replica has not settled: its connection has lived on from the read to a
// commit that waited for the disk.
func (e *postgresEngine) lasting(ctx context.Context, read func(conn) (found bool, err error)) error {
	if e.unsettled == nil {
		_, err := read(e)
		return err
	}
	c, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	own := settledConn{pgConn{e.counter, c}, e.unsettled}
	if found, err := read(own); err != nil || !found {
		return err
	}
	if _, err := own.exec(ctx, flushLog); err != nil {
		return fmt.Errorf("the database did not say that its disk has what was read: %w", err)
	}
	return nil
}

// settledRows are handed out once all is on the disk that they may show.
type settledRows struct {
	rows
	ctx       context.Context
	unsettled *unsettled // nil: they are
	err       error
}

func (r *settledRows) Next() bool {
	more := r.rows.Next() // from here on it is clear what they show
	if u := r.unsettled; u != nil {
		r.unsettled = nil
		r.err = u.seen().wait(r.ctx)
	}
	return more && r.err == nil
}

func (r *settledRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.rows.Err()
}
