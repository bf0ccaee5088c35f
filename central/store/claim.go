package store

import (
	"context"
	"fmt"
)

var (
	selectPublication = register("SELECT told, claimed, turn FROM publication WHERE name = 'changes'")
	movePublication   = register("UPDATE publication SET told = $1, claimed = $2, turn = turn + 1 WHERE name = 'changes' AND turn = $3")
)

// Publication is how far others have been told of the changes. Whoever tells them claims the
// changes first, so that nobody else does, and says afterwards up to where he has come: a claim
// that stays is that of somebody who is at it, or who has died (decision 18).
type Publication struct {
	Told    int64 // up to this number all has been told
	Claimed int64 // up to this one somebody is telling now; Told: nobody is
	// Turn is another one after each write: who finds the same one has seen the newest.
	Turn int64
}

// Open reports whether somebody has changes in his hands.
func (p Publication) Open() bool { return p.Claimed > p.Told }

// Publication returns how far others have been told of the changes.
func (s *Store) Publication(ctx context.Context) (p Publication, err error) {
	r, err := s.engine.query(ctx, selectPublication)
	if err = scanAll(r, err, func(r rows) error { return r.Scan(&p.Told, &p.Claimed, &p.Turn) }); err != nil {
		return p, fmt.Errorf("read how far changes were published: %w", err)
	}
	return p, nil
}

// ClaimChanges claims the first changes after seen.Told, up to limit of them, also where
// they are another's, and returns them in their order, with what PublishedChanges wants to
// know. None: there are none, and nothing is claimed. ErrConflict: somebody has
// claimed or published since seen.
func (s *Store) ClaimChanges(ctx context.Context, seen Publication, limit int) ([]*Change, Publication, error) {
	list, err := s.Changes(ctx, seen.Told, limit)
	if err != nil || len(list) == 0 {
		return nil, seen, err
	}
	now := Publication{Told: seen.Told, Claimed: list[len(list)-1].Seq, Turn: seen.Turn + 1}
	if err := s.publication(ctx, now); err != nil {
		return nil, seen, fmt.Errorf("claim the changes after %d up to %d: %w", now.Told, now.Claimed, err)
	}
	return list, now, nil
}

// PublishedChanges writes that nobody is to be told of the changes up to told any more, and
// that nobody has any in his hands. ErrConflict: somebody has claimed or published since last.
func (s *Store) PublishedChanges(ctx context.Context, last Publication, told int64) (Publication, error) {
	now := Publication{Told: told, Claimed: told, Turn: last.Turn + 1}
	if err := s.publication(ctx, now); err != nil {
		return last, fmt.Errorf("note that the changes up to %d are published: %w", told, err)
	}
	return now, nil
}

// publication writes what follows the turn before.
func (s *Store) publication(ctx context.Context, now Publication) error {
	return s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		moved, err := tx.conn.exec(ctx, movePublication, now.Told, now.Claimed, now.Turn-1)
		if err == nil && moved == 0 {
			err = ErrConflict
		}
		return err
	})
}
