package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// grouping is an engine on which one transaction for many callers costs less than one
// for each: what a commit costs is waiting for the disk.
type grouping interface {
	engine
	grouped() bool
	// begin begins a serializable transaction.
	begin(ctx context.Context) (transaction, error)
	// conflict reports whether a transaction that failed so may be run again.
	conflict(err error) bool
}

// transaction is one that its user ends.
type transaction interface {
	conn
	// flush sends what execLater has kept back; commit does so too.
	flush(ctx context.Context) error
	// commit ends the transaction, whatever it returns. ErrUnknown: no answer.
	commit(ctx context.Context) error
	rollback(ctx context.Context)
}

// group commits the transactions of concurrent callers together: those that wait while
// one group is written make up the next. They run one after the other inside one
// transaction of the database, so each sees what those before it did, as if it had
// been committed; nobody is told of success before all is. Each runs in its caller's
// goroutine.
//
// A group is all or nothing. When one of its callers fails after it has written, or
// anything fails in the database, the whole is undone and each runs alone, in a
// transaction of its own with its own retries: so what a caller gets is what it would
// have got by itself. One that fails before it has written has changed nothing and does
// not disturb the others.
type group struct {
	engine grouping

	mu      sync.Mutex
	waiting []*member
	leading bool // somebody runs groups
}

const (
	// maxGroup bounds how many callers share the fate of a transaction.
	maxGroup = 64
	// groupPatience bounds how long a group may take: callers without a deadline
	// must not hold up those that have one.
	groupPatience = 30 * time.Second
)

// member is one caller in a group.
type member struct {
	ctx  context.Context
	turn chan conn  // its turn to run; nil: alone
	ran  chan error // how it ran
	end  chan error // what became of it all; errAlone: run again, alone
	left bool       // it does not wait for its turn any more
}

var (
	errAlone = errors.New("to be run alone")
	// errGone is what a caller leaves whose function panicked or ended its goroutine.
	errGone = errors.New("its goroutine has ended")
)

// transact runs f once in a group, and alone if that comes to nothing.
func (g *group) transact(ctx context.Context, f func(conn) error) error {
	m := &member{ctx: ctx, turn: make(chan conn, 1), ran: make(chan error, 1), end: make(chan error, 1)}
	g.join(m)
	var c conn
	select {
	case c = <-m.turn:
	case <-ctx.Done():
		if g.leave(m) {
			return fmt.Errorf("while waiting for the database: %w", ctx.Err())
		}
		c = <-m.turn
	}
	if c == nil {
		return g.engine.transact(ctx, f)
	}
	m.run(c, f)
	select {
	case err := <-m.end:
		if err == errAlone {
			return g.engine.transact(ctx, f)
		}
		return err
	case <-ctx.Done():
		// It has run; whether the others' transaction is committed nobody knows yet.
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// run says how f went, also when f does not return.
func (m *member) run(c conn, f func(conn) error) {
	err := errGone
	defer func() { m.ran <- err }()
	err = f(c)
}

func (g *group) join(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	if !g.leading {
		g.leading = true
		go g.lead()
	}
}

// leave takes a member out that has not had its turn; false: it has.
func (g *group) leave(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case c := <-m.turn:
		m.turn <- c
		return false
	default:
		m.left = true
		g.waiting = slices.DeleteFunc(g.waiting, func(other *member) bool { return other == m })
		return true
	}
}

// give gives a member its turn, unless it has left.
func (g *group) give(m *member, c conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.left {
		return false
	}
	m.turn <- c
	return true
}

// lead runs groups until nobody waits.
func (g *group) lead() {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), maxGroup)
		if n == 0 {
			g.leading = false
			g.mu.Unlock()
			return
		}
		members := slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		g.mu.Unlock()
		g.together(members)
	}
}

// together runs a group and tells each member how it ended.
func (g *group) together(members []*member) {
	ctx, cancel := untilAllAreDone(members)
	defer cancel()
	tx, err := g.engine.begin(ctx)
	if err != nil {
		for _, m := range members {
			g.give(m, nil)
		}
		return
	}
	results, whole := g.each(ctx, tx, members)
	err = errAlone
	if whole {
		err = g.end(ctx, tx, results)
	} else {
		tx.rollback(ctx)
	}
	for m, own := range results {
		switch {
		case err == nil:
			m.end <- own
		case own != nil && own != errGone:
			m.end <- errAlone // it has asked for nothing; what it saw may not be so
		default:
			m.end <- err
		}
	}
}

// each gives every member its turn and returns the results of those that took it.
// whole: the transaction may be committed. Otherwise those that are not among the
// results run alone already.
func (g *group) each(ctx context.Context, tx transaction, members []*member) (results map[*member]error, whole bool) {
	results = make(map[*member]error, len(members))
	for i, m := range members {
		c := &groupConn{conn: tx, ctx: ctx}
		if !g.give(m, c) {
			continue
		}
		err := <-m.ran
		results[m] = err
		if c.hurt || err != nil && c.wrote {
			for _, later := range members[i+1:] {
				g.give(later, nil)
			}
			return results, false
		}
	}
	return results, true
}

// end commits what the results allow.
func (g *group) end(ctx context.Context, tx transaction, results map[*member]error) error {
	accepted := false
	for _, err := range results {
		accepted = accepted || err == nil
	}
	if !accepted {
		tx.rollback(ctx)
		return nil // each keeps its own error
	}
	if tx.flush(ctx) != nil {
		tx.rollback(ctx)
		return errAlone // whose write has failed, and why, shows then
	}
	err := tx.commit(ctx)
	if err != nil && g.engine.conflict(err) {
		return errAlone
	}
	return err
}

// untilAllAreDone returns a context that ends when the contexts of all members have.
func untilAllAreDone(members []*member) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(members[0].ctx), groupPatience)
	var mu sync.Mutex
	left := len(members)
	stops := make([]func() bool, len(members))
	for i, m := range members {
		stops[i] = context.AfterFunc(m.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// groupConn is a group's transaction in the hands of one member: its context ends the
// member's part, never a statement of the transaction, which is everybody's.
type groupConn struct {
	conn
	ctx   context.Context
	wrote bool
	hurt  bool // a statement failed: the transaction is not what it should be
}

func (c *groupConn) exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c.wrote = true
	n, err := c.conn.exec(c.ctx, stmt, args...)
	c.hurt = c.hurt || err != nil
	return n, err
}

func (c *groupConn) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.wrote = true
	err := c.conn.execLater(c.ctx, check, stmt, args...)
	c.hurt = c.hurt || err != nil
	return err
}

func (c *groupConn) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := c.conn.query(c.ctx, stmt, args...)
	if err != nil {
		c.hurt = true
		return nil, err
	}
	return &groupRows{r, c}, nil
}

// groupRows notices what fails while rows are read.
type groupRows struct {
	rows
	c *groupConn
}

func (r *groupRows) Scan(dest ...any) error {
	err := r.rows.Scan(dest...)
	r.c.hurt = r.c.hurt || err != nil
	return err
}

func (r *groupRows) Err() error {
	err := r.rows.Err()
	r.c.hurt = r.c.hurt || err != nil
	return err
}
