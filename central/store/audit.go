package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Audit is a row of audit: who asked for what, and what came of it.
type Audit struct {
	UUID      string    // time-ordered; set by the store when empty
	At        time.Time // set by the store when zero
	RequestID string
	User      string // name, empty for nobody
	UserID    string
	Project   string
	Client    string // IP address
	Action    string // the policy's name: "baremetal:node:set_power_state"
	Method    string
	Path      string // without arguments, save the "?method=" of a vendor's
	Resource  string // "node"
	Object    string // UUID, or the name that a refused request gave
	Node      string // UUID of the node that it is about, empty for none
	Status    int64  // of HTTP
	Result    string // one of the results below
	Error     string
}

// The results of a request.
const (
	Accepted = "accepted" // 2xx
	Denied   = "denied"   // 401, 403: the caller may not
	Refused  = "refused"  // another 4xx
	Failed   = "failed"   // 5xx: it may or may not have been carried out
)

var auditColumns = []column[Audit]{
	{"uuid", key, func(a *Audit) any { return &a.UUID }},
	{"created_at", key, func(a *Audit) any { return &a.At }},
	{"request_id", key, func(a *Audit) any { return &a.RequestID }},
	{"user_name", key, func(a *Audit) any { return &a.User }},
	{"user_id", key, func(a *Audit) any { return &a.UserID }},
	{"project", key, func(a *Audit) any { return &a.Project }},
	{"client", key, func(a *Audit) any { return &a.Client }},
	{"action", key, func(a *Audit) any { return &a.Action }},
	{"method", key, func(a *Audit) any { return &a.Method }},
	{"path", key, func(a *Audit) any { return &a.Path }},
	{"resource", key, func(a *Audit) any { return &a.Resource }},
	{"object", key, func(a *Audit) any { return &a.Object }},
	{"node", key, func(a *Audit) any { return &a.Node }},
	{"status", intent, func(a *Audit) any { return &a.Status }},
	{"result", intent, func(a *Audit) any { return &a.Result }},
	{"error", intent, func(a *Audit) any { return &a.Error }},
}

var (
	selectAudit       = "SELECT " + names(auditColumns, "a.") + " FROM audit a"
	selectAuditExists = register("SELECT uuid FROM audit WHERE uuid = $1")
	correctAudit      = register("UPDATE audit SET " + assignments(auditColumns, 2, intent) + " WHERE uuid = $1")
	// pruneAudit removes a batch of the oldest lines, by the time that their ids begin with.
	pruneAudit = register("DELETE FROM audit WHERE uuid IN (SELECT a.uuid FROM audit a WHERE a.uuid < $1 ORDER BY a.uuid LIMIT $2)")
)

var auditLedger = newLedger("audit", names(auditColumns, ""), len(auditColumns))

// AuditQuery filters the audit. An empty filter does not filter.
type AuditQuery struct {
	Page         // sorted by id, that is by time; SortKey must be empty
	Object       string
	Node         string
	User         string
	Action       string
	Result       string
	RequestID    string
	Since, Until time.Time // to the millisecond
}

func auditStatement(q AuditQuery) (string, []any) {
	var f filter
	f.equal("a.node", q.Node)
	if q.Object == "" || q.Node != "" {
		f.equal("a.object", q.Object)
		return selectAudit + q.tail(&f), f.args
	}
	// Most lines are about a node alone, which their index by node finds: that by object
	// has the others.
	f.add("a.node = ? AND a.object = a.node", q.Object)
	alone := selectAudit + q.tail(&f)
	f.conds = nil
	f.add("a.object = ? AND a.object <> a.node", q.Object)
	others := selectAudit + q.tail(&f)
	columns := names(auditColumns, "")
	return "SELECT " + columns + " FROM (" + alone + ") alone UNION ALL SELECT " + columns + " FROM (" + others + ") others" + q.order("audit", "", "uuid"), f.args
}

// tail adds what q asks for besides node and object.
func (q AuditQuery) tail(f *filter) string {
	f.set("a.user_name", q.User)
	f.equal("a.action", q.Action)
	f.equal("a.result", q.Result)
	f.equal("a.request_id", q.RequestID)
	if !q.Since.IsZero() {
		f.add("a.uuid >= ?", idAt(q.Since))
	}
	if !q.Until.IsZero() {
		f.add("a.uuid < ?", idAt(q.Until))
	}
	return f.page(q.Page, "audit", "a", "uuid")
}

func init() {
	builders = append(builders, func() []string {
		t := time.Unix(1, 0)
		asc, _ := auditStatement(AuditQuery{Page: Page{Marker: "m"}, Object: "o", Node: "n", User: "u", Action: "a", Result: "r", RequestID: "q", Since: t, Until: t})
		desc, _ := auditStatement(AuditQuery{Page: Page{Desc: true}})
		object, _ := auditStatement(AuditQuery{Page: Page{Marker: "m", Desc: true}, Object: "o", User: "u", Since: t})
		return []string{asc, desc, object}
	})
}

func readAudit(ctx context.Context, c conn, stmt string, args ...any) ([]*Audit, error) {
	var list []*Audit
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		a := new(Audit)
		list = append(list, a)
		return r.Scan(fields(auditColumns, a)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	return list, nil
}

// Audit returns a page of the audit, oldest first unless Desc. A marker that does not
// exist is ErrNotFound.
func (s *Store) Audit(ctx context.Context, q AuditQuery) ([]*Audit, error) {
	stmt, args := auditStatement(q)
	list, err := readAudit(ctx, s.engine, stmt, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && q.Marker != "" {
		err = s.markerExists(ctx, selectAuditExists, "audit record", q.Marker)
	}
	return list, err
}

// AppendAudit writes lines of the audit. After an error some may be there all the same, and
// all may be given again: which are there by then is looked up.
func (s *Store) AppendAudit(ctx context.Context, lines ...*Audit) error {
	ctx = WithCause(ctx, nil) // these lines, and none besides
	for part := range slices.Chunk(lines, maxRows) {
		left, err := s.unwritten(ctx, part)
		if err == nil && len(left) > 0 {
			err = s.Update(ctx, func(ctx context.Context, tx *Tx) error { return tx.insertAudit(ctx, left...) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func auditAmong(ids []string) (string, []any) {
	list, args := inList(1, ids)
	return "SELECT uuid FROM audit WHERE uuid IN (" + list + ")", args
}

func init() {
	builders = append(builders, func() []string {
		stmt, _ := auditAmong([]string{"u"})
		return []string{stmt}
	})
}

// unwritten are those of lines that are not in the database. One that no attempt has given a UUID cannot be.
func (s *Store) unwritten(ctx context.Context, lines []*Audit) ([]*Audit, error) {
	var tried []string
	for _, a := range lines {
		if a.UUID != "" {
			tried = append(tried, a.UUID)
		}
	}
	if tried == nil {
		return lines, nil
	}
	stmt, args := auditAmong(tried)
	written := map[string]bool{}
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		var id string
		err := r.Scan(&id)
		written[id] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look which of %d lines of the audit are there: %w", len(tried), err)
	}
	return slices.DeleteFunc(slices.Clone(lines), func(a *Audit) bool { return written[a.UUID] }), nil
}

// CorrectAudit replaces status, result and error of a line whose transaction was
// committed before the request's end was known.
func (s *Store) CorrectAudit(ctx context.Context, a *Audit) error {
	ctx = WithCause(ctx, nil)
	return s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.conn.exec(ctx, correctAudit, append([]any{a.UUID}, fields(auditColumns, a, intent)...)...); err != nil {
			return fmt.Errorf("correct the audit of %s: %w", a.RequestID, err)
		}
		return nil
	})
}

// PruneAudit removes up to limit lines from before a time and returns how many.
func (s *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (removed int64, err error) {
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) (err error) {
		if removed, err = tx.conn.exec(ctx, pruneAudit, idAt(before), limit); err != nil {
			return fmt.Errorf("remove old lines of the audit: %w", err)
		}
		return nil
	})
	return removed, err
}

func (tx *Tx) insertAudit(ctx context.Context, lines ...*Audit) error {
	var err error
	args := make([]any, 0, len(lines)*auditLedger.width)
	for _, a := range lines {
		if a.UUID == "" {
			a.UUID = NewID()
		}
		if a.At.IsZero() {
			a.At = tx.s.now()
		}
		if args, err = appendValues(args, auditColumns, a); err != nil {
			return err
		}
	}
	return tx.addLater(ctx, auditLedger, func(err error) error { return fmt.Errorf("write the audit of %s: %w", lines[0].RequestID, err) }, args)
}

// IsUUID reports whether a text is a UUID in its usual form.
func IsUUID(text string) bool {
	_, err := uuid.Parse(text)
	return err == nil && len(text) == 36
}
