package store

import (
	"context"
	"fmt"
)

// The row 'published' of change_numbers says up to which number changes have been claimed by
// those who tell others of them.
var (
	selectClaimed = register("SELECT newest FROM change_numbers WHERE name = 'published'")
	claimNumbers  = register("UPDATE change_numbers SET newest = $1 WHERE name = 'published' AND newest = $2")
	skipNumbers   = register("UPDATE change_numbers SET newest = $1 WHERE name = 'published' AND newest < $1")
)

// ClaimChanges returns up to limit numbered changes that nobody has claimed, in their order,
// and claims them: each change is returned once, to one replica. Fewer than limit: none is
// left. One that finds another replica at it gets ErrConflict.
func (s *Store) ClaimChanges(ctx context.Context, limit int) ([]*Change, error) {
	var claimed int64
	r, err := s.engine.query(ctx, selectClaimed)
	if err = scanAll(r, err, func(r rows) error { return r.Scan(&claimed) }); err != nil {
		return nil, fmt.Errorf("read which changes were claimed: %w", err)
	}
	list, err := s.Changes(ctx, claimed, limit)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	last := list[len(list)-1].Seq
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		moved, err := tx.conn.exec(ctx, claimNumbers, last, claimed)
		if err == nil && moved == 0 {
			err = ErrConflict
		}
		if err != nil {
			return fmt.Errorf("claim the changes after %d up to %d: %w", claimed, last, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// SkipClaims leaves the changes up to number seq to nobody: those who claim changes later
// begin after it.
func (s *Store) SkipClaims(ctx context.Context, seq int64) error {
	return s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.conn.exec(ctx, skipNumbers, seq); err != nil {
			return fmt.Errorf("leave the changes up to %d unclaimed: %w", seq, err)
		}
		return nil
	})
}
