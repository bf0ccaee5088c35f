package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgTx is a transaction that keeps writes back until somebody must know how something
// went, and sends them along with that: the way to the server and back is most of what
// a small statement costs. In the same way it begins along with its first statement and
// commits along with its last, so that one which only writes goes there and back once.
type pgTx struct {
	pgConn
	batches interface {
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}
	opening []string // what it begins with, until that is sent
	held    []heldWrite
	kept    kept
	lost    bool // the server has not answered what was sent

	own *pgxpool.Conn // nil: it has ended, or ends elsewhere
	// turn: no other transaction runs beside, from its first statement on or, where it is
	// sent as a whole, from what follows the rows that it adds first. Writes to single nodes then
	// go together (manyNodes).
	turn bool
}

type heldWrite struct {
	stmt  string
	args  []any
	check func(affected int64, err error) error
	adds  bool // rows that need no turn
}

func (t *pgTx) execLater(_ context.Context, check func(int64, error) error, stmt string, args ...any) error {
	values, err := snapshot(args)
	if err != nil {
		return err
	}
	t.release(stmt)
	t.held = append(t.held, heldWrite{stmt: stmt, args: values, check: check})
	return nil
}

func (t *pgTx) addLater(_ context.Context, to *ledger, check func(int64, error) error, args []any) error {
	t.kept.add(to, check, args)
	return nil
}

// release holds what was kept back and has to be sent before stmt. Changes come last: a
// transaction that takes its turn late numbers them there.
func (t *pgTx) release(stmt string) {
	var numbered []heldWrite
	for _, a := range inOneOrder(t.kept.before(stmt)) {
		if t.turn && a.to == changeLedger {
			numbered = append(numbered, a.numberedAtOnce())
			continue
		}
		for _, i := range a.insertions() {
			t.held = append(t.held, heldWrite{i.stmt, i.args, i.check, true})
		}
	}
	t.held = append(t.held, numbered...)
}

// pending reports whether anything has to be sent before the next statement.
func (t *pgTx) pending() bool { return len(t.held)+len(t.opening) > 0 }

func (t *pgTx) exec(ctx context.Context, stmt string, args ...any) (affected int64, err error) {
	t.release(stmt)
	if !t.pending() {
		return t.pgConn.exec(ctx, stmt, args...)
	}
	t.add()
	tag, err := t.sendWith(ctx, stmt, args)
	return tag.RowsAffected(), err
}

// sendWith sends what is held, then stmt, and returns what became of the latter.
func (t *pgTx) sendWith(ctx context.Context, stmt string, args []any) (tag pgconn.CommandTag, err error) {
	results, err := t.send(ctx, stmt, args)
	if err != nil {
		return tag, err
	}
	tag, err = results.Exec()
	if closing := results.Close(); err == nil {
		err = closing
	}
	return tag, err
}

func (t *pgTx) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	t.release(stmt)
	if !t.pending() {
		return t.pgConn.query(ctx, stmt, args...)
	}
	t.add()
	results, err := t.send(ctx, stmt, args)
	if err != nil {
		return nil, err
	}
	r, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return batchRows{pgRows{r}, results}, nil
}

// send sends what is held, then stmt if there is one, and checks the former.
func (t *pgTx) send(ctx context.Context, stmt string, args []any) (pgx.BatchResults, error) {
	return t.answers(t.dispatch(ctx, stmt, args))
}

// dispatched are statements that were sent in one piece.
type dispatched struct {
	results pgx.BatchResults
	opening int
	held    []heldWrite
}

// dispatch sends what is held, then stmt if there is one.
func (t *pgTx) dispatch(ctx context.Context, stmt string, args []any) dispatched {
	d := dispatched{opening: len(t.opening), held: t.held}
	if t.turn {
		d.held = gatherNodes(d.held)
	}
	var b pgx.Batch
	for _, s := range t.opening {
		b.Queue(s)
	}
	t.opening, t.held = nil, nil
	for _, w := range d.held {
		b.Queue(w.stmt, w.args...)
		t.add()
	}
	if stmt != "" {
		b.Queue(stmt, args...)
	}
	d.results = t.batches.SendBatch(ctx, &b)
	return d
}

// answers checks what became of all that was dispatched, but for its last statement.
func (t *pgTx) answers(d dispatched) (pgx.BatchResults, error) {
	for range d.opening {
		if _, err := d.results.Exec(); err != nil {
			t.lost = !refused(err)
			d.results.Close() // fails for the same reason
			return nil, err
		}
	}
	for _, w := range d.held {
		tag, err := d.results.Exec()
		t.lost = err != nil && !refused(err)
		if err = w.check(tag.RowsAffected(), err); err != nil {
			d.results.Close()
			return nil, err
		}
	}
	return d.results, nil
}

// refused reports whether what followed a statement that ended so was not carried out: the
// server has answered, or was sent nothing.
func refused(err error) bool {
	var e *pgconn.PgError
	var unsent pgx.ErrPreprocessingBatch
	return errors.As(err, &e) || errors.As(err, &unsent) || pgconn.SafeToRetry(err)
}

// flush sends what is held and what is kept back.
func (t *pgTx) flush(ctx context.Context) error {
	t.release("")
	if len(t.held) == 0 {
		return nil
	}
	results, err := t.send(ctx, "", nil)
	if err != nil {
		return err
	}
	return results.Close()
}

func (t *pgTx) commit(ctx context.Context) ending {
	t.release("")
	if len(t.opening) > 0 && len(t.held) == 0 { // the server has not heard of it
		t.end()
		return ending{wait: func() (bool, error) { return true, nil }}
	}
	if !t.turn && len(t.held) > 0 { // the checks come before the commit
		if err := t.flush(ctx); err != nil {
			t.rollback(ctx)
			return ending{wait: func() (bool, error) { return false, err }}
		}
	}
	beside := t.turn && t.turnLate()
	d := t.dispatch(ctx, "COMMIT", nil)
	return ending{beside: beside, wait: func() (bool, error) {
		defer t.rollback(ctx) // does nothing after the commit
		return t.committed(d)
	}}
}

// turnLate has a transaction of which nothing has been sent take its turn behind the rows that it
// adds first, as far as these need none: the disk works for the transaction before meanwhile. It
// sees what those before it have written from its turn on, each statement anew, and so does
// whatever is counted or looked for there. false: it has begun, or adds no rows.
func (t *pgTx) turnLate() bool {
	n := slices.IndexFunc(t.held, func(w heldWrite) bool { return !w.adds })
	if n < 0 {
		n = len(t.held)
	}
	if len(t.opening) == 0 || n == 0 {
		return false
	}
	t.opening = []string{beginLate}
	t.held = slices.Insert(t.held, n, heldWrite{stmt: takeTurn, check: func(_ int64, err error) error { return err }})
	return true
}

// committed is what became of a commit that was dispatched.
func (t *pgTx) committed(d dispatched) (asked bool, err error) {
	results, err := t.answers(d)
	if err != nil && !t.lost {
		return false, err
	}
	if err == nil {
		var tag pgconn.CommandTag
		if tag, err = results.Exec(); err == nil && tag.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
		if closing := results.Close(); err == nil {
			err = closing
		}
	}
	switch {
	case err == nil:
		t.end()
		return true, nil
	case rolledBack(err):
		return true, err
	}
	return true, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// settle: what PostgreSQL has answered is on its disk.
func (t *pgTx) settle() error { return nil }

// rollback: a connection on which it fails is closed.
func (t *pgTx) rollback(ctx context.Context) {
	if t.own == nil {
		return
	}
	if len(t.opening) == 0 {
		t.own.Exec(ctx, "ROLLBACK")
	}
	t.end()
}

// end gives the connection back; the pool keeps none that is in a transaction.
func (t *pgTx) end() {
	t.own.Release()
	t.own = nil
}

// batchRows are the rows of the last statement of a batch.
type batchRows struct {
	pgRows
	results pgx.BatchResults
}

func (r batchRows) Close() error {
	r.pgRows.Close()
	return r.results.Close()
}
