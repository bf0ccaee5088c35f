package store

import (
	"context"
	"sync/atomic"
	"time"
)

// conn sends statements with numbered placeholders ($1); either inside a
// transaction or, on an engine itself, on its own.
type conn interface {
	exec(ctx context.Context, stmt string, args ...any) (affected int64, err error)
	query(ctx context.Context, stmt string, args ...any) (rows, error)
	// execLater is exec for a write about which check says all there is to say. It may
	// be sent later, in its order, at the latest before the commit; then a call that
	// follows, or the commit, returns check's error.
	execLater(ctx context.Context, check func(affected int64, err error) error, stmt string, args ...any) error
	// addLater is execLater for rows of a ledger. The args are the rows' values one after the other; the
	// ledger keeps the slice. The rows are sent before a statement that names the ledger's table, or with
	// the commit.
	addLater(ctx context.Context, to *ledger, check func(affected int64, err error) error, args []any) error
}

// rows is what database/sql and pgx agree on.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// engine is one kind of database. Its conn methods read outside transactions.
type engine interface {
	conn
	// transact runs f in one serializable transaction, again as a whole while the
	// database reports a conflict, at most maxAttempts times. ErrBusy: given up.
	// ErrUnknown: the commit got no answer.
	transact(ctx context.Context, f func(conn) error) error
	// duplicate returns what err names when a unique constraint was violated:
	// "table.column" or the name of the constraint.
	duplicate(err error) (constraint string, ok bool)
	// away reports whether err says that the database cannot be used just now.
	away(err error) bool
	// refuses reports whether err says that a value cannot be stored, whatever the state of
	// the database: it is too long, out of its range, or breaks a constraint.
	refuses(err error) bool
	// lockRows follows a SELECT, the rows of whose table (by its alias) a write follows.
	lockRows(table string) string
	// member is an expression: the text of that name in a JSON object column, NULL where it is
	// missing or the column is empty. Both come from the code, never from a request.
	member(column, name string) string
	name() string
	ping(ctx context.Context) error
	// clock is the time by the clock of the database's host; zero: the database is a file of this host.
	clock(ctx context.Context) (time.Time, error)
	close() error
}

// maxAttempts bounds how often a transaction is run. With the backoff of retry.go
// it gives up after about five seconds.
const maxAttempts = 30

// counter counts statements.
type counter struct{ n atomic.Uint64 }

func (c *counter) add() { c.n.Add(1) }

// scanAll calls f for each row of r and closes it.
func scanAll(r rows, err error, f func(rows) error) error {
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		if err := f(r); err != nil {
			return err
		}
	}
	return r.Err()
}
