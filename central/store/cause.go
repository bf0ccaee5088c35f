package store

import "context"

// Cause is on whose behalf transactions write. It travels in the context, so that what
// is recorded about a write is recorded in the write's own transaction, whoever makes
// it. It belongs to one request: one goroutine at a time.
type Cause struct {
	// Audit is written by the first transaction that is committed under the cause; nil:
	// nothing is audited. Resource, Object and Node are filled in from what it changed
	// where they are empty.
	Audit *Audit
	// Action replaces what a change of the node is called in notifications ("update");
	// empty: whatever has changed says it.
	Action string
	// Admit, if not nil, is asked first in each transaction, with what the transaction reads, whether
	// its cause may still do this. Its error is that of the transaction.
	Admit func(context.Context, *Tx) error

	recorded bool
}

// Recorded reports whether Audit is in the database.
func (c *Cause) Recorded() bool { return c.recorded }

type causeKey struct{}

// WithCause returns a context whose transactions write on behalf of c.
func WithCause(ctx context.Context, c *Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

func causeOf(ctx context.Context) *Cause {
	c, _ := ctx.Value(causeKey{}).(*Cause)
	return c
}

// admit asks the cause of a transaction whether that may go on.
func (tx *Tx) admit(ctx context.Context) error {
	if cause := causeOf(ctx); cause != nil && cause.Admit != nil {
		return cause.Admit(ctx, tx)
	}
	return nil
}

// record writes what the transaction has noted: the changes, and the line of the audit
// when the cause has none yet. The caller sets cause.recorded once it is committed.
func (tx *Tx) record(ctx context.Context) error {
	cause := causeOf(ctx)
	if err := tx.insertChanges(ctx, cause); err != nil {
		return err
	}
	if cause == nil || cause.Audit == nil || cause.recorded {
		return nil
	}
	// A copy: an attempt that is not committed must leave no trace.
	a := *cause.Audit
	for _, c := range tx.changes {
		if a.Resource == "" {
			a.Resource = c.Resource
		}
		if a.Resource == c.Resource && !IsUUID(a.Object) {
			a.Object = c.Object
		}
		if a.Node == "" {
			a.Node = c.Node
		}
	}
	tx.audited = &a
	return tx.insertAudit(ctx, &a)
}

// committed tells those who wait for what the transaction has written.
func (tx *Tx) committed(ctx context.Context) {
	if tx.audited != nil {
		cause := causeOf(ctx)
		cause.recorded, cause.Audit = true, tx.audited
	}
	tx.s.tell(tx.enqueued)
	if len(tx.changes) > 0 {
		tx.s.tellChanges()
	}
}
