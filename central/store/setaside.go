package store

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// SetAside is an event of a site that could not be applied. It is kept, so that an operator
// sees it and may have it applied when the cause is gone.
type SetAside struct {
	ID    string // made by the store of Site and Body
	Site  string
	Place uint64 // in the site's stream
	// Subject is what it was published under: who may say so, the bus's permissions hold.
	Subject string
	Node    string
	Kind    string // of the event, empty where that cannot be read
	Reason  string
	Error   string
	// Body is the event as it came. The database is given it encoded: what it holds may be
	// the very thing that a database does not take as text.
	Body []byte
	At   time.Time // set by the store
}

var setAsideColumns = []column[SetAside]{
	{"id", key, func(a *SetAside) any { return &a.ID }},
	{"site", key, func(a *SetAside) any { return &a.Site }},
	{"place", key, func(a *SetAside) any { return &a.Place }},
	{"subject", key, func(a *SetAside) any { return &a.Subject }},
	{"node", key, func(a *SetAside) any { return &a.Node }},
	{"kind", key, func(a *SetAside) any { return &a.Kind }},
	{"reason", key, func(a *SetAside) any { return &a.Reason }},
	{"error", key, func(a *SetAside) any { return &a.Error }},
	{"body", key, func(a *SetAside) any { return &asText{&a.Body} }},
	{"created_at", key, func(a *SetAside) any { return &micros{&a.At} }},
}

// asText keeps bytes of any kind as text.
type asText struct{ b *[]byte }

func (e *asText) Scan(src any) (err error) {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("text column holds %T", src)
	}
	*e.b, err = base64.StdEncoding.DecodeString(text)
	return err
}

func (e *asText) Value() (driver.Value, error) {
	return base64.StdEncoding.EncodeToString(*e.b), nil
}

var (
	insertSetAside = register("INSERT INTO set_asides (" + names(setAsideColumns, "") + ") VALUES (" + placeholders(1, len(setAsideColumns)) +
		") ON CONFLICT (id) DO NOTHING")
	selectSetAside  = register("SELECT " + names(setAsideColumns, "s.") + " FROM set_asides s WHERE s.id = $1")
	selectSetAsides = register("SELECT " + names(setAsideColumns, "s.") + " FROM set_asides s WHERE s.id > $1 ORDER BY s.id LIMIT $2")
	countSetAsides  = register("SELECT count(*) FROM set_asides s WHERE s.site = $1 AND s.reason = $2 AND s.id <> $3")
	deleteSetAside  = register("DELETE FROM set_asides WHERE id = $1")
	summSetAsides   = register("SELECT s.site, s.reason, count(*), min(s.created_at) FROM set_asides s GROUP BY s.site, s.reason ORDER BY s.site, s.reason")
)

// SetAside keeps an event. It does nothing when the same one is kept already, and reports false
// when most others of that reason are kept for the site.
func (tx *Tx) SetAside(ctx context.Context, a *SetAside, most int) (kept bool, err error) {
	sum := sha256.Sum256(append([]byte(a.Site+"\x00"), a.Body...))
	id := hex.EncodeToString(sum[:8])
	var there int
	r, err := tx.conn.query(ctx, countSetAsides, a.Site, a.Reason, id)
	if err := scanAll(r, err, func(r rows) error { return r.Scan(&there) }); err != nil {
		return false, fmt.Errorf("count the events set aside of site %q: %w", a.Site, err)
	}
	if there >= most {
		return false, nil
	}
	row := *a
	row.ID, row.At = id, tx.s.now()
	row.Subject, row.Node, row.Kind, row.Error = plain(a.Subject), plain(a.Node), plain(a.Kind), plain(a.Error)
	if _, err := tx.conn.exec(ctx, insertSetAside, fields(setAsideColumns, &row)...); err != nil {
		return false, fmt.Errorf("set aside event %d of site %q: %w", a.Place, a.Site, err)
	}
	a.ID, a.At = row.ID, row.At
	return true, nil
}

// plain is text without what PostgreSQL does not take.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// DropSetAside forgets an event that was set aside; ErrNotFound when there is none.
func (tx *Tx) DropSetAside(ctx context.Context, id string) error {
	n, err := tx.conn.exec(ctx, deleteSetAside, id)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("forget event %s that was set aside: %w", id, err)
	}
	return nil
}

func (s *Store) readSetAsides(ctx context.Context, stmt string, args ...any) (list []*SetAside, err error) {
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		a := new(SetAside)
		list = append(list, a)
		return r.Scan(fields(setAsideColumns, a)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read events that were set aside: %w", err)
	}
	return list, nil
}

// SetAside returns one event that was set aside, or ErrNotFound.
func (s *Store) SetAside(ctx context.Context, id string) (*SetAside, error) {
	list, err := s.readSetAsides(ctx, selectSetAside, id)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("event %s that was set aside: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// SetAsides returns up to limit of them with an id after that one, in order of the id.
func (s *Store) SetAsides(ctx context.Context, after string, limit int) ([]*SetAside, error) {
	return s.readSetAsides(ctx, selectSetAsides, after, limit)
}

// SetAsideCount says how many events of a site were set aside for a reason.
type SetAsideCount struct {
	Site, Reason string
	Events       int
	Oldest       time.Time
}

// SetAsideCounts counts them all.
func (s *Store) SetAsideCounts(ctx context.Context) (list []SetAsideCount, err error) {
	r, err := s.engine.query(ctx, summSetAsides)
	err = scanAll(r, err, func(r rows) error {
		var c SetAsideCount
		err := r.Scan(&c.Site, &c.Reason, &c.Events, &micros{&c.Oldest})
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count events that were set aside: %w", err)
	}
	return list, nil
}
