package store

import (
	"context"
	"slices"
	"strings"
)

// ledger is a table to which transactions add rows that they seldom look at again. The
// rows that a transaction adds, all members of a group together, are kept back and added
// by few statements.
type ledger struct {
	table string
	width int
	texts []string // for so many rows as addedAtOnce says
	// orFail are the texts for SQLite, which would note how each page was before a
	// statement of many rows, to undo that alone if it fails. Nobody goes on after that.
	orFail []string
}

// addedAtOnce are the numbers of rows that statements add, so that a database sees few
// different texts. What it does for a statement costs as much as some of its rows: a group of
// ordinary size adds all of its own by one.
var addedAtOnce = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64}

func newLedger(table, columns string, width int) *ledger {
	l := &ledger{table: table, width: width}
	for _, n := range addedAtOnce {
		rows := "INTO " + table + " (" + columns + ") VALUES " + valueRows(n, width, nil)
		l.texts, l.orFail = append(l.texts, "INSERT "+rows), append(l.orFail, "INSERT OR FAIL "+rows)
	}
	return l
}

func init() {
	builders = append(builders, func() (list []string) {
		for _, l := range []*ledger{nodeLedger, usualNodeLedger, changeLedger, auditLedger, outboxLedger} {
			list = append(list, l.texts[1])
		}
		return list
	})
}

// insertion is a statement that adds rows.
type insertion struct {
	stmt   string
	orFail string // the same for SQLite
	args   []any
	from   []*adder // of each row
}

// adder is a call that has added rows.
type adder struct {
	check func(affected int64, err error) error
}

// check says what the error of the statement means.
func (i *insertion) check(affected int64, err error) error { return checkAll(i.from, affected, err) }

// checkAll says what the error of a statement means: the one who has added all its rows
// knows, of rows of several nobody does.
func checkAll(from []*adder, affected int64, err error) error {
	if err == nil {
		return nil
	}
	for _, other := range from {
		if other != from[0] {
			return &sharedError{err}
		}
	}
	return from[0].check(affected, err)
}

// sharedError is that of a statement which added rows of several callers: whose they are
// shows when each adds its own.
type sharedError struct{ err error }

func (e *sharedError) Error() string { return "add rows of several requests: " + e.err.Error() }

func (e *sharedError) Unwrap() error { return e.err }

// additions are rows of one ledger that are kept back.
type additions struct {
	to   *ledger
	rows [][]any
	from []*adder // of each row
}

// insertions returns the statements that add the rows.
func (a *additions) insertions() (list []insertion) {
	for row := 0; row < len(a.from); {
		size, exact := slices.BinarySearch(addedAtOnce, len(a.from)-row)
		if !exact {
			size-- // the largest that is not too large
		}
		end := row + addedAtOnce[size]
		list = append(list, insertion{a.to.texts[size], a.to.orFail[size], slices.Concat(a.rows[row:end]...), a.from[row:end]})
		row = end
	}
	return list
}

// kept are the additions of a transaction, in the order in which their ledgers came.
type kept []*additions

// add keeps rows back, whose values it takes over.
func (k *kept) add(to *ledger, check func(int64, error) error, args []any) {
	i := slices.IndexFunc(*k, func(a *additions) bool { return a.to == to })
	if i < 0 {
		i = len(*k)
		*k = append(*k, &additions{to: to})
	}
	a, from := (*k)[i], &adder{check}
	for row := range slices.Chunk(args, to.width) {
		a.rows, a.from = append(a.rows, row), append(a.from, from)
	}
}

// before takes out what has to be sent before a statement that speaks of a ledger's
// table; empty: all.
func (k *kept) before(stmt string) (list []*additions) {
	*k = slices.DeleteFunc(*k, func(a *additions) bool {
		if stmt != "" && !strings.Contains(stmt, a.to.table) {
			return false
		}
		list = append(list, a)
		return true
	})
	return list
}

// addAtOnce adds rows by a connection that keeps none back.
func addAtOnce(ctx context.Context, c conn, to *ledger, check func(int64, error) error, args []any) error {
	var k kept
	k.add(to, check, args)
	for _, a := range k.before("") {
		for _, i := range a.insertions() {
			if err := c.execLater(ctx, i.check, i.stmt, i.args...); err != nil {
				return err
			}
		}
	}
	return nil
}
