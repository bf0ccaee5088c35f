package store

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// manyNodes is what PostgreSQL is sent in place of several writes to single nodes that name
// the same columns, one after the other: what it does for each statement, before it comes
// to a row, is most of what such a write costs there. It fails by itself, with
// miscounted, unless it finds them all: so a commit may follow without a look at how
// many there were. Where transactions run side by side it has no place, nor does CockroachDB
// see it: a conflict has to show whose it is.
type manyNodes struct {
	text  string
	kinds []reflect.Kind // of the columns: String, Int64 or Bool
}

// manyForms are those of the statements of nodeWrite, by their texts.
var manyForms sync.Map

// miscounted is the SQLSTATE (division_by_zero) of one that has not found all its nodes.
const miscounted = "22012"

func newManyNodes(columns []column[Node]) *manyNodes {
	m := &manyNodes{kinds: []reflect.Kind{reflect.String, reflect.Int64}}
	names, arrays := []string{"uuid", "revision"}, []string{"$1::TEXT[]", "$2::BIGINT[]"}
	var set strings.Builder
	for i, c := range columns {
		kind, array := kindOf(c)
		m.kinds, names = append(m.kinds, kind), append(names, c.name)
		arrays = append(arrays, "$"+strconv.Itoa(3+i)+"::"+array)
		set.WriteString(", " + c.name + " = v." + c.name)
	}
	// PostgreSQL takes an array for ten rows where it plans without looking, and would rather plan
	// anew each time for the few that there are, which costs more than the update. Of a limit
	// that it does not know it expects a tenth.
	count := "$" + strconv.Itoa(3+len(columns))
	m.text = "WITH w AS (UPDATE nodes SET revision = nodes.revision + 1" + set.String() +
		" FROM (SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ") AS u (" + strings.Join(names, ", ") + ") LIMIT " + count + ") v" +
		" WHERE nodes.uuid = v.uuid AND nodes.revision = v.revision RETURNING 1)" +
		" SELECT 1 / CASE WHEN count(*) = " + count + " THEN 1 ELSE 0 END FROM w"
	return m
}

// kindOf is what a column holds, and the type of an array of it.
func kindOf[T any](c column[T]) (reflect.Kind, string) {
	v, _ := valueOf(c.field(new(T)))
	switch reflect.ValueOf(v).Kind() {
	case reflect.String:
		return reflect.String, "TEXT[]"
	case reflect.Int64, reflect.Uint64:
		return reflect.Int64, "BIGINT[]"
	}
	return reflect.Bool, "BOOLEAN[]" // maybe NULL
}

// gatherNodes puts writes to single nodes that follow each other together.
func gatherNodes(held []heldWrite) []heldWrite {
	list := make([]heldWrite, 0, len(held))
	for len(held) > 0 {
		n := 1
		if form, ok := manyForms.Load(held[0].stmt); ok {
			for n < len(held) && held[n].stmt == held[0].stmt && !slices.ContainsFunc(held[:n], held[n].sameNode) {
				n++
			}
			list = append(list, form.(*manyNodes).of(held[:n]))
		} else {
			list = append(list, held[0])
		}
		held = held[n:]
	}
	return list
}

// sameNode reports whether two writes to single nodes are about the same one.
func (w heldWrite) sameNode(other heldWrite) bool { return w.args[0] == other.args[0] }

// of is the write that does what all of them do. Whose failure its failure is nobody knows.
func (m *manyNodes) of(writes []heldWrite) heldWrite {
	args := make([]any, 0, len(m.kinds)+1)
	for i, kind := range m.kinds {
		switch kind {
		case reflect.String:
			args = append(args, arrayOf(writes, i, func(v reflect.Value) string { return v.String() }))
		case reflect.Int64:
			args = append(args, arrayOf(writes, i, func(v reflect.Value) int64 {
				if v.CanUint() {
					return int64(v.Uint())
				}
				return v.Int()
			}))
		default:
			args = append(args, arrayOf(writes, i, func(v reflect.Value) *bool {
				if !v.IsValid() {
					return nil
				}
				return new(v.Bool())
			}))
		}
	}
	return heldWrite{stmt: m.text, args: append(args, int64(len(writes))), check: func(_ int64, err error) error {
		if err != nil && len(writes) > 1 {
			return &sharedError{err}
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == miscounted {
			return writes[0].check(0, nil)
		}
		return writes[0].check(1, err)
	}}
}

func arrayOf[T any](writes []heldWrite, i int, value func(reflect.Value) T) []T {
	list := make([]T, len(writes))
	for j, w := range writes {
		list[j] = value(reflect.ValueOf(w.args[i]))
	}
	return list
}
