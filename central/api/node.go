package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// The rules for what projects do with nodes of their own.
const (
	createOwn = "baremetal:node:create:self_owned_node"
	deleteOwn = "baremetal:node:delete:self_owned_node"
)

func (s *Server) nodes() Resource {
	const read, write = "baremetal:node:get", "baremetal:node:update"
	return Resource{Name: "nodes", Routes: []Route{
		{Method: http.MethodGet, Path: "nodes", Policy: "baremetal:node:list", Handle: s.listNodes},
		{Method: http.MethodGet, Path: "nodes/detail", Policy: "baremetal:node:list", Handle: s.listNodesDetail},
		{Method: http.MethodPost, Path: "nodes", Policy: "baremetal:node:create", Own: createOwn, Handle: s.createNode},
		{Method: http.MethodGet, Path: "nodes/{node}", Policy: read, Handle: s.showNode},
		{Method: http.MethodPatch, Path: "nodes/{node}", Policy: write, ByField: true, Handle: s.updateNode},
		{Method: http.MethodDelete, Path: "nodes/{node}", Policy: "baremetal:node:delete", Own: deleteOwn, Last: deleteOwn, Handle: s.deleteNode},
		{Method: http.MethodGet, Path: "nodes/{node}/validate", Summary: "Check what the interfaces of a node have to know", Policy: "baremetal:node:validate", Handle: s.validateNode, Shows: validationAnswer},
		{Method: http.MethodGet, Path: "nodes/validate", Summary: "Check what the interfaces of the node have to know that an argument names", Policy: "baremetal:node:validate", Handle: s.validateNodeByQuery, Shows: validationAnswer},
		{Method: http.MethodPut, Path: "nodes/{node}/maintenance", Summary: "Take a node into maintenance", Policy: "baremetal:node:set_maintenance", Handle: s.setMaintenance, Takes: maintenanceBody, Success: http.StatusAccepted},
		{Method: http.MethodDelete, Path: "nodes/{node}/maintenance", Summary: "End the maintenance of a node", Policy: "baremetal:node:clear_maintenance", Handle: s.clearMaintenance, Success: http.StatusAccepted},
	}}
}

// node reads the node that a request names and may read.
func (s *Server) node(r *Request, ident string) (*store.Node, error) {
	return s.findNode(r, ident, s.Store.Node)
}

// shownNode is node for one that is only shown: it must not be changed.
func (s *Server) shownNode(r *Request, ident string) (*store.Node, error) {
	return s.findNode(r, ident, s.Store.ShownNode)
}

func (s *Server) findNode(r *Request, ident string, find func(context.Context, string) (*store.Node, error)) (*store.Node, error) {
	var found *store.Node
	err := s.eachIdent(r, ident, func(ident string) (err error) {
		found, err = find(r.Context(), ident)
		return err
	})
	if err == nil {
		err = r.see(found, ident)
	}
	if err != nil {
		return nil, err
	}
	r.concerns(found)
	return found, nil
}

// nodeForWrite reads the node that a request names and may read inside of a transaction.
func (s *Server) nodeForWrite(ctx context.Context, r *Request, tx *store.Tx, ident string) (*store.Node, error) {
	var found *store.Node
	err := s.eachIdent(r, ident, func(ident string) (err error) {
		found, err = tx.Node(ctx, ident)
		return err
	})
	if err == nil {
		err = r.see(found, ident)
	}
	if err != nil {
		return nil, err
	}
	r.concerns(found)
	return found, nil
}

// eachIdent calls find with the identifier, and where a ".json" was cut off, then
// with the name as it was.
func (s *Server) eachIdent(r *Request, ident string, find func(string) error) error {
	checked, err := r.nodeIdent(ident)
	if err != nil {
		return err
	}
	err = find(checked)
	if errors.Is(err, store.ErrNotFound) && r.suffix != "" {
		if whole, bad := r.nodeIdent(ident + r.suffix); bad == nil {
			err = find(whole)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return wire.Errorf(http.StatusNotFound, "Node %s could not be found.", ident)
	}
	return err
}

// view makes what a request sees of a node. The owner is looked up only where the
// selection shows it.
func (s *Server) view(r *Request, n *store.Node, sel fields.Selection) *nodeView {
	v := &nodeView{Node: n, version: r.Version, changing: r.Method == http.MethodPatch}
	if nodeTable.Has(sel, "conductor") {
		v.owner = s.ownerName(n)
	}
	s.look(r, v)
	return v
}

func (s *Server) ownerName(n *store.Node) string {
	m, _ := s.Roster.Owner(n.UUID, n.Driver, n.ConductorGroup)
	return m.Name
}

// subresources are the links that a whole node has besides its own.
var subresources = []struct {
	name  string
	since microversion.Version
}{{"ports", 1}, {"states", 14}, {"portgroups", 24}, {"volume", 32}}

// appendNode appends a node with its links.
func (s *Server) appendNode(b []byte, r *Request, sel fields.Selection, n *store.Node) []byte {
	b = nodeTable.AppendLinked(append(b, '{'), sel, s.view(r, n, sel), r.Base, "nodes/", n.UUID)
	if !sel.Chosen {
		b = appendSubresources(b, r, n.UUID)
	}
	return append(b, '}')
}

// appendSubresources appends the links that a whole node ends with.
func appendSubresources(b []byte, r *Request, uuid string) []byte {
	for _, sub := range subresources {
		if sub.since <= r.Version {
			b = wire.AppendLinks(wire.AppendName(b, sub.name), r.Base, "nodes/", uuid, "/", sub.name)
		}
	}
	return b
}

func (s *Server) showNode(r *Request) (Reply, error) {
	watch, err := watches(r)
	if err != nil {
		return Reply{}, err
	}
	if watch {
		sel, err := selectFields(r, nodeTable, true, 8, 43)
		if err != nil {
			return Reply{}, err
		}
		return s.watchNode(r, sel)
	}
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, nodeTable, true, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	b := s.smallBuffer()
	keeps := r.keeps(sel)
	if uuid, named := wire.UUID(r.Param(0)); named && keeps {
		if kept := s.encodedNow(r.Context(), r.Version, uuid); kept != nil {
			if b, err = kept.append(b, r, uuid); err != nil {
				return Reply{}, err
			}
			return lent(b)
		}
	}
	n, err := s.shownNode(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if keeps {
		b, kept := s.encode(b, r, n)
		return lent(kept.link(b, r, n.UUID))
	}
	return lent(s.appendNode(b, r, sel, n))
}
