package store

import "slices"

// A new node says little of what a node may say. What it leaves as the table has it by itself
// is not sent: some fifty cells of a row, each of which is encoded, sent and bound.
var (
	usualColumns, unusualColumns = split([]string{"uuid", "created_at", "name", "driver", "conductor_group", "resource_class", "owner", "description",
		"interfaces", "driver_info", "properties", "instance_info", "extra", "accepted_state", "accepted_at"})

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
