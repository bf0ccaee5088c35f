package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

func (s *Server) nodeAllocation() Resource {
	const path = "nodes/{node}/allocation"
	return Resource{Since: allocationsSince, Routes: []Route{
		{Method: http.MethodGet, Path: path, Summary: "Show the allocation of a node", Policy: "baremetal:allocation:get", Handle: s.showNodeAllocation},
		{Method: http.MethodDelete, Path: path, Summary: "Delete the allocation of a node", Policy: "baremetal:allocation:delete", Handle: s.deleteNodeAllocation},
	}}
}

func (s *Server) showNodeAllocation(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	c := s.allocationCollection()
	n, err := s.nodeAllocated(r, s.Store.Node)
	if err != nil {
		return Reply{}, err
	}
	a, err := s.Store.AllocationOf(r.Context(), n.UUID)
	if err != nil {
		return Reply{}, noAllocation(r, err)
	}
	if r.Query.Has("fields") && r.Version < allocationOwnerSince { // which Ironic leaves out there, and refuses elsewhere
		r.Query["fields"] = strings.Join(slices.DeleteFunc(r.Query.List("fields"), func(name string) bool { return name == "owner" }), ",")
	}
	sel, err := selectFields(r, allocationTable, true, allocationsSince, allocationsSince) // what is not there has no fields
	if err != nil {
		return Reply{}, err
	}
	return ok(c.append(nil, r, sel, a))
}

func (s *Server) deleteNodeAllocation(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	err := s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		a, err := tx.AllocationOf(ctx, n.UUID)
		if err != nil {
			return noAllocation(r, err)
		}
		return allocation.Remove(ctx, tx, a)
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}

// nodeAllocated reads the node whose allocation is asked about. Ironic takes a missing one
// for a filter that is wrong: 400, for those who may read all nodes. To others it is
// missing like one that they may not read.
func (s *Server) nodeAllocated(r *Request, find func(context.Context, string) (*store.Node, error)) (*store.Node, error) {
	n, err := s.findNode(r, r.Param(0), find)
	if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound && r.Method == http.MethodGet && r.allowed(readNode, nobodys) == nil {
		return nil, wire.Invalid("%s", e.Text)
	}
	return n, err
}

func noAllocation(r *Request, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return wire.Errorf(http.StatusNotFound, "Allocation for node %s was not found", r.Param(0))
	}
	return err
}

// checkAllocated refuses to give a node to another owner that is allocated to somebody.
func checkAllocated(ctx context.Context, tx *store.Tx, n *store.Node) error {
	a, err := tx.Allocation(ctx, n.AllocationUUID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if a.Owner != "" {
		return conflict("Cannot update owner of node \"%s\" while it is allocated to an allocation with an owner.", n.UUID)
	}
	return nil
}

// deallocate removes the allocation of a node whose instance_uuid a PATCH has removed.
func deallocate(ctx context.Context, tx *store.Tx, before, n *store.Node) error {
	if !before.Maintenance && !before.ProvisionState.In(provision.InterfaceChangeAllowed) {
		return conflict("Node %s with an allocation can not have instance_uuid removed unless it is in one of allowed (%s) states or in "+
			"maintenance mode. Current state is '%s'.", n.UUID, unquoted(provision.InterfaceChangeAllowed), before.ProvisionState)
	}
	if before.WorkID != "" {
		return dispatch.Locked(before)
	}
	if err := allocation.Drop(ctx, tx, before); err != nil {
		return err
	}
	allocation.Forget(n)
	return nil
}
