package store

import (
	"cmp"
	"slices"
)

// A new node says little of what a node may say. What it leaves as the table has it by itself
// is not sent: some fifty cells of a row, each of which is encoded, sent and bound.
var (
	usualColumns, unusualColumns = split([]string{"uuid", "created_at", "name", "driver", "conductor_group", "resource_class", "owner", "description",
		"interfaces", "driver_info", "properties", "instance_info", "extra", "accepted_state", "accepted_at", "rack_revision"})

	nodeLedger      = nodeRows(slices.Concat(usualColumns, unusualColumns))
	usualNodeLedger = nodeRows(usualColumns)

	// unusualDefaults are what the table puts into unusualColumns.
	unusualDefaults = func() []any {
		list, err := appendValues(nil, unusualColumns, &Node{ObservedGeneration: -1})
		if err != nil {
			panic(err)
		}
		return list
	}()
)

func nodeRows(columns []column[Node]) *ledger {
	return newLedger("nodes", "revision, "+names(columns, ""), 1+len(columns))
}

// split returns the columns of those names, and the others that the database does not
// compute.
func split(usual []string) (named, others []column[Node]) {
	for _, c := range pick(nodeColumns, key, intent, hot, observed) {
		if slices.Contains(usual, c.name) {
			named = append(named, c)
		} else {
			others = append(others, c)
		}
	}
	return named, others
}

// newNodeRow returns the row of a node, and the ledger that has the columns for it.
func newNodeRow(n *Node) (*ledger, []any, error) {
	row := append(make([]any, 0, nodeLedger.width), n.Revision)
	row, err := appendValues(row, usualColumns, n)
	if err == nil {
		row, err = appendValues(row, unusualColumns, n)
	}
	if err != nil {
		return nil, nil, err
	}
	if slices.Equal(row[usualNodeLedger.width:], unusualDefaults) {
		return usualNodeLedger, row[:usualNodeLedger.width], nil
	}
	return nodeLedger, row, nil
}

// inOneOrder brings the new nodes among rows that were kept back into the order of their
// names, then of their UUIDs, in one ledger. Two replicas that add the same ones, each in an order of
// its own and before either has its turn, would wait for each other in a circle.
func inOneOrder(list []*additions) []*additions {
	nodes := slices.IndexFunc(list, (*additions).ofNodes)
	if nodes < 0 {
		return list
	}
	all := list[nodes]
	for _, other := range list[nodes+1:] {
		if other.ofNodes() {
			all = &additions{nodeLedger, slices.Concat(all.unusual(), other.unusual()), slices.Concat(all.from, other.from)}
		}
	}
	list[nodes] = all.sorted()
	return slices.DeleteFunc(list, func(a *additions) bool { return a != list[nodes] && a.ofNodes() })
}

func (a *additions) ofNodes() bool { return a.to == usualNodeLedger || a.to == nodeLedger }

// unusual returns the rows of new nodes with all columns.
func (a *additions) unusual() [][]any {
	if a.to == nodeLedger {
		return a.rows
	}
	rows := make([][]any, len(a.rows))
	for i, row := range a.rows {
		rows[i] = slices.Concat(row, unusualDefaults)
	}
	return rows
}

var nameCell, uuidCell = cellOf("name"), cellOf("uuid")

// cellOf is where the rows of both ledgers of nodes have a column of usualColumns.
func cellOf(name string) int {
	return 1 + slices.IndexFunc(usualColumns, func(c column[Node]) bool { return c.name == name })
}

// sorted returns the rows of new nodes in the order of their names, then of their UUIDs.
func (a *additions) sorted() *additions {
	order := make([]int, len(a.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := a.rows[i], a.rows[j]
		return cmp.Or(cmp.Compare(x[nameCell].(string), y[nameCell].(string)), cmp.Compare(x[uuidCell].(string), y[uuidCell].(string)))
	})
	s := &additions{a.to, make([][]any, len(order)), make([]*adder, len(order))}
	for i, at := range order {
		s.rows[i], s.from[i] = a.rows[at], a.from[at]
	}
	return s
}
