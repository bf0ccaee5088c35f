package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// grouping is an engine on which one transaction for many callers costs less than one
// for each: what a commit costs is waiting for the disk.
type grouping interface {
	engine
	grouped() bool
	// begin begins a serializable transaction that has its turn, at the latest from the first
	// statement on whose answer is waited for before the commit: no two that were begun so
	// have it at once, whichever replicas they are of.
	begin(ctx context.Context) (transaction, error)
	// conflict reports whether a transaction that failed so may be run again.
	conflict(err error) bool
}

// transaction is one that its user ends.
type transaction interface {
	conn
	// flush sends what was kept back.
	flush(ctx context.Context) error
	// commit sends what was kept back and asks for the end of the transaction.
	commit(ctx context.Context) ending
	// settle is for after the end, and returns when what the transaction has seen and written
	// survives a crash of the machine. ErrUnknown: it may not.
	settle() error
	rollback(ctx context.Context)
}

// ending is that of a transaction, which is to be waited for, once.
type ending struct {
	// wait returns when the transaction has ended, whatever it returns. Not asked: what was kept
	// back has failed, and the transaction was undone. ErrUnknown: no answer. Transactions that
	// begin from then on see what it has written; nobody may be told before settle.
	wait func() (asked bool, err error)
	// beside: it has sent everything at once, and what it adds before it has its turn. Another one
	// may begin, and may do the same, before it has ended.
	beside bool
}

// group commits the transactions of concurrent callers together: those that wait while
// one group is written make up the next. They run one after the other inside one
// transaction of the database, so each sees what those before it did, as if it had
// been committed; nobody is told of success before all is. Each runs in its caller's
// goroutine.
//
// A group is all or nothing. When one of its callers fails after it has written, or
// anything fails in the database, the whole is undone. Whose failure it was runs alone,
// in a transaction of its own with its own retries: so what it gets is what it would
// have got by itself. The others are the first of the next group, which is half as large
// if nobody was to blame but a conflict with somebody else. One that fails before it has
// written has changed nothing and does not disturb the others.
//
// Where a group has sent everything and only its end is to come, the next may run and do
// the same beside it (ending.beside); any other waits for that end before it asks the database anything.
type group struct {
	engine grouping
	apart  chan struct{} // held by the one that runs alone

	mu      sync.Mutex
	waiting []*member
	leading bool          // somebody runs groups
	enough  int           // how many have to wait for crowded
	crowded chan struct{} // enough wait

	// The leader's.
	bound     int // of a group, while conflicts last
	conflicts int // in a row
}

const (
	// maxGroup bounds how many callers share the fate of a transaction.
	maxGroup = 64
	// maxUndone is how often a caller may be undone for what others did.
	maxUndone = 4
	// groupPatience bounds how long a group may take: callers without a deadline
	// must not hold up those that have one.
	groupPatience = 30 * time.Second
)

func newGroup(e grouping) *group {
	return &group{engine: e, apart: make(chan struct{}, 1), bound: maxGroup, crowded: make(chan struct{}, 1)}
}

// member is one caller in a group.
type member struct {
	ctx    context.Context
	turn   chan *groupConn // its turn to run
	ran    chan error      // how it ran
	end    chan error      // what became of it all; errAgain: wait for another turn; errAlone: run alone
	left   bool            // it does not wait for its turn any more
	undone int             // how often
}

var (
	errAgain = errors.New("to be run again")
	errAlone = errors.New("to be run alone")
	// errGone is what a caller leaves whose function panicked or ended its goroutine.
	errGone = errors.New("its goroutine has ended")
)

// transact runs f in a group until one is committed, or alone if f is what is in the way.
func (g *group) transact(ctx context.Context, f func(conn) error) error {
	m := &member{ctx: ctx, turn: make(chan *groupConn, 1), ran: make(chan error, 1), end: make(chan error, 1)}
	g.join(m)
	for {
		var c *groupConn
		select {
		case c = <-m.turn:
		case err := <-m.end: // there is no transaction to be had
			return err
		case <-ctx.Done():
			if g.leave(m) {
				return fmt.Errorf("while waiting for the database: %w", ctx.Err())
			}
			c = <-m.turn
		}
		m.run(c, f)
		var err error
		select {
		case err = <-m.end:
		case <-ctx.Done():
			g.leave(m)
			select {
			case err = <-m.end:
			default: // whether the others' transaction is committed nobody knows yet
				return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
			}
		}
		switch err {
		case errAgain:
		case errAlone:
			return g.alone(ctx, f)
		default:
			return err
		}
	}
}

// alone runs f in a transaction of its own. Of those that are to run alone one does at a
// time: the others would be what it conflicts with.
func (g *group) alone(ctx context.Context, f func(conn) error) error {
	select {
	case g.apart <- struct{}{}:
		defer func() { <-g.apart }()
	case <-ctx.Done():
		return fmt.Errorf("while waiting for the database: %w", ctx.Err())
	}
	return retry(ctx, g.engine.conflict, func() error { return once(ctx, g.engine.begin, f) })
}

// once runs f in one transaction.
func once(ctx context.Context, begin func(context.Context) (transaction, error), f func(conn) error) error {
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx) // also when f panics; does nothing after the commit
	if err := f(tx); err != nil {
		return err
	}
	if _, err := tx.commit(ctx).wait(); err != nil {
		return err
	}
	return tx.settle()
}

// run says how f went, also when f does not return.
func (m *member) run(c *groupConn, f func(conn) error) {
	err := errGone
	defer func() { m.ran <- err }()
	err = f(c)
}

func (g *group) join(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	switch {
	case !g.leading:
		g.leading = true
		go g.lead()
	case len(g.waiting) == g.enough:
		select {
		case g.crowded <- struct{}{}:
		default:
		}
	}
}

// leave takes a member out that does not want a turn any more; false: it has one.
func (g *group) leave(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(m.turn) > 0 {
		return false
	}
	m.left = true
	g.waiting = slices.DeleteFunc(g.waiting, func(other *member) bool { return other == m })
	return true
}

// give gives a member its turn, unless it has left.
func (g *group) give(m *member, c *groupConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.left {
		return false
	}
	m.turn <- c
	return true
}

// first lets members be the first of the next group.
func (g *group) first(members []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	members = slices.DeleteFunc(members, func(m *member) bool { return m.left })
	g.waiting = append(members, g.waiting...)
}

// next takes up to n members from those that wait; none, and nothing underway: the leader has to end.
func (g *group) next(n int, underway bool) []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	n = min(len(g.waiting), n)
	if n == 0 {
		g.leading = underway
		return nil
	}
	members := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return members
}

// lead runs groups until nobody waits. One may be run and sent while the end of another is
// waited for, a third not.
func (g *group) lead() {
	var last *underway
	for {
		if last != nil && g.await(last) {
			g.learn(last)
			last = nil
		}
		// Whoever is about to join does so first: what every transaction writes and asks for
		// is written and asked for once for more of them.
		runtime.Gosched()
		members := g.next(g.bound, last != nil)
		switch {
		case members == nil && last == nil:
			return
		case members == nil: // they have left
			<-last.ended
			continue
		}
		next := g.together(members, last)
		if last != nil {
			<-last.ended
			g.learn(last)
		}
		last = next
	}
}

// await waits for the end of a group, or until as many wait as are in it: a group costs much
// that does not depend on its size. It reports whether the group has ended.
func (g *group) await(u *underway) bool {
	g.mu.Lock()
	select {
	case <-g.crowded: // an earlier one
	default:
	}
	enough := len(g.waiting) >= u.size
	if !enough {
		g.enough = u.size
	}
	g.mu.Unlock()
	if !enough {
		select {
		case <-u.ended:
		case <-g.crowded:
		}
	}
	select {
	case <-u.ended:
		return true
	default:
		return false
	}
}

// learn makes groups smaller after one that a conflict was in the way of, and waits a
// little; and larger again after one that had none.
func (g *group) learn(u *underway) {
	if !u.conflict {
		g.bound, g.conflicts = min(2*g.bound, maxGroup), 0
		return
	}
	g.bound = max(1, min(g.bound, u.size)/2)
	pause := time.Millisecond << min(g.conflicts, 5)
	g.conflicts++
	time.Sleep(pause/2 + rand.N(pause)) // those that it conflicts with may end meanwhile
}
