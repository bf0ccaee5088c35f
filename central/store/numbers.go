package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// Where transactions take turns, each gives the changes that it adds their numbers: the order
// of the turns is that of the commits, so a higher number is never seen before a lower one
// (decision 42). Rows of other transactions, whose order nobody knows beforehand, have the
// number 0 until NumberChanges gives them one.

// changeSeq and changePhases are columns of changes.
var changeSeq, changePhases = changeColumn("seq"), changeColumn("phases")

func changeColumn(name string) int {
	for i, c := range changeColumns {
		if c.name == name {
			return i
		}
	}
	panic("store: changes have no column " + name)
}

// takeNumbers moves the counter on, readNewest says to where, for SQLite: RETURNING there costs
// several times as much as both.
var (
	takeNumbers = register("UPDATE change_numbers SET newest = newest + $1 WHERE name = 'changes'")
	readNewest  = register("SELECT newest FROM change_numbers WHERE name = 'changes'")
)

// errNoCounter: a migration adds it.
var errNoCounter = errors.New("the database has no counter of changes: its migrations are not those of this program")

// count numbers the rows of changes that are kept back, those of nobody before them being
// after, and returns the last number.
func (a *additions) count(after int64) int64 {
	for _, row := range a.rows {
		after += numbersOf(row[changePhases].(string))
		row[changeSeq] = after
	}
	return after
}

// number gives the rows their numbers in a transaction of SQLite, which is alone.
func (a *additions) number(ctx context.Context, t *sqliteTx) error {
	total, newest := a.count(0), int64(0)
	moved, err := t.send(ctx, takeNumbers, []any{total})
	if err == nil && moved == 0 {
		err = errNoCounter
	}
	if err != nil {
		return err
	}
	r, err := t.ask(ctx, readNewest, nil)
	if err := scanAll(r, err, func(r rows) error { return r.Scan(&newest) }); err != nil {
		return err
	}
	a.count(newest - total)
	return nil
}

// numberAndAdd is what PostgreSQL is sent to add changes, however many, with their numbers: the
// last argument is how many numbers they take, and those of the rows count from there.
// Without a counter it fails, since a number must not be NULL.
var numberAndAdd = func() string {
	list, arrays := make([]string, len(changeColumns)), make([]string, len(changeColumns))
	for i, c := range changeColumns {
		_, array := kindOf(c)
		list[i], arrays[i] = "v."+c.name, "$"+strconv.Itoa(i+1)+"::"+array
	}
	list[changeSeq] = "(SELECT newest FROM n) + v.seq"
	columns, taken := names(changeColumns, ""), "$"+strconv.Itoa(len(changeColumns)+1)+"::BIGINT"
	return "WITH n AS (UPDATE change_numbers SET newest = newest + " + taken + " WHERE name = 'changes' RETURNING newest - " + taken + " AS newest) " +
		"INSERT INTO changes (" + columns + ") SELECT " + strings.Join(list, ", ") + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS v (" + columns + ")"
}()

// numberedAtOnce is the write that adds the rows of changes with their numbers on PostgreSQL.
func (a *additions) numberedAtOnce() heldWrite {
	total := a.count(0)
	args := make([]any, 0, a.to.width+1)
	for i := range a.to.width {
		if _, text := a.rows[0][i].(string); text {
			args = append(args, columnOf[string](a, i))
		} else {
			args = append(args, columnOf[int64](a, i))
		}
	}
	return heldWrite{stmt: numberAndAdd, args: append(args, total), check: func(affected int64, err error) error {
		return checkAll(a.from, affected, err)
	}}
}

// columnOf is a column of all rows.
func columnOf[T any](a *additions, column int) []T {
	list := make([]T, len(a.rows))
	for i, row := range a.rows {
		list[i] = row[column].(T)
	}
	return list
}
