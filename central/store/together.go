package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// attempt is one transaction of a group.
type attempt struct {
	members []*member // that have run, in their order
	results []error   // theirs

	before  *underway // to be awaited before anything is sent that has to be answered before the commit; nil: none
	ahead   readAhead
	apart   bool    // each member sends its own writes: of those that shared one some has failed
	err     error   // the first that a member, the database or the check of a write reported
	culprit *member // whose it was; nil: nobody's
	asked   bool    // the commit was asked for
}

// await waits for the end of the group before: who has its turn must not come to need what
// one that waits for a turn has added.
func (a *attempt) await() {
	if a.before != nil {
		<-a.before.ended
		a.before = nil
	}
}

// failed remembers what has made the transaction worthless, and whose doing it was.
func (a *attempt) failed(err error, m *member) {
	if a.err == nil {
		a.err, a.culprit = err, m
	}
}

// tell tells each member how it went, once what they saw and wrote is there to stay.
func (a *attempt) tell(settle func() error) {
	lost := settle()
	for i, m := range a.members {
		m.end <- cmp.Or(lost, a.results[i])
	}
}

// underway is a group that has been run.
type underway struct {
	size  int
	ended chan struct{} // closed once its end is known
	// conflict: once it has ended, whether something else was in its way.
	conflict bool
}

// together runs a group, and has each member told how it ended. before: one that may not have
// ended yet, nil for none.
func (g *group) together(members []*member, before *underway) *underway {
	u := &underway{size: len(members), ended: make(chan struct{})}
	ctx, cancel := untilAllAreDone(members)
	a := &attempt{before: before, apart: slices.ContainsFunc(members, func(m *member) bool { return m.undone > 0 })}
	tx, err := g.begin(ctx, a, members)
	if err != nil {
		defer close(u.ended)
		defer cancel()
		if u.conflict = g.engine.conflict(err); u.conflict {
			g.first(members)
			return u
		}
		for _, m := range members {
			m.end <- err
		}
		return u
	}
	left := g.each(ctx, tx, a, members)
	ending := g.finish(ctx, tx, a)
	end := func() {
		defer close(u.ended)
		defer cancel()
		if ending.wait != nil {
			asked, err := ending.wait()
			a.asked = asked
			switch {
			case errors.Is(err, ErrUnknown): // what a member's check has said before says less: the answer was lost, not the write
				a.err, a.culprit = err, nil
			case err != nil:
				a.failed(err, nil)
			}
		}
		u.conflict = a.err != nil && g.engine.conflict(a.err)
		g.ended(tx, a, left, u.conflict)
	}
	if ending.beside {
		go end()
	} else {
		end()
	}
	return u
}

// ended tells the members of a transaction that has ended what has become of it.
func (g *group) ended(tx transaction, a *attempt, left []*member, conflict bool) {
	switch {
	case a.err == nil:
		go a.tell(tx.settle) // the next group runs while the disk is at work
	case conflict:
		g.undo(a, nil, left)
	case !a.asked:
		g.undo(a, a.culprit, left)
	default:
		for i, m := range a.members {
			if a.results[i] == nil {
				m.end <- a.err
			} else {
				m.end <- errAlone // it has asked for nothing; what it saw may not be so
			}
		}
	}
}

// begin begins a transaction and reads what the members want to find there.
func (g *group) begin(ctx context.Context, a *attempt, members []*member) (transaction, error) {
	tx, err := g.engine.begin(ctx)
	if err != nil {
		return nil, err
	}
	a.ahead = readAhead{}
	if ids := wantedAhead(members); len(ids) > 0 {
		a.await()
		if err := a.ahead.read(ctx, tx, ids); err != nil {
			tx.rollback(ctx)
			return nil, err
		}
	}
	return tx, nil
}

// each gives every member its turn, while all goes well, and returns those that have
// not had it.
func (g *group) each(ctx context.Context, tx transaction, a *attempt, members []*member) (left []*member) {
	for i, m := range members {
		c := &groupConn{transaction: tx, ctx: ctx, member: m, attempt: a}
		if !g.give(m, c) {
			continue
		}
		err := <-m.ran
		a.members, a.results = append(a.members, m), append(a.results, err)
		if err != nil && c.wrote {
			a.failed(err, m)
		}
		if a.err != nil {
			return members[i+1:]
		}
	}
	return nil
}

// finish commits what may be committed.
func (g *group) finish(ctx context.Context, tx transaction, a *attempt) ending {
	accepted := false
	for _, err := range a.results {
		accepted = accepted || err == nil
	}
	if a.err != nil || !accepted { // in the latter case each keeps its own error
		tx.rollback(ctx)
		return ending{}
	}
	return tx.commit(ctx)
}

// undo lets the members of a transaction that was undone run again, before those that
// have not run yet and all others: the culprit alone, and so those that were undone for
// others too often.
func (g *group) undo(a *attempt, culprit *member, left []*member) {
	var again []*member
	for i, m := range a.members {
		if a.results[i] == errGone {
			continue
		}
		if m.undone++; m == culprit || m.undone >= maxUndone {
			m.end <- errAlone
			continue
		}
		m.end <- errAgain
		again = append(again, m)
	}
	g.first(append(again, left...))
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
	transaction
	ctx     context.Context
	attempt *attempt
	member  *member
	wrote   bool
}

// noticed returns err, which a statement has ended with.
func (c *groupConn) noticed(err error) error {
	if _, shared := errors.AsType[*sharedError](err); shared {
		c.attempt.failed(err, nil)
	} else if err != nil {
		c.attempt.failed(err, c.member)
	}
	return err
}

func (c *groupConn) exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c.wrote = true
	c.attempt.await()
	c.attempt.ahead.wrote(stmt, args)
	n, err := c.transaction.exec(c.ctx, stmt, args...)
	return n, c.noticed(err)
}

func (c *groupConn) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.attempt.apart { // whose failure it is shows at once
		n, err := c.exec(ctx, stmt, args...)
		return c.noticed(check(n, err))
	}
	c.wrote = true
	c.attempt.ahead.wrote(stmt, args)
	checked := func(n int64, err error) error { return c.noticed(check(n, err)) }
	return c.noticed(c.transaction.execLater(c.ctx, checked, stmt, args...))
}

func (c *groupConn) addLater(ctx context.Context, to *ledger, check func(int64, error) error, args []any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.wrote = true
	checked := func(n int64, err error) error { return c.noticed(check(n, err)) }
	err := c.transaction.addLater(c.ctx, to, checked, args)
	if err == nil && c.attempt.apart { // whose failure it is shows at once
		c.attempt.await()
		err = c.transaction.flush(c.ctx)
	}
	return c.noticed(err)
}

func (c *groupConn) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.attempt.await()
	r, err := c.transaction.query(c.ctx, stmt, args...)
	if c.noticed(err) != nil {
		return nil, err
	}
	return &groupRows{r, c}, nil
}

// groupRows notices what fails while rows are read.
type groupRows struct {
	rows
	c *groupConn
}

func (r *groupRows) Scan(dest ...any) error { return r.c.noticed(r.rows.Scan(dest...)) }

func (r *groupRows) Err() error { return r.c.noticed(r.rows.Err()) }
