package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// outboxRow is a row of outbox with what only the store knows.
type outboxRow struct {
	Outbox
	site, origin string
}

var outboxColumns = []column[outboxRow]{
	{"id", key, func(o *outboxRow) any { return &o.ID }},
	{"site", key, func(o *outboxRow) any { return &o.site }},
	{"origin", key, func(o *outboxRow) any { return &o.origin }},
	{"kind", key, func(o *outboxRow) any { return &o.Kind }},
	{"node", key, func(o *outboxRow) any { return &o.Node }},
	{"conductor_group", key, func(o *outboxRow) any { return &o.Group }},
	{"object", key, func(o *outboxRow) any { return &o.Object }},
	{"payload", key, func(o *outboxRow) any { return &o.Payload }},
}

var (
	selectOutbox    = "SELECT " + names(outboxColumns, "o.") + " FROM outbox o WHERE o.site = $1 AND o.id > $2 "
	selectOutboxOwn = register(selectOutbox + "AND o.origin = $3 ORDER BY o.id LIMIT $4")
	selectOutboxAny = register(selectOutbox + "AND o.id < $3 ORDER BY o.id LIMIT $4")
	countOutbox     = register("SELECT site, COUNT(*), MIN(id) FROM outbox GROUP BY site")
)

var outboxLedger = newLedger("outbox", names(outboxColumns, ""), len(outboxColumns))

func deleteOutbox(site string, ids []string) (string, []any) {
	list, args := inList(2, ids)
	return "DELETE FROM outbox WHERE site = $1 AND id IN (" + list + ")", append([]any{site}, args...)
}

func selectClaims(site string, works []string) (string, []any) {
	list, args := inList(2, works)
	return "SELECT o.object, o.claimed FROM outbox o WHERE o.site = $1 AND o.object IN (" + list + ") AND o.kind = '" + string(OutboxNode) + "'", append([]any{site}, args...)
}

func claimEntries(site string, ids []string, revision uint64) (string, []any) {
	list, args := inList(3, ids)
	return "UPDATE outbox SET claimed = $2 WHERE site = $1 AND id IN (" + list + ") AND claimed = 0 RETURNING object", append([]any{site, revision}, args...)
}

func init() {
	builders = append(builders, func() []string {
		del, _ := deleteOutbox("s", []string{"a", "b"})
		sel, _ := selectClaims("s", []string{"a", "b"})
		claim, _ := claimEntries("s", []string{"a", "b"}, 1)
		return []string{del, sel, claim}
	})
}

// Enqueue adds outbox entries in one statement, in their order. Once they are
// committed those who watch the outbox are told.
func (tx *Tx) Enqueue(ctx context.Context, entries ...*Outbox) error {
	if len(entries) == 0 {
		return nil
	}
	var err error
	args := make([]any, 0, len(entries)*outboxLedger.width)
	for _, o := range entries {
		o.ID = NewID()
		row := outboxRow{Outbox: *o, site: tx.s.opts.SiteOf(o.Group), origin: tx.s.opts.Origin}
		if args, err = appendValues(args, outboxColumns, &row); err != nil {
			return err
		}
	}
	err = tx.addLater(ctx, outboxLedger, func(err error) error { return fmt.Errorf("enqueue for node %s: %w", entries[0].Node, err) }, args)
	if err != nil {
		return err
	}
	tx.enqueued = append(tx.enqueued, entries...)
	return nil
}

// watcher is somebody who watches the outbox.
type watcher struct{ told func([]*Outbox) }

// WatchOutbox calls told with the entries of each transaction that this store
// commits, in their order, until cancel. told is called before Update returns, maybe
// from many goroutines at once: it must not block, and it must not change the
// entries. Who watches saves reading them, no more: when a commit's answer is lost,
// or this process ends first, nobody is told, and the rows say so (OldOutbox).
func (s *Store) WatchOutbox(told func(entries []*Outbox)) (cancel func()) {
	w := &watcher{told}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}
}

func (s *Store) tell(entries []*Outbox) {
	if len(entries) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.told(entries)
	}
}

// OwnOutbox returns up to limit entries of site that this replica wrote, after id
// after, oldest first.
func (s *Store) OwnOutbox(ctx context.Context, site, after string, limit int) ([]*Outbox, error) {
	return s.readOutbox(ctx, selectOutboxOwn, site, after, s.opts.Origin, limit)
}

// OldOutbox returns entries of site whoever wrote them, older than age: their
// writer has gone, or the site was away.
func (s *Store) OldOutbox(ctx context.Context, site, after string, age time.Duration, limit int) ([]*Outbox, error) {
	return s.readOutbox(ctx, selectOutboxAny, site, after, idAt(s.now().Add(-age)), limit)
}

// AheadOutbox returns entries of site, by any writer, that are newer than it is by this replica's clock: their
// writer's clock is ahead of it. How old they are only their reader can tell, who sees when they come.
func (s *Store) AheadOutbox(ctx context.Context, site, after string, limit int) ([]*Outbox, error) {
	return s.readOutbox(ctx, selectOutboxAny, site, max(after, idAt(s.now())), afterAllIDs, limit)
}

// afterAllIDs comes after every id in the order of texts.
const afterAllIDs = "~"

// idAt returns the smallest outbox id of a time: a UUIDv7 begins with milliseconds.
func idAt(t time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id.String()
}

func (s *Store) readOutbox(ctx context.Context, stmt string, args ...any) ([]*Outbox, error) {
	var list []*Outbox
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		o := new(outboxRow)
		list = append(list, &o.Outbox)
		return r.Scan(fields(outboxColumns, o)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return list, nil
}

// DeleteOutbox removes entries of site that have been published.
func (s *Store) DeleteOutbox(ctx context.Context, site string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	stmt, args := deleteOutbox(site, ids)
	return s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		return tx.write(ctx, func(err error) error { return fmt.Errorf("delete %d outbox entries: %w", len(ids), err) }, stmt, args...)
	})
}

// ClaimWorks claims for the caller the works that entries of site with these ids send out,
// and returns those that nobody has claimed before. It is on the disk when it returns, and
// is never taken back: a claimed work may have been sent. The caller has read no revision of
// WORK above the one that is noted with the claim, which is not 0. An error says nothing of
// what was claimed.
func (s *Store) ClaimWorks(ctx context.Context, site string, ids []string, revision uint64) (works []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	stmt, args := claimEntries(site, ids, revision)
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		works = nil
		r, err := tx.conn.query(ctx, stmt, args...)
		return scanAll(r, err, func(r rows) error {
			works = append(works, "")
			return r.Scan(&works[len(works)-1])
		})
	})
	if err != nil {
		return nil, fmt.Errorf("claim the works of %d outbox entries: %w", len(ids), err)
	}
	return works, nil
}

// Claims returns those of the works whose own entries wait for site, with the revision under
// which somebody has claimed them; 0: nobody has, and they have certainly not been sent.
func (s *Store) Claims(ctx context.Context, site string, works []string) (map[string]uint64, error) {
	claims := map[string]uint64{}
	for part := range slices.Chunk(works, maxRows) {
		stmt, args := selectClaims(site, part)
		r, err := s.engine.query(ctx, stmt, args...)
		err = scanAll(r, err, func(r rows) error {
			var work string
			var revision uint64
			if err := r.Scan(&work, &revision); err != nil {
				return err
			}
			claims[work] = revision
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for %d works in the outbox: %w", len(works), err)
		}
	}
	return claims, nil
}

// Backlog is what waits in the outbox for one site.
type Backlog struct {
	Site    string
	Entries int64
	Oldest  time.Time
}

// OutboxBacklog returns what waits for each site that something waits for.
func (s *Store) OutboxBacklog(ctx context.Context) ([]Backlog, error) {
	var list []Backlog
	r, err := s.engine.query(ctx, countOutbox)
	err = scanAll(r, err, func(r rows) error {
		var b Backlog
		var oldest string
		if err := r.Scan(&b.Site, &b.Entries, &oldest); err != nil {
			return err
		}
		if id, err := uuid.Parse(oldest); err == nil {
			b.Oldest = time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
		}
		list = append(list, b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count outbox: %w", err)
	}
	return list, nil
}
