package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

const (
	// readAllocations is the rule whose failure hides an allocation.
	readAllocations = "baremetal:allocation:get"
	// createForOthers is the rule of allocations for whom their creator names.
	createForOthers = "baremetal:allocation:create_restricted"
)

func allocationTarget(a *store.Allocation) *policy.Target {
	return &policy.Target{AllocationOwner: a.Owner}
}

// namedAllocation says whose the allocation is that the path names.
func (s *Server) namedAllocation(ctx context.Context, r *Request, at objects) (*policy.Target, error) {
	ident := r.Param(0)
	a, err := at.Allocation(ctx, ident)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.allowed(readAllocations, allocationTarget(a)) != nil {
		return nil, wire.Errorf(http.StatusNotFound, "Allocation %.255s could not be found.", ident)
	}
	if err != nil {
		return nil, err
	}
	return allocationTarget(a), nil
}

// allocationOfNode says whose the allocation is that holds the node of the path. Who may read the node knows of
// the allocation, so that one of somebody else is forbidden, not hidden.
func (s *Server) allocationOfNode(ctx context.Context, r *Request, at objects) (*policy.Target, error) {
	n, err := s.nodeAllocated(r, func(_ context.Context, ident string) (*store.Node, error) { return at.Node(ctx, ident) })
	if err != nil {
		return nil, err
	}
	if !r.sameNode(n) {
		return nil, conflict("The name %.255s was given to another node during this request. Nothing was changed; please retry.", r.Param(0))
	}
	a, err := at.AllocationOf(ctx, n.UUID)
	if err != nil {
		return nil, noAllocation(r, err)
	}
	return allocationTarget(a), nil
}

// claimAllocation makes a project's allocation its own. Only who may allocate for others
// names another owner.
func claimAllocation(r *Request, a *store.Allocation) error {
	if r.may == nil || r.Caller.System {
		return nil
	}
	if a.Owner != "" && a.Owner != r.Caller.Project {
		return r.allowed(createForOthers, nobodys)
	}
	a.Owner = r.Caller.Project
	return nil
}
