package api

import (
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
)

// validatedKinds are the interfaces that a validation is about, in the order of its answer:
// those that each hardware type has first.
var validatedKinds = []string{"boot", "deploy", "management", "network", "power", "bios", "console", "firmware", "inspect", "raid", "rescue", "storage"}

func (s *Server) validateNode(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	return s.validation(r, r.Param(0))
}

// validateNodeByQuery answers the old form, nodes/validate?node=IDENT.
func (s *Server) validateNodeByQuery(r *Request) (Reply, error) {
	if err := r.Query.Allow("node", "node_uuid"); err != nil {
		return Reply{}, err
	}
	for _, name := range []string{"node", "node_uuid"} {
		if r.Query.Has(name) {
			return s.validation(r, r.Query[name])
		}
	}
	return Reply{}, wire.Invalid("Missing mandatory parameter: node")
}

// validation asks the node's rackd and answers by kind of interface.
func (s *Server) validation(r *Request, ident string) (Reply, error) {
	if _, isUUID := wire.UUID(ident); !isUUID && r.Version < wire.NameSince {
		return Reply{}, wire.NotAcceptable("The name of a node", wire.NameSince)
	}
	n, err := s.node(r, ident)
	if err != nil {
		return Reply{}, err
	}
	m, err := s.dispatch.Owner(n, http.StatusNotFound)
	if err != nil {
		return Reply{}, err
	}
	found, err := s.dispatch.Validate(r.Context(), n, m)
	if err != nil {
		return Reply{}, err
	}
	if err := s.unserved(r.Context(), n, found); err != nil {
		return Reply{}, err
	}
	b := []byte{'{'}
	for _, kind := range validatedKinds {
		v, known := found[kind]
		if !known {
			continue
		}
		b = append(wire.AppendName(b, kind), `{"result":`...)
		if v.Result == nil {
			b = append(b, "null"...)
		} else {
			b = wire.AppendValue(b, *v.Result)
		}
		if v.Reason != "" {
			b = wire.AppendString(wire.AppendName(b, "reason"), v.Reason)
		}
		b = append(b, '}')
	}
	return ok(append(b, '}'))
}
