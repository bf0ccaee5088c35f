package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// createAllocation makes an allocation. It is decided when the request is answered, but
// clients know allocations as something that takes time: the answer shows what was asked
// for, the next request what came of it.
func (s *Server) createAllocation(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	target := body["node"]
	if r.Version >= allocationBackfillSince { // before, nobody knows it
		delete(body, "node")
	}
	c := s.allocationCollection()
	a := c.fresh()
	if err := allocationTable.Create(r.Version, body, a); err != nil {
		return Reply{}, err
	}
	ident, isText := target.(string)
	if target != nil && !isText {
		return Reply{}, wire.Invalid("Schema error: %s is not of type 'string', 'null'", wire.Repr(target)).Detailed("in node")
	}
	if ident == "" && a.ResourceClass == "" {
		return Reply{}, wire.Invalid("The resource_class field is mandatory when not backfilling")
	}
	if err := claimAllocation(r, a); err != nil {
		return Reply{}, err
	}
	if err := s.resolveCandidates(r, a); err != nil {
		return Reply{}, err
	}
	shown := *a
	if ident != "" {
		err = s.backfill(r, a, ident)
		shown = *a
	} else {
		err = s.allocate(r, a)
		shown.UUID, shown.Traits, shown.State, shown.CreatedAt = a.UUID, a.Traits, store.Allocating, a.CreatedAt
	}
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	return Reply{Status: http.StatusCreated, Location: r.Base + "/v1/allocations/" + a.UUID,
		Body: c.append(nil, r, allocationTable.All(r.Version), &shown)}, nil
}

// resolveCandidates replaces names of candidate nodes by UUIDs.
func (s *Server) resolveCandidates(r *Request, a *store.Allocation) error {
	var missing []string
	for i, ident := range a.Candidates {
		n, err := s.node(r, ident)
		switch {
		case err == nil:
			a.Candidates[i] = n.UUID
		case wire.AsError(err).Status == http.StatusNotFound:
			missing = append(missing, ident)
		default:
			return err
		}
	}
	if len(missing) > 0 {
		return wire.Invalid("Nodes cannot be found: %.1000s", strings.Join(missing, ", "))
	}
	return nil
}

func (s *Server) allocate(r *Request, a *store.Allocation) error {
	if a.UUID == "" {
		a.UUID = store.NewID()
	}
	return s.allocator.Allocate(r.Context(), a)
}

func (s *Server) backfill(r *Request, asked *store.Allocation, target string) error {
	var a store.Allocation
	err := s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, target)
		if err != nil {
			return asInvalid(err)
		}
		a = *asked // each attempt anew
		if a.ResourceClass == "" {
			a.ResourceClass = n.ResourceClass
		}
		if a.UUID == "" {
			if a.UUID = n.InstanceUUID; a.UUID == "" {
				a.UUID = store.NewID()
			}
		}
		return allocation.Backfill(ctx, tx, &a, n)
	})
	*asked = a
	return err
}
