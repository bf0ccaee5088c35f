package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

func (s *Server) ports() Resource {
	const list, one = "baremetal:port:list", "ports/{port}"
	return Resource{Name: "ports", Routes: []Route{
		{Method: http.MethodGet, Path: "ports", Policy: list, Handle: s.listPorts},
		{Method: http.MethodGet, Path: "ports/detail", Policy: list, Handle: s.listPortsDetail},
		{Method: http.MethodPost, Path: "ports", Policy: "baremetal:port:create", Handle: s.createPort, Takes: portBody},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:port:get", Handle: s.showPort},
		{Method: http.MethodPatch, Path: one, Policy: "baremetal:port:update", Handle: s.updatePort},
		{Method: http.MethodDelete, Path: one, Policy: "baremetal:port:delete", Handle: s.deletePort},
	}}
}

// portIdent checks the UUID, or name, of a port as a request gives it. Versions that do not
// show names understand them all the same.
func portIdent(r *Request, names bool) (string, error) {
	ident := r.Param(0)
	if id, ok := wire.UUID(ident); ok {
		return id, nil
	}
	if !names {
		return "", wire.Invalid("Expected UUID for port_uuid: %.80s", ident)
	}
	if !wire.Logical(ident) {
		return "", wire.Invalid("Expected UUID or name for port_ident: %.80s", ident)
	}
	return ident, nil
}

func portMissing(ident string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return wire.Errorf(http.StatusNotFound, "Port %.80s could not be found.", ident)
	}
	return storeError(err)
}

// portConcealed says that a port is not there when its node may not be seen.
func portConcealed(ident string, err error) error {
	if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound {
		return wire.Errorf(http.StatusNotFound, "Port %.80s could not be found.", ident)
	}
	return err
}

func appendPort(b []byte, r *Request, sel fields.Selection, p *store.Port) []byte {
	if !vtepKnown(r.Version) && hasVTEP(p.LocalLinkConnection) {
		shown := *p
		shown.LocalLinkConnection = map[string]any{}
		p = &shown
	}
	return append(portTable.AppendLinked(append(b, '{'), sel, p, r.Base, "ports/", p.UUID), '}')
}

func (s *Server) showPort(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, portTable, true, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	ident, err := portIdent(r, true)
	if err != nil {
		return Reply{}, err
	}
	p, err := s.Store.Port(r.Context(), ident)
	if err != nil {
		return Reply{}, portMissing(ident, err)
	}
	return ok(appendPort(nil, r, sel, p))
}

func (s *Server) deletePort(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	ident, err := portIdent(r, false)
	if err != nil {
		return Reply{}, err
	}
	return s.changePort(r, ident, func(ctx context.Context, tx *store.Tx, n *store.Node, p *store.Port) error {
		if vif := vifOf(p.InternalInfo); vif != "" && !n.Maintenance {
			return conflict("Cannot delete the port %s as it is still bound to VIF %s; detach it first.", p.UUID, vif)
		}
		return errors.Join(tx.DeletePort(ctx, p), tx.Tell(ctx, dispatch.Dirty(n)))
	})
}

// changePort runs change on a port whose node no rackd works on now, in a transaction.
func (s *Server) changePort(r *Request, ident string, change func(context.Context, *store.Tx, *store.Node, *store.Port) error) (Reply, error) {
	err := s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.Port(ctx, ident)
		if err != nil {
			return portMissing(ident, err)
		}
		n, err := s.nodeForWrite(ctx, r, tx, p.Node)
		if err != nil {
			return portConcealed(ident, err)
		}
		if dispatch.Busy(n) {
			return dispatch.Locked(n)
		}
		return change(ctx, tx, n, p)
	})
	if err != nil {
		return Reply{}, portError(err)
	}
	return noContent()
}

// portError is storeError where a UUID or a name is a port's.
func portError(err error) error {
	if e, ok := errors.AsType[*store.DuplicateError](err); ok && (e.Field == "uuid" || e.Field == "name") {
		return conflict("A port with %s already exists.", claimed(e))
	}
	return storeError(err)
}
