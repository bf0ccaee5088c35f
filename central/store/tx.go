package store

import (
	"context"
	"errors"
)

// Tx is a transaction of Update; it must not be kept or used by several goroutines.
type Tx struct{}

// Node returns the node with that UUID or name for a write that follows, its open
// work included, or ErrNotFound. One statement.
func (tx *Tx) Node(ctx context.Context, ident string) (*Node, error) {
	return nil, errors.ErrUnsupported
}

// InsertNode adds n with its traits, fills in the revision and times, or fails with
// a *DuplicateError (uuid, name, instance_uuid). n.Generation starts at 0 and
// n.AcceptedState is the first provision state.
func (tx *Tx) InsertNode(ctx context.Context, n *Node) error { return errors.ErrUnsupported }

// UpdateNode writes all of n's intent if the row still has n.Revision, which it
// moves on; otherwise ErrConflict. It may fail with a *DuplicateError.
func (tx *Tx) UpdateNode(ctx context.Context, n *Node) error { return errors.ErrUnsupported }

// DeleteNode removes the node with its ports, traits, works, history and inventory.
func (tx *Tx) DeleteNode(ctx context.Context, uuid string) error { return errors.ErrUnsupported }

// SetTraits replaces the node's traits.
func (tx *Tx) SetTraits(ctx context.Context, node string, traits []string) error {
	return errors.ErrUnsupported
}

// Port returns the port with that UUID, name or address, or ErrNotFound.
func (tx *Tx) Port(ctx context.Context, ident string) (*Port, error) {
	return nil, errors.ErrUnsupported
}

// Ports returns the node's ports.
func (tx *Tx) Ports(ctx context.Context, node string) ([]*Port, error) {
	return nil, errors.ErrUnsupported
}

// InsertPort adds p and moves its node's revision on, or fails with a
// *DuplicateError (uuid, address, name).
func (tx *Tx) InsertPort(ctx context.Context, p *Port) error { return errors.ErrUnsupported }

// UpdatePort writes all of p (its node cannot change) and moves its node's revision on.
func (tx *Tx) UpdatePort(ctx context.Context, p *Port) error { return errors.ErrUnsupported }

// DeletePort removes the port and moves its node's revision on.
func (tx *Tx) DeletePort(ctx context.Context, p *Port) error { return errors.ErrUnsupported }

// OpenWork returns the node's open work, or ErrNotFound. Node.WorkID already says
// whether there is one.
func (tx *Tx) OpenWork(ctx context.Context, node string) (*Work, error) {
	return nil, errors.ErrUnsupported
}

// InsertWork adds w as the node's open work. A node with open work: *DuplicateError
// with Field "work".
func (tx *Tx) InsertWork(ctx context.Context, w *Work) error { return errors.ErrUnsupported }

// EndWork closes an open work as ended or superseded, with an error text or none.
// ErrNotFound when it is not open.
func (tx *Tx) EndWork(ctx context.Context, id string, state WorkState, errorText string) error {
	return errors.ErrUnsupported
}

// AppendHistory adds entries in one statement.
func (tx *Tx) AppendHistory(ctx context.Context, entries ...*HistoryEntry) error {
	return errors.ErrUnsupported
}

// Enqueue adds outbox entries in one statement, in their order. Nudge the relay
// after the commit.
func (tx *Tx) Enqueue(ctx context.Context, entries ...*Outbox) error { return errors.ErrUnsupported }
