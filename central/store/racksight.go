package store

import (
	"context"
	"slices"
)

// unseenColumns are those of a node that its rack sees nothing of, because its document
// (protocol/node) shows neither them nor anything that follows from them. A write that changes
// no others need not reach the rack. Any other column counts as seen, so what is
// forgotten here costs a message and loses none. A test of central/relay renders a document
// for each.
var unseenColumns = []string{
	"updated_at", "rack_revision", "empty_texts",
	"lent_to", "description", "shard", "parent_node", "chassis_uuid", "allocation_uuid", "instance_name",
	"extra", "protected_reason", "retired_reason", "maintenance_why",
}

// seenIn reports whether a write of values, in the order of columns, to a row that holds
// asRead changes what the node's rack sees.
func (w *nodeWrite) seenIn(asRead, values []any) bool {
	for i, v := range values {
		if w.seen[i] && v != asRead[w.at[i]] {
			return true
		}
	}
	return false
}

// rackSees remembers that tx has changed what the rack of a node sees.
func (tx *Tx) rackSees(node string) {
	if !slices.Contains(tx.seen, node) {
		tx.seen = append(tx.seen, node)
	}
}

// Tell is Enqueue without the entries about nodes that tx has not changed in anything that their
// racks see. It is for what follows writes of nodes, traits and ports. A caller that asks for work
// has to Enqueue.
func (tx *Tx) Tell(ctx context.Context, entries ...*Outbox) error {
	return tx.Enqueue(ctx, slices.DeleteFunc(slices.Clone(entries), func(o *Outbox) bool { return !slices.Contains(tx.seen, o.Node) })...)
}
