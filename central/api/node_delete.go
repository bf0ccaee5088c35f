package api

import (
	"context"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

func (s *Server) deleteNode(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	err := s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		if err := s.checkDelete(n); err != nil {
			return err
		}
		if err := dispatch.Engaged(ctx, tx, n); err != nil {
			return err
		}
		if s.ownerName(n) != "" { // else no rackd is left to end it
			if err := dispatch.Underway(ctx, tx, n); err != nil {
				return err
			}
		}
		if err := allocation.Drop(ctx, tx, n); err != nil {
			return err
		}
		if err := tx.DeleteNode(ctx, n.UUID); err != nil {
			return err
		}
		return tx.Enqueue(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}
