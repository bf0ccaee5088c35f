package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// nodeIdentSince is the version from which a port may be created for a node by name.
const nodeIdentSince = 94

func (s *Server) createPort(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	if ident, given := body["node_ident"]; given {
		if r.Version < nodeIdentSince {
			return Reply{}, wire.NotAcceptable("Field node_ident", nodeIdentSince)
		}
		if body["node_uuid"], err = s.uuidOf(r, ident, body["node_uuid"]); err != nil {
			return Reply{}, err
		}
		delete(body, "node_ident")
	}
	p := &store.Port{PXEEnabled: true, Extra: map[string]any{}, LocalLinkConnection: map[string]any{}, InternalInfo: map[string]any{}}
	if err := portTable.Create(r.Version, body, p); err != nil {
		return Reply{}, err
	}
	if err := checkPort(r, p); err != nil {
		return Reply{}, err
	}
	if p.UUID == "" {
		p.UUID = uuid.NewString()
	}
	err = s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, p.Node)
		if errors.Is(err, store.ErrNotFound) {
			return wire.Invalid("Node %s could not be found.", p.Node)
		}
		if err != nil {
			return err
		}
		if n.WorkID != "" {
			return dispatch.Locked(n)
		}
		if err := tx.InsertPort(ctx, p); err != nil {
			return err
		}
		return tx.Enqueue(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, portError(err)
	}
	return Reply{Status: http.StatusCreated, Location: r.Base + "/v1/ports/" + p.UUID,
		Body: appendPort(nil, r, portTable.All(r.Version), p)}, nil
}

// uuidOf resolves node_ident; a node_uuid beside it must mean the same node.
func (s *Server) uuidOf(r *Request, ident, beside any) (string, error) {
	name, isText := ident.(string)
	if !isText {
		return "", wire.Invalid("Schema error for port: node_ident must be a text")
	}
	n, err := s.node(r, name)
	if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound {
		return "", wire.Invalid("Node %.80s could not be found.", name)
	}
	if err != nil {
		return "", err
	}
	if beside != nil && beside != n.UUID {
		return "", wire.Invalid("node_ident and node_uuid name different nodes")
	}
	return n.UUID, nil
}

// checkPort checks what the fields of a port cannot check alone.
func checkPort(r *Request, p *store.Port) error {
	if p.Name != "" && !wire.ValidName(p.Name, r.Version) {
		return wire.Invalid("Cannot create or update port with invalid name '%.80s'", p.Name)
	}
	if p.PortgroupUUID != "" {
		return wire.Invalid("Portgroup %s could not be found.", p.PortgroupUUID)
	}
	return nil
}

func (s *Server) updatePort(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	ident, err := portIdent(r, true)
	if err != nil {
		return Reply{}, err
	}
	ops, err := readPatch(r)
	if err != nil {
		return Reply{}, err
	}
	var changed *store.Port
	_, err = s.changePort(r, ident, func(ctx context.Context, tx *store.Tx, p *store.Port) error {
		node := p.Node
		if _, err := portTable.Update(r.Version, ops, p); err != nil {
			return err
		}
		if p.Node != node {
			return wire.Invalid("Port %s belongs to node %s; it cannot move to another. Delete it and create one there.", p.UUID, node)
		}
		changed = p
		if err := checkPort(r, p); err != nil {
			return err
		}
		return tx.UpdatePort(ctx, p)
	})
	if err != nil {
		return Reply{}, err
	}
	return ok(appendPort(nil, r, portTable.All(r.Version), changed))
}
