package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// table is a kind of row that has a UUID and is created, listed, changed and removed
// one at a time. It makes and registers all statements of its kind, so a resource that
// has no rules of its own needs nothing else.
type table[T any] struct {
	name    string // of the table in the database
	noun    string // of a row, in errors
	columns []column[T]
	// join follows the table (which is t) in selects, for filters; empty for none.
	join string
	// idents are the unique columns besides uuid by which a row may be found.
	idents []string
	// sorts are the columns by which lists may be sorted, besides uuid and created_at.
	sorts []string
	// filters adds each condition that lists may have, for AllStatements; nil: none.
	filters func(*filter)
	// stamps are the moments that the store sets.
	stamps func(*T) (created, updated *time.Time)
	// value returns a unique field, for *DuplicateError.
	value func(row *T, field string) string

	selectAll, insertRow, updateRow, deleteRow string
	byIdent                                    map[string]string
}

// newTable completes t and registers its statements.
func newTable[T any](t table[T]) *table[T] {
	t.sorts = append(t.sorts, "uuid", "created_at")
	t.selectAll = "SELECT " + names(t.columns, "t.") + " FROM " + t.name + " t" + t.join
	t.byIdent = map[string]string{}
	for _, column := range append(t.idents, "uuid") {
		t.byIdent[column] = register(t.selectAll + " WHERE t." + column + " = $1")
	}
	t.insertRow = register("INSERT INTO " + t.name + " (" + names(t.columns, "") + ") VALUES (" + placeholders(1, len(t.columns)) + ")")
	t.updateRow = register("UPDATE " + t.name + " SET " + assignments(t.columns, 2, intent) + " WHERE uuid = $1")
	t.deleteRow = register("DELETE FROM " + t.name + " WHERE uuid = $1")
	builders = append(builders, t.samples)
	return &t
}

// samples are the statements of lists: each sort key, either way, with all filters.
func (t *table[T]) samples() []string {
	var out []string
	for _, sort := range t.sorts {
		for _, desc := range []bool{false, true} {
			var f filter
			if t.filters != nil {
				t.filters(&f)
			}
			out = append(out, t.selectAll+f.page(Page{Marker: "m", Desc: desc, Project: "p"}, t.name, "t", sort))
		}
	}
	return out
}

func (t *table[T]) read(ctx context.Context, c conn, stmt string, args ...any) ([]*T, error) {
	var list []*T
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		row := new(T)
		list = append(list, row)
		return r.Scan(fields(t.columns, row)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.name, err)
	}
	return list, nil
}

// one returns the row with that UUID, or with that value in one of the idents, or
// ErrNotFound. suffix follows the statement.
func (t *table[T]) one(ctx context.Context, c conn, ident, suffix string) (*T, error) {
	columns, value := t.idents, ident
	if id, err := uuid.Parse(ident); err == nil && len(ident) == 36 {
		columns, value = []string{"uuid"}, id.String()
	}
	if ident != "" {
		for _, column := range columns {
			list, err := t.read(ctx, c, t.byIdent[column]+suffix, value)
			if err != nil {
				return nil, err
			}
			if len(list) > 0 {
				return list[0], nil
			}
		}
	}
	return nil, fmt.Errorf("%s %s: %w", t.noun, ident, ErrNotFound)
}

// page returns the rows that f admits. A marker that is no row is ErrNotFound, an
// unknown sort key an *InvalidSortError.
func (t *table[T]) page(ctx context.Context, s *Store, f filter, p Page) ([]*T, error) {
	if p.SortKey == "" {
		p.SortKey = "created_at"
	}
	if !slices.Contains(t.sorts, p.SortKey) {
		return nil, &InvalidSortError{p.SortKey}
	}
	tail := f.page(p, t.name, "t", p.SortKey)
	list, err := t.read(ctx, s.engine, t.selectAll+tail, f.args...)
	if err == nil && len(list) == 0 && p.Marker != "" {
		err = s.markerExists(ctx, t.byIdent["uuid"], t.noun, p.Marker)
	}
	return list, err
}

// insert adds row and sets when it was created; its unique fields may fail it with a
// *DuplicateError.
func (t *table[T]) insert(ctx context.Context, tx *Tx, row *T) error {
	if created, _ := t.stamps(row); created.IsZero() {
		*created = tx.s.now()
	}
	if _, err := tx.conn.exec(ctx, t.insertRow, fields(t.columns, row)...); err != nil {
		return fmt.Errorf("insert %s %s: %w", t.noun, t.id(row), t.taken(tx, err, row))
	}
	tx.noteRow(t.resource(), t.id(row), "", "create")
	return nil
}

// update writes all of row but its key, and sets when it was updated. Errors: those of
// insert, and ErrNotFound.
func (t *table[T]) update(ctx context.Context, tx *Tx, row *T) error {
	_, updated := t.stamps(row)
	*updated = tx.s.now()
	return t.rewrite(ctx, tx, row)
}

// rewrite is update that leaves open when the row was updated.
func (t *table[T]) rewrite(ctx context.Context, tx *Tx, row *T) error {
	n, err := tx.conn.exec(ctx, t.updateRow, append([]any{t.id(row)}, fields(t.columns, row, intent)...)...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("update %s %s: %w", t.noun, t.id(row), t.taken(tx, err, row))
	}
	tx.noteRow(t.resource(), t.id(row), "", "update")
	return nil
}

// remove deletes the row with that UUID, or fails with ErrNotFound.
func (t *table[T]) remove(ctx context.Context, tx *Tx, id string) error {
	n, err := tx.conn.exec(ctx, t.deleteRow, id)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", t.noun, id, err)
	}
	tx.noteRow(t.resource(), id, "", "delete")
	return nil
}

// resource is what notifications call a row: "deploytemplate" of "deploy template".
func (t *table[T]) resource() string { return strings.ToLower(strings.ReplaceAll(t.noun, " ", "")) }

// id returns the row's UUID: the first column's.
func (t *table[T]) id(row *T) string { return *t.columns[0].field(row).(*string) }

// taken is Store.taken with the constraint names that this table's unique columns have
// by convention: SQLite says table.column, the others table_column or table_pkey.
func (t *table[T]) taken(tx *Tx, err error, row *T) error {
	constraint, ok := tx.s.engine.duplicate(err)
	if !ok {
		return err
	}
	field, found := strings.CutPrefix(constraint, t.name+".")
	if !found {
		field, found = strings.CutPrefix(constraint, t.name+"_")
	}
	if !found {
		return err
	}
	if field == "pkey" {
		field = "uuid"
	}
	return &DuplicateError{Field: field, Value: t.value(row, field)}
}
