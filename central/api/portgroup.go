package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

const (
	portgroupsSince microversion.Version = 23
	// portgroupLinksSince brought the lists of ports below portgroups and of
	// portgroups below nodes.
	portgroupLinksSince microversion.Version = 24
	// portgroupModeSince brought mode and properties.
	portgroupModeSince = 26
	// portgroupNetworkSince brought the physical network of portgroups, which is that of
	// their ports.
	portgroupNetworkSince microversion.Version = 102
	// defaultMode is the mode of a portgroup that is made without one.
	defaultMode = "active-backup"
)

// portgroupTable is every field of a portgroup.
var portgroupTable = fields.New("portgroup",
	fields.UUID("uuid", 23, func(p *store.Portgroup) *string { return &p.UUID }).Post().List().Sort(),
	fields.Text("name", 23, func(p *store.Portgroup) *string { return &p.Name }).KeepEmpty(func(p *store.Portgroup) fields.Empties { return &p.EmptyTexts }).Write().Max(255).List().Sort(),
	macAddress(23, func(p *store.Portgroup) *string { return &p.Address }).Write().List().Sort(),
	fields.Text("category", 103, func(p *store.Portgroup) *string { return &p.Category }).KeepEmpty(func(p *store.Portgroup) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Posting|fields.Patching|fields.Asking|fields.Sorting).Max(80).Sort(),
	fields.Time("created_at", 23, func(p *store.Portgroup) time.Time { return p.CreatedAt }).Sort(),
	fields.Computed("dynamic_portgroup", 111, func(p *store.Portgroup) any { return p.Dynamic }).Sort(),
	fields.Object("extra", 23, func(p *store.Portgroup) *map[string]any { return &p.Extra }).Write(),
	fields.Computed("internal_info", 23, func(p *store.Portgroup) any { return mask(p.InternalInfo) }),
	fields.Text("mode", portgroupModeSince, func(p *store.Portgroup) *string { return &p.Mode }).KeepEmpty(func(p *store.Portgroup) fields.Empties { return &p.EmptyTexts }).Write().Lenient().Max(255).Sort(),
	fields.UUID("node_uuid", 23, func(p *store.Portgroup) *string { return &p.Node }).Write().Must().Keep(), // which belongs to a node always
	fields.Text("physical_network", portgroupNetworkSince, func(p *store.Portgroup) *string { return &p.PhysicalNetwork }).KeepEmpty(func(p *store.Portgroup) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Posting|fields.Patching|fields.Asking|fields.Sorting).Max(64).Sort(),
	fields.Object("properties", portgroupModeSince, func(p *store.Portgroup) *map[string]any { return &p.Properties }).Write().Lenient(),
	fields.Bool("standalone_ports_supported", 23, true, func(p *store.Portgroup) *bool { return &p.StandalonePortsSupported }).Write().Sort(),
	fields.Time("updated_at", 23, func(p *store.Portgroup) time.Time { return p.UpdatedAt }).Sort(),
).Strict().Later("physical_network", "category").Order("uuid", "created_at", "updated_at", "address", "extra", "internal_info", "mode", "name", "properties",
	"standalone_ports_supported", "node_uuid", "physical_network", "category", "dynamic_portgroup").Columns(map[string]string{"node_id": "node"}).Choices("address", "category", "created_at", "dynamic_portgroup", "extra", "internal_info", "links", "mode", "name", "node_uuid", "physical_network", "ports", "properties", "standalone_ports_supported", "updated_at", "uuid")

func (s *Server) portgroups() Resource {
	const list, ports, one = "baremetal:portgroup:list", "baremetal:port:list", "portgroups/{portgroup}"
	const below = portgroupLinksSince
	c := s.portgroupCollection()
	return Resource{Name: "portgroups", Since: portgroupsSince, Routes: []Route{
		{Method: http.MethodGet, Path: "portgroups", Policy: list, Handle: c.list},
		{Method: http.MethodGet, Path: "portgroups/detail", Policy: list, Handle: c.listDetail},
		{Method: http.MethodPost, Path: "portgroups", Policy: "baremetal:portgroup:create", Handle: c.create},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:portgroup:get", Handle: c.show},
		{Method: http.MethodPatch, Path: one, Policy: "baremetal:portgroup:update", Handle: c.change},
		{Method: http.MethodDelete, Path: one, Policy: "baremetal:portgroup:delete", Handle: c.delete},
		{Method: http.MethodGet, Path: one + "/ports", Since: below, Policy: ports, Handle: s.listPortgroupPorts},
		{Method: http.MethodGet, Path: one + "/ports/detail", Since: below, Policy: ports, Handle: s.listPortgroupPortsDetail},
		{Method: http.MethodGet, Path: "nodes/{node}/portgroups", Since: below, Policy: list, Handle: c.below(s.portgroupsOfNode).list},
		{Method: http.MethodGet, Path: "nodes/{node}/portgroups/detail", Since: below, Policy: list, Handle: c.below(s.portgroupsOfNode).listDetail},
	}}
}

func (s *Server) portgroupCollection() *collection[store.Portgroup] {
	return &collection[store.Portgroup]{
		path: "portgroups", noun: "Portgroup", another: "A portgroup", item: "portgroup_ident", table: portgroupTable, fieldsSince: portgroupsSince, detailSince: 43,
		ident: nameOrUUID, misnamed: noPortgroupName, bySchema: []string{"sort_dir", "marker"},
		filters: map[string]microversion.Version{"address": 23, "node": 23, "conductor_groups": portgroupsSince, "shard": 106},
		store:   s.Store, find: s.Store.Portgroup, page: s.portgroupPage,
		read: (*store.Tx).Portgroup, insert: (*store.Tx).InsertPortgroup, update: (*store.Tx).UpdatePortgroup, remove: (*store.Tx).DeletePortgroup,
		fresh: func() *store.Portgroup {
			return &store.Portgroup{Mode: defaultMode, StandalonePortsSupported: true, Properties: map[string]any{}, Extra: map[string]any{}}
		},
		id:    func(p *store.Portgroup) *string { return &p.UUID },
		found: func(r *Request, p *store.Portgroup) error { return s.referenced(r, p.Node) },
		check: s.checkPortgroup, mayPatch: mayPatchPortgroup, relink: relinks(s, nodeOfPortgroup), node: nodeOfPortgroup, mayRemove: s.mayRemovePortgroup,
		more: func(b []byte, r *Request, p *store.Portgroup) []byte {
			return wire.AppendLinks(wire.AppendName(b, "ports"), r.Base, "portgroups/"+p.UUID+"/ports")
		},
	}
}

func nodeOfPortgroup(p *store.Portgroup) string { return p.Node }

// portgroupPage returns the portgroups that the request's filter admits.
func (s *Server) portgroupPage(r *Request, p store.Page) ([]*store.Portgroup, error) {
	q := store.PortgroupQuery{Page: p}
	if given(r, "node", "address", "shard", "conductor_groups") > 1 {
		return nil, wire.Invalid("Filtering by node, address, or shard simultaneously is not supported.")
	}
	var err error
	if q.Address, err = addressOfQuery(r); err != nil {
		return nil, schemaError(r.Query["address"], "is not a 'mac-address'")
	}
	if q.Shards, q.ConductorGroups, err = placesOfQuery(r); err != nil {
		return nil, err
	}
	if q.Nodes, err = s.nodesBySchema(r); err != nil {
		return nil, err
	}
	return s.Store.Portgroups(r.Context(), q)
}

// nodesOfQuery reads the filter "node": the UUID of the node, alone, or nil for all.
func (s *Server) nodesOfQuery(r *Request) ([]string, error) {
	ident, given := r.Query["node"]
	if !given {
		return nil, nil
	}
	if !wire.Logical(ident) {
		return nil, wire.Invalid("Expected UUID or name for node: %.80s", ident)
	}
	n, err := s.node(r, ident)
	if err != nil {
		return nil, err
	}
	return []string{n.UUID}, nil
}

// nodesBySchema is nodesOfQuery where Ironic describes the argument by a schema.
func (s *Server) nodesBySchema(r *Request) ([]string, error) {
	if ident, given := r.Query["node"]; given && !wire.Logical(ident) {
		return nil, schemaError(ident, "is not valid under any of the given schemas. Possible root cause: %s is not a 'uuid'", wire.Repr(ident))
	}
	return s.nodesOfQuery(r)
}

// portgroupsOfNode returns the portgroups of the path's node.
func (s *Server) portgroupsOfNode(r *Request, p store.Page) ([]*store.Portgroup, error) {
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return nil, err
	}
	return s.portgroupPage(r.filtered("node", n.UUID), p)
}

// given counts the arguments among names that say something.
func given(r *Request, names ...string) (n int) {
	for _, name := range names {
		if r.Query.Has(name) {
			n++
		}
	}
	return n
}

// addressOfQuery reads the filter "address"; empty for none.
func addressOfQuery(r *Request) (string, error) {
	if _, given := r.Query["address"]; !given {
		return "", nil
	}
	mac, valid := wire.MAC(r.Query["address"])
	if !valid {
		return "", wire.Invalid("Expected valid MAC address for address: %.40s", r.Query["address"])
	}
	return mac, nil
}

// placesOfQuery reads the filters by shard and conductor group of the node.
func placesOfQuery(r *Request) (shards, groups []string, err error) {
	if r.Query.Has("shard") {
		if shards, err = r.Query.Words("shard"); err != nil {
			return nil, nil, err
		}
	}
	if groups, err = r.Query.Words("conductor_groups"); err != nil {
		return nil, nil, err
	}
	for i, group := range groups {
		groups[i] = strings.ToLower(group)
	}
	return shards, groups, nil
}

// noPortgroupName says that a path names a portgroup by what can be none's name.
func noPortgroupName(ident string) error {
	return wire.FrameworkError(http.StatusBadRequest, fmt.Sprintf("Expected UUID or name for portgroup: %.80s", ident))
}

// portgroupOf returns the portgroup that an argument or a path names.
func (s *Server) portgroupOf(r *Request, ident string) (*store.Portgroup, error) {
	checked, err := nameOrUUID(r, ident)
	switch {
	case err != nil && r.Query["portgroup"] == ident:
		return nil, wire.Invalid("Expected UUID or name for portgroup: %.80s", ident)
	case err != nil:
		return nil, noPortgroupName(ident)
	}
	p, err := s.Store.Portgroup(r.Context(), checked)
	if err != nil {
		return nil, s.portgroupCollection().missing(checked, err)
	}
	return p, nil
}

func (s *Server) listPortgroupPorts(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments("fields", "detail")...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, portTable, false, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	return s.portsOfPortgroup(r, sel)
}

func (s *Server) listPortgroupPortsDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(portArguments()...); err != nil {
		return Reply{}, err
	}
	return s.portsOfPortgroup(r, portTable.All(r.Version))
}

func (s *Server) portsOfPortgroup(r *Request, sel fields.Selection) (Reply, error) {
	p, err := s.portgroupOf(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	return s.portPage(r, sel, r.filtered("portgroup", p.UUID))
}
