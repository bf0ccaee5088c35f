package store

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Options of a store.
type Options struct {
	// SiteOf returns the site that serves a conductor group; nil: one site "".
	SiteOf func(group string) string
	// Origin names this replica in the outbox; empty: a random one.
	Origin string
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: slog.Default
}

// Store is safe for concurrent use.
type Store struct{}

// Open opens a database: "sqlite:PATH" or "postgres://…" (PostgreSQL or
// CockroachDB). Run Migrate before anything else.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return nil, errors.ErrUnsupported
}

// Close ends all connections.
func (s *Store) Close() error { return errors.ErrUnsupported }

// Migrate brings the schema up to date and returns how many migrations it applied.
// Several replicas may call it at once.
func (s *Store) Migrate(ctx context.Context) (int, error) { return 0, errors.ErrUnsupported }

// Ping says why the database cannot be used, nil when it can.
func (s *Store) Ping(ctx context.Context) error { return errors.ErrUnsupported }

// Statements returns how many SQL statements this store has sent, BEGIN and COMMIT left out.
func (s *Store) Statements() uint64 { return 0 }

// Node returns the node with that UUID or name, or ErrNotFound.
func (s *Store) Node(ctx context.Context, ident string) (*Node, error) {
	return nil, errors.ErrUnsupported
}

// Nodes returns a page of nodes. A marker that does not exist is ErrNotFound, an
// unknown sort key an *InvalidSortError.
func (s *Store) Nodes(ctx context.Context, q NodeQuery) ([]*Node, error) {
	return nil, errors.ErrUnsupported
}

// InvalidSortError names a sort key that cannot be used.
type InvalidSortError struct{ Key string }

func (e *InvalidSortError) Error() string { return "cannot sort by " + e.Key }

// Port returns the port with that UUID, name or MAC address, or ErrNotFound.
func (s *Store) Port(ctx context.Context, ident string) (*Port, error) {
	return nil, errors.ErrUnsupported
}

// Ports returns a page of ports, with the errors of Nodes.
func (s *Store) Ports(ctx context.Context, q PortQuery) ([]*Port, error) {
	return nil, errors.ErrUnsupported
}

// History returns a page of a node's history, oldest first unless Desc.
func (s *Store) History(ctx context.Context, q HistoryQuery) ([]*HistoryEntry, error) {
	return nil, errors.ErrUnsupported
}

// HistoryEntry returns one entry of a node's history, or ErrNotFound.
func (s *Store) HistoryEntry(ctx context.Context, node, uuid string) (*HistoryEntry, error) {
	return nil, errors.ErrUnsupported
}

// Inventory returns the JSON of the node's inventory (agentapi.Inventory), or ErrNotFound.
func (s *Store) Inventory(ctx context.Context, node string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// Work returns the work with that id, or ErrNotFound.
func (s *Store) Work(ctx context.Context, id string) (*Work, error) {
	return nil, errors.ErrUnsupported
}

// Update runs f in a serializable transaction and commits when f returns nil. f is
// run again as a whole when the database reports a conflict, so it must have no
// effect besides tx; after a bounded number of attempts Update fails with
// ErrConflict. f's own error rolls back and is returned as it is.
func (s *Store) Update(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return errors.ErrUnsupported
}
