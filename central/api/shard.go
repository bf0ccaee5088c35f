package api

import (
	"cmp"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
)

// shards has no route for one shard: nothing is known of a shard but its nodes.
func (s *Server) shards() Resource {
	return Resource{Name: "shards", Since: 82, Routes: []Route{
		{Method: http.MethodGet, Path: "shards", Summary: "Count the nodes of each shard", Policy: "baremetal:shards:get", Handle: s.listShards, Shows: shardsAnswer},
	}}
}

// noShard is what the nodes without a shard are listed under: a text, as in Ironic.
const noShard = "None"

// listShards answers how many nodes each shard has, the largest first.
func (s *Server) listShards(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	list, err := s.Store.Shards(r.Context())
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := []byte(`{"shards":[`)
	for i, shard := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"name":`...), cmp.Or(shard.Name, noShard))
		b = append(wire.AppendValue(append(b, `,"count":`...), shard.Nodes), '}')
	}
	return ok(append(b, `]}`...))
}

func (s *Server) nodeChildren() Resource {
	return Resource{Since: 83, Routes: []Route{
		{Method: http.MethodGet, Path: "nodes/{node}/children", Summary: "List the children of a node", Policy: "baremetal:node:get", Handle: s.listChildren, Shows: childrenAnswer},
	}}
}

// listChildren answers the UUIDs of the nodes that are parts of the path's node. Whoever may
// read that one need not see all of them: what is listed is limited like a list of nodes.
func (s *Server) listChildren(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if err := r.limit("baremetal:node"); err != nil {
		return Reply{}, err
	}
	list, err := s.Store.Children(r.Context(), n.UUID, r.Scope())
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := wire.AppendValue([]byte(`{"children":`), list)
	b = wire.AppendString(append(b, `,"links":{"href":`...), r.Base+"/v1/nodes?parent_node="+n.UUID)
	return ok(append(b, `,"rel":"children"}}`...))
}
