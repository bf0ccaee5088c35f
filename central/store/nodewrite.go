package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

var (
	advanceNode = register(updateOneNode + " WHERE uuid = $1")
	touchNode   = register(updateOneNode + ", updated_at = $2 WHERE uuid = $1")
	// Those below change what the node's rack sees.
	advanceSeenNode = register(updateOneNode + rackRevisionToo + " WHERE uuid = $1")
	touchSeenNode   = register(updateOneNode + rackRevisionToo + ", updated_at = $2 WHERE uuid = $1")
	writeTraits     = register(updateOneNode + rackRevisionToo + ", updated_at = $2, traits = $3 WHERE uuid = $1")
	// deleteNode runs in this order.
	deleteNode = []string{
		writeNodeEnd,
		register("DELETE FROM ports WHERE node = $1"),
		register("DELETE FROM portgroups WHERE node = $1"),
		register("DELETE FROM volume_connectors WHERE node = $1"),
		register("DELETE FROM volume_targets WHERE node = $1"),
		register("DELETE FROM node_traits WHERE node = $1"),
		register("DELETE FROM node_inventory WHERE node = $1"),
		deleteDrive,
		register("DELETE FROM node_hardware WHERE node = $1"),
		register("DELETE FROM node_history WHERE node = $1"),
		register("DELETE FROM works WHERE node = $1"),
		register("DELETE FROM nodes WHERE uuid = $1"),
	}
	deleteTraits = register("DELETE FROM node_traits WHERE node = $1")
)

// rackRevisionToo sets rack_revision to the revision that the same statement gives the node.
const rackRevisionToo = ", rack_revision = revision + 1"

func insertTraits(n int) string {
	return "INSERT INTO node_traits (node, trait) VALUES " + valueRows(n, 2, nil)
}

func init() {
	builders = append(builders, func() []string { return []string{insertTraits(2)} })
}

// InsertNode adds n with its traits, fills in the revision and times, or fails with
// a *DuplicateError (uuid, name, instance_uuid). n.Generation starts at 0 and
// n.AcceptedState is the first provision state.
func (tx *Tx) InsertNode(ctx context.Context, n *Node) error {
	now := tx.s.now()
	first, err := tx.firstRevision(ctx, n, now)
	if err != nil {
		return err
	}
	n.Revision, n.RackRevision, n.ObservedGeneration = first, first, -1
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	if n.CreatedAt.IsZero() {
		n.CreatedAt = now
	}
	n.ProvisionState, n.TargetProvisionState, n.ProvisionUpdatedAt = n.AcceptedState, n.AcceptedTarget, n.AcceptedAt
	ledger, args, err := newNodeRow(n)
	if err != nil {
		return fmt.Errorf("insert node %s: %w", n.UUID, err)
	}
	err = tx.addLater(ctx, ledger, func(err error) error { return fmt.Errorf("insert node %s: %w", n.UUID, tx.s.taken(err, n.value)) }, args)
	if err != nil {
		return err
	}
	if err := tx.insertTraits(ctx, n.UUID, n.Traits); err != nil {
		return err
	}
	n.read = n.shown()
	tx.rackSees(n.UUID)
	tx.noteRow("node", n.UUID, n.UUID, "create")
	return nil
}

// IsNew reports whether n is as InsertNode left it. It may be false of such a node, too.
func (n *Node) IsNew() bool { return n.Revision == n.CreatedAt.UnixMicro() }

// value returns a unique field of n.
func (n *Node) value(field string) string {
	return map[string]string{"uuid": n.UUID, "name": n.Name, "instance_uuid": n.InstanceUUID}[field]
}

// UpdateNode writes n's intent if the row still has n.Revision, which it
// moves on; otherwise ErrConflict. It may fail with a *DuplicateError. What tx has not
// read itself counts as changed in what the node's rack sees.
func (tx *Tx) UpdateNode(ctx context.Context, n *Node) error {
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	n.UpdatedAt = tx.s.now()
	if err := tx.updateNode(ctx, n, writeIntent); err != nil {
		return err
	}
	tx.noteNode(ctx, n, true)
	return nil
}

// UpdateObservation writes n's observation the same way. Ingest's frequent
// changes go through SaveObserved.
func (tx *Tx) UpdateObservation(ctx context.Context, n *Node) error {
	if err := tx.updateNode(ctx, n, writeObserved); err != nil {
		return err
	}
	tx.noteNode(ctx, n, true)
	return nil
}

// updateNode writes the columns of a class, at least those that have changed since tx has
// read them.
func (tx *Tx) updateNode(ctx context.Context, n *Node, w *nodeWrite) error {
	values, err := appendValues(make([]any, 0, len(w.columns)), w.columns, n)
	if err != nil {
		return fmt.Errorf("update node %s: %w", n.UUID, err)
	}
	locked := n.lockedBy == tx
	if !locked || w.seenIn(n.asRead, values) {
		tx.rackSees(n.UUID)
		if at := w.rackRevision; at >= 0 {
			n.RackRevision = n.Revision + 1
			values[at] = n.RackRevision
		}
	}
	stmt, args := w.whole, values
	if locked {
		stmt, args = w.changes(n.asRead, values)
	}
	args = append([]any{n.UUID, n.Revision}, args...)
	revision := n.Revision
	check := func(rows int64, err error) error {
		if err != nil {
			return fmt.Errorf("update node %s: %w", n.UUID, tx.s.taken(err, n.value))
		}
		if rows == 0 {
			return fmt.Errorf("update node %s at revision %s: %w", n.UUID, strconv.FormatInt(revision, 10), ErrConflict)
		}
		return nil
	}
	send := tx.conn.execLater
	if !locked { // a conflict is possible: the caller may want to go on from there
		send = func(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
			return check(tx.conn.exec(ctx, stmt, args...))
		}
	}
	if err := send(ctx, check, stmt, args...); err != nil {
		return err
	}
	if locked {
		w.wrote(n.asRead, values)
	}
	n.Revision++
	return nil
}

// DeleteNode removes the node with its ports, portgroups, volumes, traits, works, history and inventory.
func (tx *Tx) DeleteNode(ctx context.Context, uuid string) error {
	for i, stmt := range deleteNode {
		rows, err := tx.conn.exec(ctx, stmt, uuid)
		if err != nil {
			return fmt.Errorf("delete node %s: %w", uuid, err)
		}
		if i == len(deleteNode)-1 && rows == 0 {
			return fmt.Errorf("delete node %s: %w", uuid, ErrNotFound)
		}
	}
	tx.noteDeletedNode(uuid)
	return nil
}

// SetTraits replaces the node's traits and moves its revision and its updated_at on.
func (tx *Tx) SetTraits(ctx context.Context, node string, traits []string) error {
	if _, err := tx.conn.exec(ctx, deleteTraits, node); err != nil {
		return fmt.Errorf("replace traits of node %s: %w", node, err)
	}
	if err := tx.insertTraits(ctx, node, traits); err != nil {
		return err
	}
	tx.rackSees(node)
	tx.noteRow("node", node, node, "update")
	list := traitList(traits)
	return tx.moveOn(ctx, writeTraits, node, toMicros(tx.s.now()), list.text())
}

func (tx *Tx) insertTraits(ctx context.Context, node string, traits []string) error {
	if len(traits) == 0 {
		return nil
	}
	var args []any
	for _, t := range traits {
		args = append(args, node, t)
	}
	return tx.write(ctx, func(err error) error {
		return fmt.Errorf("set traits of node %s: %w", node, tx.s.taken(err, func(string) string { return strings.Join(traits, ",") }))
	}, insertTraits(len(traits)), args...)
}

// Touch moves a node's revision and its updated_at on after a change of what belongs to it,
// such as a port that went to another node.
func (tx *Tx) Touch(ctx context.Context, node string) error {
	return tx.moveOn(ctx, touchNode, node, toMicros(tx.s.now()))
}

// touchSeen is Touch after a change that the node's rack sees.
func (tx *Tx) touchSeen(ctx context.Context, node string) error {
	tx.rackSees(node)
	return tx.moveOn(ctx, touchSeenNode, node, toMicros(tx.s.now()))
}

// advanceSeen is advance after a change that the node's rack sees.
func (tx *Tx) advanceSeen(ctx context.Context, node string) error {
	tx.rackSees(node)
	return tx.moveOn(ctx, advanceSeenNode, node)
}

// advance moves only the revision on, after something was added to a node: Ironic locks the
// node for other changes of what belongs to it, which its updated_at tells, but not for this.
func (tx *Tx) advance(ctx context.Context, node string) error {
	return tx.moveOn(ctx, advanceNode, node)
}

func (tx *Tx) moveOn(ctx context.Context, stmt, node string, args ...any) error {
	rows, err := tx.conn.exec(ctx, stmt, append([]any{node}, args...)...)
	if err == nil && rows == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}
