package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
)

// sqliteWriter is the one connection that writes, with the statements that it has
// prepared. Who holds it has it alone.
type sqliteWriter struct {
	*counter
	db   *sql.DB // of one connection
	log  *sqliteLog
	free chan struct{}

	conn  *sql.Conn // nil: to be opened
	known map[string]*sqliteStmt
}

// sqliteStmt is a statement that is prepared.
type sqliteStmt struct {
	*sql.Stmt
	positional
}

// exec looks at ctx only before it begins, as query does: a statement that could be
// interrupted costs two goroutines, which is more than most of them do.
func (s *sqliteStmt) exec(ctx context.Context, args []any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.ExecContext(context.WithoutCancel(ctx), s.arguments(args)...)
}

func (s *sqliteStmt) query(ctx context.Context, args []any) (rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return queryRows(s.QueryContext(context.WithoutCancel(ctx), s.arguments(args)...))
}

func newSQLiteWriter(c *counter, db *sql.DB, log *sqliteLog) *sqliteWriter {
	w := &sqliteWriter{counter: c, db: db, log: log, free: make(chan struct{}, 1), known: map[string]*sqliteStmt{}}
	w.free <- struct{}{}
	return w
}

// begin waits for the writer and begins a transaction with the file's write lock.
func (w *sqliteWriter) begin(ctx context.Context) (*sqliteTx, error) {
	select {
	case <-w.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err := w.open(ctx)
	if err == nil {
		err = w.run(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		w.free <- struct{}{}
		return nil, err
	}
	return &sqliteTx{w: w, seen: w.log.begun.Load()}, nil
}

func (w *sqliteWriter) open(ctx context.Context) (err error) {
	if w.conn == nil {
		w.conn, err = w.db.Conn(ctx)
	}
	return err
}

// prepared returns the statement of a text.
func (w *sqliteWriter) prepared(ctx context.Context, text string) (*sqliteStmt, error) {
	if s := w.known[text]; s != nil {
		return s, nil
	}
	p := byPosition(text)
	made, err := w.conn.PrepareContext(ctx, p.text)
	if err != nil {
		return nil, err
	}
	s := &sqliteStmt{made, p}
	if len(w.known) >= maxPrepared {
		w.forget()
	}
	w.known[text] = s
	return s, nil
}

// run sends a statement that returns nothing and has no arguments.
func (w *sqliteWriter) run(ctx context.Context, text string) error {
	s, err := w.prepared(ctx, text)
	if err == nil {
		_, err = s.exec(ctx, nil)
	}
	return err
}

func (w *sqliteWriter) forget() error {
	var errs []error
	for text, s := range w.known {
		errs = append(errs, s.Close())
		delete(w.known, text)
	}
	return errors.Join(errs...)
}

// drop gives up a connection that is in a state which nobody knows. To close it alone would keep
// it for whoever asks next.
func (w *sqliteWriter) drop() {
	w.forget()
	w.conn.Raw(func(any) error { return driver.ErrBadConn })
	w.conn = nil
}

func (w *sqliteWriter) close() error {
	<-w.free
	err := w.forget()
	if w.conn != nil {
		err = errors.Join(err, w.conn.Close())
	}
	return errors.Join(w.log.settleSeen(), err, w.log.close(), w.db.Close())
}

// sqliteTx is a transaction of the writer.
type sqliteTx struct {
	w     *sqliteWriter
	kept  kept
	ended bool
	seen  uint64 // the last commit in the log that it has seen, then its own
}

func (t *sqliteTx) addLater(_ context.Context, to *ledger, check func(int64, error) error, args []any) error {
	t.kept.add(to, check, args)
	return nil
}

// release adds what was kept back and has to be there before stmt is sent.
func (t *sqliteTx) release(ctx context.Context, stmt string) error {
	for _, a := range t.kept.before(stmt) {
		if a.to == changeLedger {
			if err := checkAll(a.from, 0, a.number(ctx, t)); err != nil {
				return err
			}
		}
		for _, i := range a.insertions() {
			if err := i.check(t.send(ctx, i.orFail, i.args)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *sqliteTx) exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	if err := t.release(ctx, stmt); err != nil {
		return 0, err
	}
	return t.send(ctx, stmt, args)
}

func (t *sqliteTx) send(ctx context.Context, stmt string, args []any) (int64, error) {
	t.w.add()
	s, err := t.w.prepared(ctx, stmt)
	if err != nil {
		return 0, err
	}
	r, err := s.exec(ctx, args)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// execLater: nothing is gained by waiting.
func (t *sqliteTx) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	return check(t.exec(ctx, stmt, args...))
}

func (t *sqliteTx) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	if err := t.release(ctx, stmt); err != nil {
		return nil, err
	}
	return t.ask(ctx, stmt, args)
}

// ask is query for what concerns none of what is kept back.
func (t *sqliteTx) ask(ctx context.Context, stmt string, args []any) (rows, error) {
	t.w.add()
	s, err := t.w.prepared(ctx, stmt)
	if err != nil {
		return nil, err
	}
	return s.query(ctx, args)
}

func (t *sqliteTx) flush(ctx context.Context) error { return t.release(ctx, "") }

func (t *sqliteTx) commit(ctx context.Context) ending {
	asked, err := t.commitNow(ctx)
	return ending{wait: func() (bool, error) { return asked, err }}
}

func (t *sqliteTx) commitNow(ctx context.Context) (asked bool, err error) {
	if err := t.release(ctx, ""); err != nil {
		t.rollback(ctx)
		return false, err
	}
	n, err := t.w.log.commit(func() error { return t.w.run(ctx, "COMMIT") })
	if err != nil {
		t.rollback(ctx)
		return true, fmt.Errorf("commit: %w", err)
	}
	t.seen = n
	t.end()
	return true, nil
}

func (t *sqliteTx) settle() error {
	if err := t.w.log.settle(t.seen); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// rollback does nothing after the end.
func (t *sqliteTx) rollback(ctx context.Context) {
	if t.ended {
		return
	}
	// An error that SQLite has rolled back by itself leaves nothing to roll back, which
	// it reports as an error too; a new connection is in a state that is known.
	if err := t.w.run(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
		t.w.drop()
	}
	t.end()
}

func (t *sqliteTx) end() {
	t.ended = true
	t.w.free <- struct{}{}
}

// maxPrepared bounds the statements that are kept prepared: lists come in many forms.
const maxPrepared = 256

// sqliteReader reads outside of transactions, with several connections.
type sqliteReader struct {
	*counter
	db  *sql.DB
	log *sqliteLog

	mu    sync.Mutex
	known map[string]*sqliteStmt
}

// query takes its snapshot before it returns, and returns when all is safe that can be in it.
func (r *sqliteReader) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	rows, err := r.begin(ctx, stmt, args)
	if err != nil {
		return nil, err
	}
	if err := r.log.settleSeen(); err != nil {
		rows.Close()
		return nil, err
	}
	return rows, nil
}

func (r *sqliteReader) begin(ctx context.Context, stmt string, args []any) (rows, error) {
	r.add()
	s, err := r.prepared(ctx, stmt)
	if err != nil {
		return nil, err
	}
	if s == nil {
		p := byPosition(stmt)
		return queryRows(r.db.QueryContext(ctx, p.text, p.arguments(args)...))
	}
	return s.query(ctx, args)
}

// prepared returns the statement of a text, nil when there are many others.
func (r *sqliteReader) prepared(ctx context.Context, text string) (*sqliteStmt, error) {
	r.mu.Lock()
	s, full := r.known[text], len(r.known) >= maxPrepared
	r.mu.Unlock()
	if s != nil || full {
		return s, nil
	}
	p := byPosition(text)
	made, err := r.db.PrepareContext(ctx, p.text)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.known[text]; other != nil {
		made.Close() // somebody was faster
		return other, nil
	}
	s = &sqliteStmt{made, p}
	r.known[text] = s
	return s, nil
}

func (r *sqliteReader) close() error { return r.db.Close() }

func queryRows(r *sql.Rows, err error) (rows, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
