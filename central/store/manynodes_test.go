package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Writes that name the same columns of different nodes, one after the other, are one
// statement; its failure is theirs only when there is one.
func TestGatherNodes(t *testing.T) {
	var counted []int64
	failed := errors.New("failed")
	write := func(stmt, node string, value any) heldWrite {
		return heldWrite{stmt: stmt, args: []any{node, int64(7), value}, check: func(n int64, err error) error {
			counted = append(counted, n)
			return err
		}}
	}
	stmt := writeIntent.statement(pick(nodeColumns, intent)[1:2])
	clean := writeIntent.statement([]column[Node]{columnNamed(t, "automated_clean")})
	list := gatherNodes([]heldWrite{write(stmt, "a", "x"), write(stmt, "b", "y"), write(stmt, "a", "z"),
		write("DELETE", "a", "x"), write(clean, "a", nil), write(clean, "b", true)})
	var sizes []int
	for _, w := range list[:2] {
		sizes = append(sizes, len(w.args[0].([]string)))
	}
	if len(list) != 4 || sizes[0] != 2 || sizes[1] != 1 || list[2].stmt != "DELETE" {
		t.Fatalf("%d statements, the first of %v nodes: %+v", len(list), sizes, list)
	}
	if !strings.Contains(list[0].stmt, "unnest($1::TEXT[], $2::BIGINT[], $3::TEXT[])") || list[0].args[2].([]string)[1] != "y" || list[0].args[3] != int64(2) {
		t.Errorf("sent %q with %v", list[0].stmt, list[0].args)
	}
	if flags := list[3].args[2].([]*bool); flags[0] != nil || !*flags[1] {
		t.Errorf("NULL and true are sent as %v", flags)
	}
	var shared *sharedError
	if err := list[0].check(0, failed); !errors.As(err, &shared) || !errors.Is(err, failed) {
		t.Errorf("of two nodes: %v", err)
	}
	if err := list[1].check(0, failed); err != failed {
		t.Errorf("of one node: %v", err)
	}
	if err := list[1].check(0, &pgconn.PgError{Code: miscounted}); err != nil || counted[len(counted)-1] != 0 {
		t.Errorf("a node that is not there: %v, counted %v", err, counted)
	}
}

func columnNamed(t *testing.T, name string) column[Node] {
	for _, c := range nodeColumns {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no column %s", name)
	return column[Node]{}
}
