package allocation

import (
	"context"
	"errors"
	"maps"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Remove deletes an allocation and frees its node, or says why the node is not to be
// freed now.
func Remove(ctx context.Context, tx *store.Tx, a *store.Allocation) error {
	if a.Node != "" {
		n, err := tx.Node(ctx, a.Node)
		switch {
		case errors.Is(err, store.ErrNotFound): // nothing to free
		case err != nil:
			return err
		default:
			if err := free(ctx, tx, a, n); err != nil {
				return err
			}
		}
	}
	return tx.DeleteAllocation(ctx, a)
}

func free(ctx context.Context, tx *store.Tx, a *store.Allocation, n *store.Node) error {
	if err := Releasable(n, a.UUID); err != nil {
		return err
	}
	if n.WorkID != "" {
		return dispatch.Locked(n)
	}
	n.InstanceUUID = ""
	Forget(n)
	if err := tx.UpdateNode(ctx, n); err != nil {
		return err
	}
	return tx.Tell(ctx, dispatch.Dirty(n))
}

// Releasable refuses to take its allocation from a node that is being worked on or in
// use, unless an operator looks after it.
func Releasable(n *store.Node, allocation string) error {
	switch {
	case n.Maintenance:
		return nil
	case n.TargetProvisionState != provision.NoState && !n.ProvisionState.In(provision.UpdateAllowed):
		return refuse("Cannot remove allocation %s for node %s, because the node is in state %s where updates are not allowed "+
			"(and maintenance mode is off)", allocation, n.UUID, n.ProvisionState)
	case n.ProvisionState == provision.Active:
		return refuse("Cannot remove allocation %s for node %s, because the node is active (and maintenance mode is off)", allocation, n.UUID)
	}
	return nil
}

// Forget takes what an allocation has left in a node: the traits of its instance would
// else choose the deploy templates of the next.
func Forget(n *store.Node) {
	n.AllocationUUID = ""
	if _, there := n.InstanceInfo["traits"]; there {
		n.InstanceInfo = maps.Clone(n.InstanceInfo)
		delete(n.InstanceInfo, "traits")
	}
}

// Drop removes the allocation of a node whose instance is gone, or that is itself; it
// is no error that there is none.
func Drop(ctx context.Context, tx *store.Tx, n *store.Node) error {
	if n.AllocationUUID == "" {
		return nil
	}
	a, err := tx.AllocationOf(ctx, n.UUID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.DeleteAllocation(ctx, a)
}
