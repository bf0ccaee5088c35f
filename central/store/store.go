package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/failpoint"
)

// Options of a store.
type Options struct {
	// SiteOf returns the site that serves a conductor group; nil: one site "".
	SiteOf func(group string) string
	// Origin names this replica in the outbox; empty: a random one.
	Origin string
	Now    func() time.Time // nil: time.Now
	// Existing: a file of SQLite that is not there is an error, and not made.
	Existing bool
	// Apart: each transaction is committed by itself, as always on CockroachDB.
	Apart bool
	// SilentFor bounds how long a database server that was asked something may be silent; 0: two minutes.
	SilentFor time.Duration
}

// Store is safe for concurrent use.
type Store struct {
	engine engine
	group  *group // nil: each transaction by itself
	nodes  gatherer[*Node]
	shown  gatherer[*Node]
	stamps gatherer[Stamp]
	count  counter
	opts   Options

	refusal atomic.Pointer[Refusal]

	closing sync.Once
	closed  error

	mu             sync.Mutex
	watchers       map[*watcher]struct{}
	changeWatchers map[*changeWatcher]struct{}
}

// Open opens a database: "sqlite:PATH" or "postgres://…" (PostgreSQL or
// CockroachDB). Run Migrate before anything else.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	if o.SiteOf == nil {
		o.SiteOf = func(string) string { return "" }
	}
	if o.Origin == "" {
		o.Origin = uuid.NewString()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{opts: o, watchers: map[*watcher]struct{}{}, changeWatchers: map[*changeWatcher]struct{}{}}
	scheme, rest, _ := strings.Cut(address, ":")
	var err error
	switch scheme {
	case "sqlite":
		if o.Existing {
			if _, err := os.Stat(rest); err != nil {
				return nil, fmt.Errorf("open SQLite database: %w", err)
			}
		}
		s.engine, err = openSQLite(ctx, rest, &s.count)
	case "postgres", "postgresql":
		s.engine, err = openPostgres(ctx, address, &s.count, cmp.Or(o.SilentFor, silentFor))
	default:
		return nil, fmt.Errorf("database %q: want sqlite:PATH or postgres://HOST/DATABASE", redact(address))
	}
	if err != nil {
		return nil, err
	}
	if e, ok := s.engine.(grouping); ok && e.grouped() && !o.Apart {
		s.group = newGroup(e)
	}
	s.nodes.conn, s.nodes.fetch = s.engine, fetchNodes
	s.shown.conn, s.shown.fetch = s.engine, fetchShown
	s.stamps.conn, s.stamps.fetch = s.engine, fetchStamps
	return s, nil
}

// redact returns a database address without its password.
func redact(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "(unreadable)"
}

// Close ends all connections. Once is enough, and more does no harm.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.engine.close() })
	return s.closed
}

// Engine returns "sqlite", "postgresql" or "cockroachdb".
func (s *Store) Engine() string { return s.engine.name() }

// Origin names this replica in the outbox.
func (s *Store) Origin() string { return s.opts.Origin }

// Ping says why the database cannot be used, nil when it can.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.engine.ping(ctx); err != nil {
		return fmt.Errorf("database %s does not answer: %w", s.engine.name(), err)
	}
	return nil
}

// Statements returns how many SQL statements this store has sent, BEGIN and COMMIT left out.
func (s *Store) Statements() uint64 { return s.count.n.Load() }

func (s *Store) now() time.Time { return s.opts.Now().UTC().Truncate(time.Microsecond) }

// Update runs f in a serializable transaction and commits when f returns nil. f is
// run again as a whole when the database reports a conflict, so it must have no
// effect besides tx; after a bounded number of attempts Update fails with ErrBusy.
// f's own error rolls back and is returned as it is; that of a write may come only
// after f, since writes of which nothing is read back may be sent later. What f
// enqueued is told to those who watch the outbox before Update returns. Concurrent
// updates may share one commit; f runs in the caller's goroutine and must not wait for
// another update.
func (s *Store) Update(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	var tx *Tx // of the attempt that was committed
	err := s.transact(ctx, func(c conn) error {
		tx = &Tx{s: s, conn: c}
		if err := tx.admit(ctx); err != nil {
			return err
		}
		if err := f(ctx, tx); err != nil {
			return err
		}
		if err := tx.record(ctx); err != nil {
			return err
		}
		pointCommit.Hit(tx.verb)
		return nil
	})
	if err == nil {
		pointCommitted.Hit(tx.verb)
		tx.committed(ctx)
	}
	if ctx.Err() == nil { // else it may be whoever asked that broke off
		s.judge(err)
	}
	return err
}

// Refusal is why the database takes no writes, although it may answer.
type Refusal struct {
	Since time.Time
	Err   error // of the first write that failed
}

// Refusal returns why writes fail, nil when the last one that was tried did not: a full disk
// can be read.
func (s *Store) Refusal() *Refusal { return s.refusal.Load() }

// judge keeps what the end of a write says of the database.
func (s *Store) judge(err error) {
	was := s.refusal.Load()
	switch {
	case err == nil && was != nil:
		s.refusal.Store(nil)
	case err != nil && was == nil && (errors.Is(err, ErrUnknown) || s.engine.away(err)):
		s.refusal.Store(&Refusal{Since: s.now(), Err: err})
	}
}

// lockRows ends a SELECT, the rows of whose table (by its alias) a write follows. Where
// transactions take turns none needs to keep another from its rows.
func (s *Store) lockRows(table string) string {
	if s.group != nil {
		return ""
	}
	return s.engine.lockRows(table)
}

func (s *Store) transact(ctx context.Context, f func(conn) error) error {
	if s.group != nil {
		return s.group.transact(ctx, f)
	}
	return s.engine.transact(ctx, f)
}

// The places around a commit where a replica may die. The detail is the verb of the
// work that the transaction accepts, empty for any other transaction.
var (
	pointCommit    = failpoint.New("store.commit")    // before the commit is asked for
	pointCommitted = failpoint.New("store.committed") // after it, before the relay is told
)
