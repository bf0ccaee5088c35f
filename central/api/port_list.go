package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// portFilters are the arguments that filter a list of ports, with the first version that may
// use each. Ironic guards neither of the last two, which came with 1.97 and 1.99.
var portFilters = map[string]microversion.Version{"address": 1, "node": 1, "node_uuid": 1, "portgroup": 24, "shard": 82,
	"description_contains": 1, "conductor_groups": 1}

func portArguments(more ...string) []string {
	names := append(slices.Clone(wire.PageArguments), more...)
	for name := range portFilters {
		names = append(names, name)
	}
	return names
}

func (s *Server) listPorts(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments("fields", "detail")...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, portTable, false, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	return s.portPage(r, sel, r)
}

func (s *Server) listPortsDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments()...); err != nil {
		return Reply{}, err
	}
	return s.portPage(r, portTable.All(r.Version), r)
}

// portPage answers r with a page of the ports that the filters of asked admit: r itself, or what
// r means as a request to /v1/ports.
func (s *Server) portPage(r *Request, sel fields.Selection, asked *Request) (Reply, error) {
	q, p, err := s.portQuery(asked)
	if err != nil {
		return Reply{}, err
	}
	ports, err := s.Store.Ports(r.Context(), q)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, portMissing(p.Marker, err)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := append(make([]byte, 0, 128+len(ports)*512), `{"ports":[`...)
	for i, port := range ports {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPort(b, r, sel, port)
	}
	b = append(b, ']')
	if len(ports) == p.Limit {
		b = wire.AppendString(wire.AppendName(b, "next"), nextLink(r, portTable, sel, 8, r.listPath(), p, ports[len(ports)-1].UUID))
	}
	return ok(append(b, '}'))
}

func (s *Server) portQuery(r *Request) (q store.PortQuery, p wire.Page, err error) {
	if p, err = r.Query.Page("id"); err != nil {
		return q, p, err
	}
	if marker, given := r.Query["marker"]; given && marker == "" {
		return q, p, wire.Invalid("Expected UUID for marker: ")
	}
	for _, name := range []string{"node", "portgroup"} {
		if ident, given := r.Query[name]; given && !wire.Logical(ident) {
			return q, p, wire.Invalid("Expected UUID or name for %s: %.80s", name, ident)
		}
	}
	for name, since := range portFilters {
		if _, given := r.Query[name]; given && r.Version < since {
			return q, p, newFilter(name, since)
		}
	}
	if err := portTable.CheckSort(r.Version, p.SortKey); err != nil {
		return q, p, err
	}
	if err := checkMarkerGiven(r); err != nil {
		return q, p, err
	}
	if q.Page, err = storePage(p); err != nil {
		return q, p, err
	}
	q.SortKey, q.Page.Project = portTable.Column(p.SortKey), r.Scope()
	node := "node"
	if r.Query.Has("node_uuid") {
		node = "node_uuid" // which is older, and wins
	}
	switch {
	case r.Query.Has("conductor_groups") && given(r, node, "portgroup", "address") > 0:
		return q, p, wire.Invalid("Filtering by conductor_groups cannot be combined with node_ident, portgroup_ident, or node address filters.")
	case given(r, node, "portgroup", "shard") > 1:
		return q, p, notTogether
	}
	if q.Address, err = addressOfQuery(r); err != nil {
		return q, p, err
	}
	if q.Shards, q.ConductorGroups, err = placesOfQuery(r); err != nil {
		return q, p, err
	}
	if ident := r.Query["portgroup"]; ident != "" {
		group, err := s.portgroupOf(r, ident)
		if err != nil {
			return q, p, err
		}
		q.Portgroups = []string{group.UUID}
	}
	q.DescriptionContains = r.Query["description_contains"]
	id, err := s.nodeOfQuery(r)
	if id != "" {
		q.Nodes = []string{id}
	}
	return q, p, err
}

// nodeOfQuery returns the UUID of the node that "node_uuid" or "node" names.
func (s *Server) nodeOfQuery(r *Request) (string, error) {
	ident, err := r.Query.UUID("node_uuid")
	if err != nil {
		return "", err
	}
	if ident == "" {
		ident = r.Query["node"]
		if _, isUUID := wire.UUID(ident); !isUUID && ident != "" && r.Version < wire.NameSince {
			return "", wire.NotAcceptable("A node's name as the argument node", wire.NameSince)
		}
	}
	if ident == "" {
		return "", nil
	}
	n, err := s.node(r, ident)
	if err != nil {
		return "", err
	}
	return n.UUID, nil
}

// nodePorts are the ports below a node's path.
func (s *Server) nodePorts() Resource {
	const policy = "baremetal:port:list"
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: "nodes/{node}/ports", Policy: policy, Handle: s.listNodePorts},
		{Method: http.MethodGet, Path: "nodes/{node}/ports/detail", Policy: policy, Handle: s.listNodePortsDetail},
	}}
}

func (s *Server) listNodePorts(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments("fields", "detail")...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, portTable, false, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	return s.portsOfNode(r, sel)
}

func (s *Server) listNodePortsDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments()...); err != nil {
		return Reply{}, err
	}
	return s.portsOfNode(r, portTable.All(r.Version))
}

func (s *Server) portsOfNode(r *Request, sel fields.Selection) (Reply, error) {
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if _, err := r.Query.UUID("node_uuid"); err != nil {
		return Reply{}, err
	}
	return s.portPage(r, sel, r.filtered("node", n.UUID, "node_uuid"))
}

// filtered is r as if its argument name were value, and without those that would stand for it: a
// list below something else is that of everything, filtered by what the path names.
func (r *Request) filtered(name, value string, instead ...string) *Request {
	asked := *r
	asked.Query = maps.Clone(r.Query)
	for _, other := range instead {
		delete(asked.Query, other)
	}
	asked.Query[name] = value
	return &asked
}
