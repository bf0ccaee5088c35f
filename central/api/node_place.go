package api

import (
	"context"
	"errors"
	"net/http"

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
	if n.ParentNode == "" || before != nil && before.ParentNode == n.ParentNode {
		return nil
	}
	return s.checkParent(ctx, r, tx, n)
}

// checkParent refuses a parent node that is not there, or is the node itself or a part
// of it.
func (s *Server) checkParent(ctx context.Context, r *Request, tx *store.Tx, n *store.Node) error {
	id, isUUID := wire.UUID(n.ParentNode)
	if !isUUID {
		return wire.Invalid("Expected a UUID but received %.80s.", n.ParentNode)
	}
	n.ParentNode = id
	for range maxAncestors {
		if id == n.UUID {
			return wire.Invalid("Node %s cannot be its own parent, directly or through others.", n.UUID)
		}
		ancestor, err := s.nodeForWrite(ctx, r, tx, id)
		if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound {
			return wire.Invalid("Node %s could not be found.", id)
		}
		if err != nil {
			return err
		}
		if id = ancestor.ParentNode; id == "" {
			return nil
		}
	}
	return wire.Invalid("Node %s cannot have %d nodes above it.", n.UUID, maxAncestors)
}
