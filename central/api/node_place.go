package api

import (
	"context"
	"errors"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// maxAncestors bounds how deep nodes may lie inside of nodes.
const maxAncestors = 100

// checkPlace checks the chassis that a node stands in and the node that it is a part
// of, where they are not those of before (nil for a new node).
func (s *Server) checkPlace(ctx context.Context, r *Request, tx *store.Tx, before, n *store.Node) error {
	if n.ChassisUUID != "" && (before == nil || before.ChassisUUID != n.ChassisUUID) {
		if _, err := tx.Chassis(ctx, n.ChassisUUID); errors.Is(err, store.ErrNotFound) {
			return wire.Invalid("Chassis %s could not be found.", n.ChassisUUID)
		} else if err != nil {
			return err
		}
	}
	if before != nil && n.ParentNode == "" && n.EmptyTexts.Has("parent_node") && !before.EmptyTexts.Has("parent_node") {
		return refusedParent("")
	}
	if n.ParentNode == "" || before != nil && before.ParentNode == n.ParentNode {
		return nil
	}
	return s.checkParent(ctx, r, tx, n)
}

func refusedParent(asked string) error {
	return wire.Invalid("Unable to apply the requested parent_node '%s'. Requested value was invalid.", asked)
}

// checkParent refuses a parent node that is not there, is another's, or is the node
// itself or a part of it. The answer does not tell whether there is such a node.
func (s *Server) checkParent(ctx context.Context, r *Request, tx *store.Tx, n *store.Node) error {
	refused := refusedParent(n.ParentNode)
	parent, err := s.nodeForWrite(ctx, r, tx, n.ParentNode)
	if _, isRefusal := errors.AsType[*wire.Error](err); isRefusal {
		return refused
	}
	if err != nil {
		return err
	}
	if parent.Owner != n.Owner {
		return refused
	}
	n.ParentNode = parent.UUID
	for range maxAncestors {
		if parent.UUID == n.UUID {
			return wire.Invalid("Node %s cannot be its own parent, directly or through others.", n.UUID)
		}
		if parent.ParentNode == "" {
			return nil
		}
		if parent, err = tx.Node(ctx, parent.ParentNode); errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return wire.Invalid("Node %s cannot have %d nodes above it.", n.UUID, maxAncestors)
}
