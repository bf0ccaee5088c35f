package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pgTx is a transaction that keeps writes back until somebody must know how something
// went, and sends them along with that: the way to the server and back is most of what
// a small statement costs.
type pgTx struct {
	pgConn
	tx   pgx.Tx
	held []heldWrite
	kept kept
}

type heldWrite struct {
	stmt  string
	args  []any
	check func(affected int64, err error) error
}

func (t *pgTx) execLater(_ context.Context, check func(int64, error) error, stmt string, args ...any) error {
	values, err := snapshot(args)
	if err != nil {
		return err
	}
	t.release(stmt)
	t.held = append(t.held, heldWrite{stmt, values, check})
	return nil
}

func (t *pgTx) addLater(_ context.Context, to *ledger, check func(int64, error) error, args []any) error {
	return t.kept.add(to, check, args)
}

// release holds what was kept back and has to be sent before stmt.
func (t *pgTx) release(stmt string) {
	for _, i := range t.kept.before(stmt) {
		t.held = append(t.held, heldWrite{i.stmt, i.args, i.check})
	}
}

func (t *pgTx) exec(ctx context.Context, stmt string, args ...any) (affected int64, err error) {
	t.release(stmt)
	if len(t.held) == 0 {
		return t.pgConn.exec(ctx, stmt, args...)
	}
	results, err := t.send(ctx, stmt, args)
	if err != nil {
		return 0, err
	}
	tag, err := results.Exec()
	if closing := results.Close(); err == nil {
		err = closing
	}
	return tag.RowsAffected(), err
}

func (t *pgTx) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	t.release(stmt)
	if len(t.held) == 0 {
		return t.pgConn.query(ctx, stmt, args...)
	}
	results, err := t.send(ctx, stmt, args)
	if err != nil {
		return nil, err
	}
	r, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return batchRows{pgRows{r}, results}, nil
}

// send sends what is held, then stmt if there is one, and checks the former.
func (t *pgTx) send(ctx context.Context, stmt string, args []any) (pgx.BatchResults, error) {
	held := t.held
	t.held = nil
	var b pgx.Batch
	for _, w := range held {
		b.Queue(w.stmt, w.args...)
		t.add()
	}
	if stmt != "" {
		b.Queue(stmt, args...)
		t.add()
	}
	results := t.tx.SendBatch(ctx, &b)
	for _, w := range held {
		tag, err := results.Exec()
		if err = w.check(tag.RowsAffected(), err); err != nil {
			results.Close() // fails for the same reason
			return nil, err
		}
	}
	return results, nil
}

// flush sends what is held and what is kept back.
func (t *pgTx) flush(ctx context.Context) error {
	t.release("")
	if len(t.held) == 0 {
		return nil
	}
	results, err := t.send(ctx, "", nil)
	if err != nil {
		return err
	}
	return results.Close()
}

func (t *pgTx) commit(ctx context.Context) error {
	if err := t.flush(ctx); err != nil {
		t.rollback(ctx)
		return err
	}
	if err := t.tx.Commit(ctx); err != nil && !rolledBack(err) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	} else if err != nil {
		return err
	}
	return nil
}

// settle: what PostgreSQL has answered is on its disk.
func (t *pgTx) settle() error { return nil }

// rollback: a connection on which it fails is closed.
func (t *pgTx) rollback(ctx context.Context) { t.tx.Rollback(ctx) }

// batchRows are the rows of the last statement of a batch.
type batchRows struct {
	pgRows
	results pgx.BatchResults
}

func (r batchRows) Close() error {
	r.pgRows.Close()
	return r.results.Close()
}
