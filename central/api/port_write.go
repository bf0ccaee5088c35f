package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// nodeIdentSince is the version from which a port may be created for a node by name.
const nodeIdentSince = 94

// unnamed stands for a node's UUID until its name is looked up.
const unnamed = "00000000-0000-0000-0000-000000000000"

func (s *Server) createPort(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	found := func(p *store.Port) error { return s.referenced(r, p.Node) }
	ident, named := body["node_ident"]
	if named {
		if _, twice := body["node_uuid"]; twice {
			return Reply{}, wire.Invalid("Schema error for port: %s is valid under each of {'required': ['node_uuid']}, {'required': ['node_ident']}", wire.Repr(body))
		}
		name, isText := ident.(string)
		if !isText {
			return Reply{}, wire.Invalid("Schema error for port: %s is not of type 'string'", wire.Repr(ident)).Detailed("in node_ident")
		}
		delete(body, "node_ident")
		body["node_uuid"] = unnamed
		found = func(p *store.Port) (err error) {
			p.Node, err = s.uuidOf(r, name)
			return err
		}
	}
	if _, below := body["node_uuid"]; !below && body["address"] != nil {
		return Reply{}, wire.Invalid("Schema error for port: %s is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required property", wire.Repr(body))
	}
	_, asked := body["pxe_enabled"]
	p := &store.Port{PXEEnabled: true, AvailableForDynamicPortgroup: true, Extra: map[string]any{}, LocalLinkConnection: map[string]any{}, InternalInfo: map[string]any{}}
	if err := portTable.CreateBelow(r.Version, body, p, found); err != nil {
		return Reply{}, err
	}
	p.EmptyTexts.Set("is_smartnic", false) // null says nothing of a new port
	if named {
		if err := found(p); err != nil {
			return Reply{}, err
		}
	}
	if p.UUID == "" {
		p.UUID = store.NewID()
	}
	err = s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.namedNode(ctx, r, tx, p.Node)
		if err != nil {
			return err
		}
		if err := errors.Join(checkLinkVersion(r, p), checkSmartNIC(p), checkPort(ctx, tx, nil, p, asked && p.PXEEnabled)); err != nil {
			return err
		}
		if err := tx.InsertPort(ctx, p); err != nil {
			return err
		}
		if p.IsSmartNIC {
			if err := tellKept(ctx, r, tx, n, "is_smartnic of port "+p.Address); err != nil {
				return err
			}
		}
		return tx.Tell(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, portError(err)
	}
	return Reply{Status: http.StatusCreated, Location: r.Base + "/v1/ports/" + p.UUID,
		Body: appendPort(nil, r, portTable.All(r.Version), p)}, nil
}

// uuidOf resolves node_ident.
func (s *Server) uuidOf(r *Request, name string) (string, error) {
	if r.Version < nodeIdentSince {
		return "", wire.NotAcceptable("Field node_ident", nodeIdentSince)
	}
	n, err := s.node(r, name)
	if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound {
		return "", wire.Invalid("Node %.80s could not be found.", name)
	}
	if err != nil {
		return "", err
	}
	return n.UUID, nil
}

func (s *Server) updatePort(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	ident, err := portIdent(r, true)
	if err != nil {
		return Reply{}, err
	}
	ops, err := readPatch(r, patch.Parse)
	if err != nil {
		return Reply{}, err
	}
	if r.Version < linkNetwork && slices.ContainsFunc(ops, func(op patch.Op) bool { return op.Path == "/local_link_connection/network_type" }) {
		return Reply{}, wire.NotAcceptable("Field local_link_connection/network_type", linkNetwork)
	}
	var changed *store.Port
	_, err = s.changePort(r, ident, func(ctx context.Context, tx *store.Tx, n *store.Node, p *store.Port) error {
		ops, err := s.relink(ctx, r, tx, ops, n)
		if err := cmp.Or(err, joinsNone(ops)); err != nil {
			return err
		}
		before := *p
		touched, err := portTable.Update(r.Version, ops, p)
		if err != nil {
			return err
		}
		changed = p
		to := n
		if p.Node != before.Node {
			if to, err = s.movedPort(ctx, r, tx, n, p); err != nil {
				return err
			}
		}
		if p.PortgroupUUID != "" && p.PortgroupUUID == before.PortgroupUUID && r.Version >= portgroupNetworkSince && slices.Contains(touched, "physical_network") {
			return wire.Invalid("physical_network cannot be changed while the port belongs to a portgroup.")
		}
		if err := checkPortChange(r, to, &before, p); err != nil {
			return err
		}
		if slices.Contains(touched, "local_link_connection") {
			if err := checkLinkVersion(r, p); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(touched, func(name string) bool { return slices.Contains(placedBy, name) }) {
			if err := checkPort(ctx, tx, &before, p, p.PXEEnabled && to.Interfaces["network"] != noopNetwork); err != nil {
				return err
			}
		}
		if portTable.Same(&before, p) {
			return tx.Touch(ctx, n.UUID) // Ironic has locked it all the same
		}
		if err := tx.UpdatePort(ctx, p); err != nil {
			return err
		}
		if p.IsSmartNIC && !before.IsSmartNIC {
			if err := tellKept(ctx, r, tx, to, "is_smartnic of port "+p.Address); err != nil {
				return err
			}
		}
		out := []*store.Outbox{dispatch.Dirty(n)}
		if to != n {
			out = append(out, dispatch.Dirty(to))
		}
		return tx.Tell(ctx, out...)
	})
	if err != nil {
		return Reply{}, err
	}
	return ok(appendPort(nil, r, portTable.All(r.Version), changed))
}

// joinsNone refuses to put a port into what cannot be a portgroup. Names count as none.
func joinsNone(ops []patch.Op) error {
	for _, op := range ops {
		if op.Root() != "portgroup_uuid" || !op.Whole() || op.Kind == patch.Remove || op.Value == nil || op.Value == "" {
			continue
		}
		text, isText := op.Value.(string)
		if !isText {
			text = wire.Repr(op.Value)
		}
		if _, isUUID := wire.UUID(text); !isUUID {
			return wire.Invalid("Portgroup %.80s could not be found.", text)
		}
	}
	return nil
}
