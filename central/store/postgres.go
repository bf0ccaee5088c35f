package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/cockroachdb/cockroach-go/v2/crdb/crdbpgxv5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresEngine speaks to PostgreSQL and CockroachDB.
type postgresEngine struct {
	*counter
	pool      *pgxpool.Pool
	cockroach bool
	silence   *silence
}

func openPostgres(ctx context.Context, url string, c *counter, silent time.Duration) (*postgresEngine, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // pgx masks the password
	}
	if set := cfg.ConnConfig.ConnectTimeout; set == 0 || set > connectTimeout { // 0 is no bound
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	quiet := new(silence)
	quiet.set(silent)
	cfg.ConnConfig.DialFunc = quiet.dial(cfg.ConnConfig.DialFunc)
	cfg.AfterConnect = planned
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", cfg.ConnConfig.Host, err)
	}
	var version string
	if err := pool.QueryRow(ctx, selectVersion).Scan(&version); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to database %s at %s: %w", cfg.ConnConfig.Database, cfg.ConnConfig.Host, err)
	}
	return &postgresEngine{counter: c, pool: pool, cockroach: strings.Contains(version, "CockroachDB"), silence: quiet}, nil
}

// planned has PostgreSQL plan as our statements want it, on each connection. It compiles none (JIT):
// they end after milliseconds, and to compile that of a page takes seconds, each time, which the server
// does where it thinks that it has much to read, as it does of tables that it has no statistics
// of. And a page that it finds by an index costs it no more than one that comes next on the disk: by
// its own preset, four times as much, it reads a table of some thousand nodes from end to end and sorts
// it for a page of a third of them, which takes longer on any disk that keeps up with the writes.
func planned(ctx context.Context, c *pgx.Conn) error {
	if c.PgConn().ParameterStatus("crdb_version") != "" {
		return nil // CockroachDB plans by other things
	}
	if _, err := c.Exec(ctx, "SET jit = off; SET random_page_cost = 1", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("tell the database how to plan: %w", err)
	}
	return nil
}

// connectTimeout is when a server that does not answer is away.
const connectTimeout = 10 * time.Second

var selectVersion = register("SELECT version()")

func (e *postgresEngine) exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	return pgConn{e.counter, e.pool}.exec(ctx, stmt, args...)
}

func (e *postgresEngine) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	return check(e.exec(ctx, stmt, args...))
}

func (e *postgresEngine) addLater(ctx context.Context, to *ledger, check func(int64, error) error, args []any) error {
	return addAtOnce(ctx, e, to, check, args)
}

func (e *postgresEngine) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	return pgConn{e.counter, e.pool}.query(ctx, stmt, args...)
}

func (e *postgresEngine) transact(ctx context.Context, f func(conn) error) error {
	if !e.cockroach {
		return retry(ctx, serializationFailure, func() error {
			return once(ctx, func(ctx context.Context) (transaction, error) { return e.beginWith(ctx, false, beginSerializable) }, f)
		})
	}
	err := crdbpgx.ExecuteTx(crdb.WithMaxRetries(ctx, maxAttempts), e.pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		t := &pgTx{pgConn: pgConn{e.counter, tx}, batches: tx}
		if err := f(t); err != nil {
			return err
		}
		return t.flush(ctx)
	})
	if _, gaveUp := errors.AsType[*crdb.MaxRetriesExceededError](err); gaveUp {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if _, ambiguous := errors.AsType[*crdb.AmbiguousCommitError](err); ambiguous {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

const beginSerializable = "BEGIN ISOLATION LEVEL SERIALIZABLE"

// inTurn is what begins a transaction that no other one begun so runs beside. What reads and
// writes the same tables at SERIALIZABLE conflicts, as good as always while they are
// small, or waits for each other's rows in a circle for the second after which the
// server looks for such circles. The lock comes before the transaction's snapshot, so
// whoever has waited for it sees what those before it have committed. It ends with the
// transaction, also that of a replica that has stopped in the middle of it. And whoever has
// the turn does not wait for rows of one that waits for it, having added them first: the
// server would look for that circle after a second, here it is a conflict as any other.
// CockroachDB is not sent it.
var inTurn = []string{beginSerializable, takeTurn, boundTurn}

const (
	takeTurn = "LOCK TABLE write_turns IN EXCLUSIVE MODE"
	// boundTurn comes after the wait for the turn, to which the second bound must not apply.
	boundTurn = "SELECT set_config('idle_in_transaction_session_timeout', '10s', true), set_config('lock_timeout', '100ms', true)"
	// beginLate begins a transaction that takes its turn later, and has read nothing by then.
	beginLate = "BEGIN ISOLATION LEVEL READ COMMITTED"
)

func (e *postgresEngine) begin(ctx context.Context) (transaction, error) {
	return e.beginWith(ctx, true, inTurn...)
}

// beginWith takes a connection; what begins the transaction there goes along with its
// first statement.
func (e *postgresEngine) beginWith(ctx context.Context, turn bool, opening ...string) (transaction, error) {
	c, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &pgTx{pgConn: pgConn{e.counter, c}, batches: c, own: c, turn: turn, opening: opening}, nil
}

// grouped: CockroachDB commits many transactions side by side better than it runs one
// with many statements.
func (e *postgresEngine) grouped() bool { return !e.cockroach }

func (e *postgresEngine) conflict(err error) bool { return serializationFailure(err) }

// rolledBack reports whether a failed commit is known to have changed nothing: the
// server said so, and not that it is about to end, which it may say after the commit.
func rolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !leaving(e.Code) && e.Code != "40003"
}

// leaving: SQLSTATE classes 08 (connection exception), 57 (operator intervention) and
// 58 (system error) belong to a server that is going away.
func leaving(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57") || strings.HasPrefix(code, "58")
}

// away: the server is leaving, has no room for us (class 53), is only a standby
// (25006), or there is no connection to it.
func (e *postgresEngine) away(err error) bool {
	if p, ok := errors.AsType[*pgconn.PgError](err); ok {
		return leaving(p.Code) || strings.HasPrefix(p.Code, "53") || p.Code == "25006"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// refuses: SQLSTATE classes 22 (data exception), 23 (integrity constraint violation) and 54
// (program limit exceeded, as a value that is too long for an index).
func (e *postgresEngine) refuses(err error) bool {
	p, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(p.Code) == 5 && slices.Contains([]string{"22", "23", "54"}, p.Code[:2])
}

// serializationFailure: SQLSTATE class 40, serialization_failure and deadlock_detected, and
// lock_not_available (boundTurn).
func serializationFailure(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03")
}

func (e *postgresEngine) duplicate(err error) (string, bool) {
	var p *pgconn.PgError
	if !errors.As(err, &p) || p.Code != "23505" {
		return "", false
	}
	return p.ConstraintName, true
}

func (e *postgresEngine) member(column, name string) string { return jsonMember(column, name) }

// jsonMember is engine.member of PostgreSQL and CockroachDB.
func jsonMember(column, name string) string {
	return "CAST(NULLIF(" + column + ", '') AS JSON) ->> '" + name + "'"
}

func (e *postgresEngine) lockRows(table string) string { return " FOR UPDATE OF " + table }

func (e *postgresEngine) name() string {
	if e.cockroach {
		return "cockroachdb"
	}
	return "postgresql"
}

func (e *postgresEngine) ping(ctx context.Context) error { return e.pool.Ping(ctx) }

// bear has statements that begin from now on bear longer silence of the server, until the end that it returns.
func (e *postgresEngine) bear(d time.Duration) (end func()) {
	was := e.silence.get()
	e.silence.set(max(was, d))
	return func() { e.silence.set(was) }
}

func (e *postgresEngine) clock(ctx context.Context) (now time.Time, err error) {
	if err = e.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

func (e *postgresEngine) close() error { e.pool.Close(); return nil }

// pgConn is a conn over a pool or a transaction.
type pgConn struct {
	*counter
	db interface {
		Exec(ctx context.Context, stmt string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, stmt string, args ...any) (pgx.Rows, error)
	}
}

func (c pgConn) exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	c.add()
	tag, err := c.db.Exec(ctx, stmt, args...)
	return tag.RowsAffected(), err
}

func (c pgConn) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	return check(c.exec(ctx, stmt, args...))
}

func (c pgConn) addLater(ctx context.Context, to *ledger, check func(int64, error) error, args []any) error {
	return addAtOnce(ctx, c, to, check, args)
}

func (c pgConn) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	c.add()
	r, err := c.db.Query(ctx, stmt, args...)
	if err != nil {
		return nil, err
	}
	return pgRows{r}, nil
}

type pgRows struct{ pgx.Rows }

func (r pgRows) Close() error { r.Rows.Close(); return nil }
