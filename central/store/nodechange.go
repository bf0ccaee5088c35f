package store

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// nodeWrite writes the columns of some classes of a node. Of a row that the transaction
// itself has read it writes what has changed: what is named in an UPDATE costs as if it
// had changed, in the row and in each index that it is part of.
type nodeWrite struct {
	columns []column[Node]
	at      []int  // of each column in asRead
	seen    []bool // of each column: the node's rack sees it
	// rackRevision is the place of that column, -1 for none.
	rackRevision int
	whole        string   // writes all of them
	narrow       sync.Map // statements that write some of them, by which: a bit for each
}

// maxNarrow is how many changed columns are written by a statement of their own: of their
// combinations there must not be too many.
const maxNarrow = 8

var (
	writeIntent   = newNodeWrite(intent)
	writeObserved = newNodeWrite(hot, observed)
)

// writtenColumns are those that asRead holds.
var writtenColumns = pick(nodeColumns, intent, hot, observed)

func newNodeWrite(classes ...class) *nodeWrite {
	w := &nodeWrite{columns: pick(nodeColumns, classes...)}
	for _, c := range w.columns {
		w.at = append(w.at, slices.IndexFunc(writtenColumns, func(other column[Node]) bool { return other.name == c.name }))
		w.seen = append(w.seen, !slices.Contains(unseenColumns, c.name))
	}
	w.rackRevision = slices.IndexFunc(w.columns, func(c column[Node]) bool { return c.name == "rack_revision" })
	w.whole = register(w.statement(w.columns))
	return w
}

// updateOneNode is how the statements begin that write to the node of their first argument.
const updateOneNode = "UPDATE nodes SET revision = revision + 1"

// statement writes columns, whose values are the arguments from the third on. How several
// are written at once is known from then on.
func (w *nodeWrite) statement(columns []column[Node]) string {
	var b strings.Builder
	b.WriteString(updateOneNode)
	for i, c := range columns {
		b.WriteString(", " + c.name + " = $" + strconv.Itoa(3+i))
	}
	b.WriteString(" WHERE uuid = $1 AND revision = $2")
	manyForms.Store(b.String(), newManyNodes(columns))
	return b.String()
}

// changes returns what writes those of the values, in the order of columns, that are not as
// they were read.
func (w *nodeWrite) changes(asRead, values []any) (stmt string, args []any) {
	var which uint64
	for i, v := range values {
		if v == asRead[w.at[i]] {
			continue
		}
		if len(args) == maxNarrow {
			return w.whole, values
		}
		which, args = which|1<<i, append(args, v)
	}
	if known, ok := w.narrow.Load(which); ok {
		return known.(string), args
	}
	var changed []column[Node]
	for i, c := range w.columns {
		if which&(1<<i) != 0 {
			changed = append(changed, c)
		}
	}
	stmt = w.statement(changed)
	w.narrow.Store(which, stmt)
	return stmt, args
}

// wrote takes in what the row holds now.
func (w *nodeWrite) wrote(asRead, values []any) {
	for i, v := range values {
		asRead[w.at[i]] = v
	}
}

func init() {
	builders = append(builders, func() []string {
		return []string{writeIntent.statement(nil), writeIntent.statement(writeIntent.columns[:2])}
	})
}

// values returns what the row that was read last holds of writtenColumns.
func (sc *nodeScanner) values() ([]any, error) {
	list := make([]any, 0, len(writtenColumns))
	for i, c := range nodeColumns {
		if c.class != intent && c.class != hot && c.class != observed {
			continue
		}
		if o, ok := sc.dest[1+i].(*object); ok {
			list = append(list, o.text)
			continue
		}
		v, err := valueOf(sc.dest[1+i])
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
