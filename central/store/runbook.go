package store

import (
	"context"
	"time"
)

// Runbook is a row of runbooks: steps for cleaning and servicing that have a name.
type Runbook struct {
	UUID           string
	CreatedAt      time.Time
	UpdatedAt      time.Time
	EmptyTexts     EmptyTexts
	Name           string
	Description    string
	Steps          []ListedStep
	Traits         []string // sorted; a node must have one of them
	DisableRamdisk bool
	Public         bool   // every project may use it
	Owner          string // project, empty for none
	Extra          map[string]any
}

// RunbookQuery filters runbooks. An empty filter does not filter.
type RunbookQuery struct {
	Page
	// Project leaves those that the project owns, and public ones.
	Project string
}

var runbooks = newTable(table[Runbook]{
	name: "runbooks", noun: "runbook", idents: []string{"name"},
	columns: []column[Runbook]{
		{"uuid", key, func(r *Runbook) any { return &r.UUID }},
		{"created_at", key, func(r *Runbook) any { return &r.CreatedAt }},
		{"updated_at", intent, func(r *Runbook) any { return &r.UpdatedAt }},
		{"empty_texts", intent, func(r *Runbook) any { return (*string)(&r.EmptyTexts) }},
		{"name", intent, func(r *Runbook) any { return &r.Name }},
		{"description", intent, func(r *Runbook) any { return &r.Description }},
		{"steps", intent, func(r *Runbook) any { return asObject(&r.Steps) }},
		{"traits", intent, func(r *Runbook) any { return asObject(&r.Traits) }},
		{"disable_ramdisk", intent, func(r *Runbook) any { return &r.DisableRamdisk }},
		{"public", intent, func(r *Runbook) any { return &r.Public }},
		{"owner", intent, func(r *Runbook) any { return &r.Owner }},
		{"extra", intent, func(r *Runbook) any { return asObject(&r.Extra) }},
	},
	sorts:   []string{"updated_at", "name", "description", "disable_ramdisk", "public", "owner"},
	filters: RunbookQuery{Project: "p"}.narrow,
	stamps:  func(r *Runbook) (created, updated *time.Time) { return &r.CreatedAt, &r.UpdatedAt },
	value: func(r *Runbook, field string) string {
		return map[string]string{"uuid": r.UUID, "name": r.Name}[field]
	},
})

func (q RunbookQuery) narrow(f *filter) {
	if q.Project != "" {
		f.add("(t.owner = ? AND t.owner <> '' OR t.public)", q.Project)
	}
}

// Runbook returns the runbook with that UUID or name, or ErrNotFound.
func (s *Store) Runbook(ctx context.Context, ident string) (*Runbook, error) {
	return runbooks.one(ctx, s.engine, ident, "")
}

// Runbooks returns a page of runbooks, with the errors of Nodes.
func (s *Store) Runbooks(ctx context.Context, q RunbookQuery) ([]*Runbook, error) {
	var f filter
	q.narrow(&f)
	return runbooks.page(ctx, s, f, q.Page)
}

// Runbook returns the runbook for a write that follows, or ErrNotFound.
func (tx *Tx) Runbook(ctx context.Context, ident string) (*Runbook, error) {
	return runbooks.one(ctx, tx.conn, ident, tx.s.lockRows("t"))
}

// InsertRunbook adds r, or fails with a *DuplicateError (uuid, name).
func (tx *Tx) InsertRunbook(ctx context.Context, r *Runbook) error {
	return runbooks.insert(ctx, tx, r)
}

// UpdateRunbook writes all of r, or fails with ErrNotFound or a *DuplicateError.
func (tx *Tx) UpdateRunbook(ctx context.Context, r *Runbook) error {
	return runbooks.update(ctx, tx, r)
}

// UpdateRunbookTraits is UpdateRunbook for a change of what r is for, which does not count as one
// of r itself (updated_at).
func (tx *Tx) UpdateRunbookTraits(ctx context.Context, r *Runbook) error {
	return runbooks.rewrite(ctx, tx, r)
}

// DeleteRunbook removes r, or fails with ErrNotFound.
func (tx *Tx) DeleteRunbook(ctx context.Context, r *Runbook) error {
	return runbooks.remove(ctx, tx, r.UUID)
}
