package store

import (
	"errors"
	"testing"
)

// Rows leave in their order, in few statements of few texts, and before whatever speaks
// of their table.
func TestLedger(t *testing.T) {
	one, other := newLedger("ones", "a, b", 2), newLedger("others", "a", 1)
	mine, theirs := errors.New("mine"), errors.New("theirs")
	is := func(is error) func(int64, error) error { return func(int64, error) error { return is } }
	var k kept
	for i := range int64(33) {
		k.add(one, is(mine), []any{i, "b"})
	}
	k.add(other, is(theirs), []any{"x", "y"})
	if list := k.before("SELECT 1 FROM neither"); len(list) != 0 {
		t.Errorf("%d statements before one that speaks of neither table", len(list))
	}
	list := k.before("SELECT a FROM ones")[0].insertions()
	next := int64(0)
	for i, rows := range []int{32, 1} {
		if i >= len(list) || len(list[i].args) != 2*rows || list[i].stmt != "INSERT INTO ones (a, b) VALUES "+valueRows(rows, 2, nil) {
			t.Fatalf("statements %+v, want parts of 32 and 1 rows", list)
		}
		for j := 0; j < len(list[i].args); j += 2 {
			if list[i].args[j] != next {
				t.Errorf("row %d has %v", next, list[i].args[j])
			}
			next++
		}
	}
	failed := errors.New("failed")
	var shared *sharedError
	if err := list[0].check(0, failed); !errors.As(err, &shared) || !errors.Is(err, failed) {
		t.Errorf("of rows of several: %v", err)
	}
	if err := list[1].check(0, failed); err != mine {
		t.Errorf("of one row: %v", err)
	}
	rest := k.before("")
	if list = rest[0].insertions(); len(rest) != 1 || len(list) != 1 || len(list[0].args) != 2 || list[0].check(0, failed) != theirs {
		t.Errorf("at the end: %+v, want two rows of one caller", list)
	}
	if rest = k.before(""); len(rest) != 0 {
		t.Errorf("sent twice: %+v", rest)
	}
}
