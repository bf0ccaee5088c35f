package store

import (
	"context"
	"time"
)

// Tx is a transaction of Update; it must not be kept or used by several goroutines.
type Tx struct {
	s        *Store
	conn     conn
	enqueued []*Outbox
	verb     string // of the work that was inserted
	changes  []*Change
	noted    []*Change // those of changes that are written
	audited  *Audit    // as record wrote it
	seen     []string  // UUIDs of nodes of which it has changed what their racks see
	nodes    []*Node   // as read for a write, for what is told of those that are deleted
}

// Now is the time by the store's clock, as rows have it.
func (tx *Tx) Now() time.Time { return tx.s.now() }

// write sends a statement, maybe later, that only adds rows or changes what is known to
// be there; fail says what its error means.
func (tx *Tx) write(ctx context.Context, fail func(error) error, stmt string, args ...any) error {
	return tx.conn.execLater(ctx, func(_ int64, err error) error {
		if err != nil {
			return fail(err)
		}
		return nil
	}, stmt, args...)
}

// addLater is write for rows of a ledger.
func (tx *Tx) addLater(ctx context.Context, to *ledger, fail func(error) error, args []any) error {
	return tx.conn.addLater(ctx, to, func(_ int64, err error) error {
		if err != nil {
			return fail(err)
		}
		return nil
	}, args)
}

// taken turns a violated unique constraint into a *DuplicateError; value gives the
// values by field.
func (s *Store) taken(err error, value func(field string) string) error {
	if err == nil {
		return nil
	}
	constraint, ok := s.engine.duplicate(err)
	if !ok {
		return err
	}
	field, known := constraintFields[constraint]
	if !known {
		return err
	}
	return &DuplicateError{Field: field, Value: value(field)}
}

// constraintFields maps what engines call a constraint (SQLite: table.column,
// the others: its name) to the API's field.
var constraintFields = map[string]string{
	"nodes.uuid": "uuid", "nodes_pkey": "uuid",
	"nodes.name": "name", "nodes_name": "name",
	"nodes.instance_uuid": "instance_uuid", "nodes_instance_uuid": "instance_uuid",
	"ports.uuid": "uuid", "ports_pkey": "uuid",
	"ports.address": "address", "ports_address": "address",
	"ports.name": "name", "ports_name": "name",
	"works.node": "work", "works_open": "work",
	"works.id": "id", "works_pkey": "id",
	"members.role": "member", "members_name": "member",
	"node_traits.node": "trait", "node_traits_pkey": "trait",
}
