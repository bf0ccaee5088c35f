package api

import (
	"context"
	"errors"
	"slices"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// maxAncestors bounds how deep nodes may lie inside of nodes.
const maxAncestors = 100

// checkPlace checks the chassis that a node stands in and the node that it is a part
// of, where they are not those of before (nil for a new node).
func (s *Server) checkPlace(ctx context.Context, r *Request, tx *store.Tx, before, n *store.Node) (err error) {
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
	if before == nil {
		if n.ParentNode, err = s.parent(ctx, r, tx, n.Owner, n.ParentNode); err != nil {
			return err
		}
	}
	return checkAncestors(ctx, tx, n)
}

// withParent returns the operations of c, in which a node that they make n a part of is named by its
// UUID. Who owns it is compared with who owns n before the operations, as in Ironic; only a removal
// takes the parent away.
func (s *Server) withParent(ctx context.Context, tx *store.Tx, n *store.Node, c *nodeChange) ([]patch.Op, error) {
	names := func(op patch.Op) bool { return op.Path == "/parent_node" && op.Kind != patch.Remove }
	first := slices.IndexFunc(c.ops, names)
	if first < 0 {
		return c.ops, nil
	}
	parent, err := s.parent(ctx, c.r, tx, n.Owner, c.ops[first].Value)
	if err != nil {
		return nil, err
	}
	ops := slices.Clone(c.ops)
	for i := range ops {
		if names(ops[i]) {
			ops[i].Value = parent // also where another was checked by nobody
		}
	}
	return ops, nil
}

// parent is the UUID of the node that a request names to be the parent of one of this owner. It
// refuses one that is not there or is another's, in the same words.
func (s *Server) parent(ctx context.Context, r *Request, tx *store.Tx, owner string, asked any) (string, error) {
	refused := wire.Invalid("Unable to apply the requested parent_node '%.255s'. Requested value was invalid.", said(asked))
	ident, _ := asked.(string)
	if ident == "" {
		return "", refused
	}
	parent, err := s.nodeForWrite(ctx, r, tx, ident)
	if _, isRefusal := errors.AsType[*wire.Error](err); isRefusal {
		return "", refused
	}
	if err != nil {
		return "", err
	}
	if parent.Owner != owner {
		return "", refused
	}
	return parent.UUID, nil
}

// checkAncestors refuses a parent that is the node itself or a part of it.
func checkAncestors(ctx context.Context, tx *store.Tx, n *store.Node) error {
	above := n.ParentNode
	for range maxAncestors {
		if above == n.UUID {
			return wire.Invalid("Node %s cannot be its own parent, directly or through others.", n.UUID)
		}
		parent, err := tx.Node(ctx, above)
		if errors.Is(err, store.ErrNotFound) || err == nil && parent.ParentNode == "" {
			return nil
		}
		if err != nil {
			return err
		}
		above = parent.ParentNode
	}
	return wire.Invalid("Node %s cannot have %d nodes above it.", n.UUID, maxAncestors)
}
