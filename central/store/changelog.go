package store

import (
	"context"
	"fmt"
)

var (
	selectChanges    = "SELECT " + names(changeColumns, "c.") + " FROM changes c"
	selectUnnumbered = register("SELECT c.uuid, c.phases FROM changes c WHERE c.seq = 0 ORDER BY c.uuid LIMIT $1")
	selectNumbered   = register(selectChanges + " WHERE c.seq > $1 ORDER BY c.seq LIMIT $2")
	selectNumbers    = register("SELECT newest, pruned FROM change_numbers WHERE name = 'changes'")
	insertNumbers    = register("INSERT INTO change_numbers (name, newest, pruned) VALUES ('changes', 0, 0) ON CONFLICT (name) DO NOTHING")
	advanceNumbers   = register("UPDATE change_numbers SET newest = $1 WHERE name = 'changes' AND newest = $2")
	pruneNumbers     = register("UPDATE change_numbers SET pruned = $1 WHERE name = 'changes' AND pruned < $1")
	pruneChanges     = register("DELETE FROM changes WHERE seq > 0 AND seq <= $1")
)

func numberChanges(n int) string {
	return "WITH v (uuid, seq) AS (VALUES " + valueRows(n, 2, []string{"TEXT", "BIGINT"}) +
		") UPDATE changes SET seq = v.seq FROM v WHERE changes.uuid = v.uuid AND changes.seq = 0"
}

func init() {
	builders = append(builders, func() []string { return []string{numberChanges(2)} })
}

// ChangeRange is which numbers of changes there are: those after Pruned, up to Newest.
type ChangeRange struct{ Pruned, Newest int64 }

// ChangeRange returns which numbers of changes the database holds.
func (s *Store) ChangeRange(ctx context.Context) (ChangeRange, error) {
	return readRange(ctx, s.engine)
}

func readRange(ctx context.Context, c conn) (n ChangeRange, err error) {
	r, err := c.query(ctx, selectNumbers)
	if err = scanAll(r, err, func(r rows) error { return r.Scan(&n.Newest, &n.Pruned) }); err != nil {
		return n, fmt.Errorf("read the numbers of changes: %w", err)
	}
	return n, nil
}

// Changes returns up to limit numbered changes after number seq, in order. The numbers
// have no gaps, and whatever is numbered later has a higher one: who has read up to a
// number has missed nothing.
func (s *Store) Changes(ctx context.Context, seq int64, limit int) ([]*Change, error) {
	var list []*Change
	r, err := s.engine.query(ctx, selectNumbered, seq, limit)
	err = scanAll(r, err, func(r rows) error {
		c := new(Change)
		list = append(list, c)
		return r.Scan(fields(changeColumns, c)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read changes after %d: %w", seq, err)
	}
	return list, nil
}

// Numbered is what NumberChanges has done: Count changes got the numbers after After, up
// to Last.
type Numbered struct {
	Count       int
	After, Last int64
}

// NumberChanges numbers up to limit changes that have none yet, oldest first. Fewer than
// limit: none is left. Any replica may do so at any time: one that finds another at it
// has numbered none and gets ErrConflict.
func (s *Store) NumberChanges(ctx context.Context, limit int) (Numbered, error) {
	var none, did Numbered
	waiting, err := s.unnumbered(ctx, min(limit, maxRows))
	if err != nil || len(waiting) == 0 {
		return none, err
	}
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		last, err := readRange(ctx, tx.conn)
		if err != nil {
			return err
		}
		next, rows := last.Newest, roundUp(len(waiting))
		args := make([]any, 0, 2*rows)
		for _, c := range waiting {
			next += c.Numbers()
			args = append(args, c.UUID, next)
		}
		for len(args) < 2*rows {
			args = append(args, args[len(args)-2:]...) // the last once more
		}
		if last == (ChangeRange{}) {
			if _, err := tx.conn.exec(ctx, insertNumbers); err != nil {
				return fmt.Errorf("begin to number changes: %w", err)
			}
		}
		moved, err := tx.conn.exec(ctx, advanceNumbers, next, last.Newest)
		if err != nil {
			return fmt.Errorf("number changes: %w", err)
		}
		if moved == 0 {
			return ErrConflict
		}
		numbered, err := tx.conn.exec(ctx, numberChanges(rows), args...)
		if err != nil {
			return fmt.Errorf("number %d changes: %w", len(waiting), err)
		}
		if numbered != int64(len(waiting)) {
			return ErrConflict // another replica had numbered some of them
		}
		did = Numbered{len(waiting), last.Newest, next}
		return nil
	})
	if err != nil {
		return none, err
	}
	return did, nil
}

func (s *Store) unnumbered(ctx context.Context, limit int) ([]*Change, error) {
	var list []*Change
	r, err := s.engine.query(ctx, selectUnnumbered, limit)
	err = scanAll(r, err, func(r rows) error {
		c := new(Change)
		list = append(list, c)
		return r.Scan(&c.UUID, &c.Phases)
	})
	if err != nil {
		return nil, fmt.Errorf("read changes without a number: %w", err)
	}
	return list, nil
}

// PruneChanges removes the changes up to number seq.
func (s *Store) PruneChanges(ctx context.Context, seq int64) error {
	return s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.conn.exec(ctx, pruneNumbers, seq); err != nil {
			return fmt.Errorf("remove old changes: %w", err)
		}
		if _, err := tx.conn.exec(ctx, pruneChanges, seq); err != nil {
			return fmt.Errorf("remove changes up to %d: %w", seq, err)
		}
		return nil
	})
}

// WatchChanges calls told after each transaction of this store that noted changes,
// until cancel. It must not block, and may be called from many goroutines at once.
func (s *Store) WatchChanges(told func()) (cancel func()) {
	w := &changeWatcher{told}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeWatchers[w] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.changeWatchers, w)
	}
}

type changeWatcher struct{ told func() }

// tellChanges tells of a transaction that is committed.
func (s *Store) tellChanges() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.changeWatchers {
		w.told()
	}
}
