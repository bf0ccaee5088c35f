package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// linkField is the field of what belongs to a node that names it.
const linkField = "node_uuid"

// relink resolves the node to which a PATCH moves what belongs to the node from, and returns ops with its
// UUID. ops stay as the client sent them: the transaction may be run again, and the name be another
// node's by then. The node may be named by its name. One that is not there, that the caller may not see
// or that another project owns is refused alike, so that nobody learns which nodes there are.
func (s *Server) relink(ctx context.Context, r *Request, tx *store.Tx, ops []patch.Op, from *store.Node) ([]patch.Op, error) {
	ops = slices.Clone(ops)
	for i := range ops {
		op := &ops[i]
		if op.Root() != linkField || !op.Whole() || op.Kind == patch.Remove {
			continue
		}
		name, isText := op.Value.(string)
		if !isText {
			return nil, unlinkable(wire.Repr(op.Value))
		}
		to, err := s.nodeForWrite(ctx, r, tx, name)
		if e, refused := errors.AsType[*wire.Error](err); refused && e.Status < http.StatusInternalServerError {
			return nil, unlinkable(name)
		}
		if err != nil {
			return nil, err
		}
		if to.Owner != from.Owner {
			return nil, unlinkable(name)
		}
		op.Value = to.UUID
	}
	return ops, nil
}

func unlinkable(value string) error {
	return wire.Invalid("Unable to apply the requested %s '%.80s'. Requested value was invalid.", linkField, value)
}

// relinks is relink for items of a collection.
func relinks[T any](s *Server, node func(*T) string) func(context.Context, *Request, *store.Tx, []patch.Op, *T) ([]patch.Op, error) {
	return func(ctx context.Context, r *Request, tx *store.Tx, ops []patch.Op, item *T) ([]patch.Op, error) {
		if !slices.ContainsFunc(ops, func(op patch.Op) bool { return op.Root() == linkField }) {
			return ops, nil
		}
		from, err := tx.Node(ctx, node(item))
		if err != nil {
			return nil, err
		}
		return s.relink(ctx, r, tx, ops, from)
	}
}

// byUUID refuses to move a volume to a node by its name.
func byUUID[T any](_ *Request, ops []patch.Op, _ *T) error {
	for _, op := range ops {
		if op.Root() != linkField || !op.Whole() || op.Kind == patch.Remove {
			continue
		}
		text, isText := op.Value.(string)
		if _, isUUID := wire.UUID(text); isUUID {
			continue
		}
		if !isText {
			text = wire.Repr(op.Value)
		}
		return wire.Invalid("Expected a UUID for %s, but received %.80s.", linkField, text)
	}
	return nil
}
