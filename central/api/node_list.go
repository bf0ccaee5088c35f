package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// nodeFilters are the arguments that filter a list of nodes, with the version that
// brought each.
var nodeFilters = map[string]microversion.Version{
	"chassis_uuid": 1, "instance_uuid": 1, "associated": 1, "maintenance": 1, "provision_state": 9, "driver": 16,
	"resource_class": 21, "fault": 42, "conductor_group": 46, "conductor": 49, "owner": 50, "description_contains": 1,
	"retired": 1, "lessee": 65, "project": 1, "shard": 82, "sharded": 82, "include_children": 83, "parent_node": 83,
	"instance_name": 104,
}

// filledFilters are those by what a node has as a text or has not at all.
var filledFilters = []string{"driver", "instance_name", "lessee", "owner", "parent_node", "project", "resource_class"}

// faults are the values of the filter of that name.
var faults = []string{"power failure", "clean failure", "rescue abort failure", "service failure"}

func (s *Server) listNodes(r *Request) (Reply, error) {
	watch, err := watches(r)
	if err != nil {
		return Reply{}, err
	}
	if watch {
		sel, err := selectFields(r, nodeTable, false, 8, 43)
		if err != nil {
			return Reply{}, err
		}
		return s.watchNodes(r, sel)
	}
	sel, err := selectListed(r)
	if err != nil {
		return Reply{}, err
	}
	return s.nodePage(r, sel, "nodes")
}

// selectListed is selectFields for a list of nodes. Their conductors are shown in details
// only; Ironic answers with status 500 who asks for them among other fields.
func selectListed(r *Request) (fields.Selection, error) {
	sel, err := selectFields(r, nodeTable, false, 8, 43)
	if err == nil && slices.Contains(r.Query.List("fields"), "conductor") {
		err = wire.Invalid("Field conductor cannot be asked for in a list of nodes. Ask for their details, or for one of them.")
	}
	return sel, err
}

func (s *Server) listNodesDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(nodeArguments("")...); err != nil {
		return Reply{}, err
	}
	return s.nodePage(r, nodeTable.All(r.Version), "nodes/detail")
}

func nodeArguments(more ...string) []string {
	names := append(slices.Clone(wire.PageArguments), more...)
	for name := range nodeFilters {
		names = append(names, name)
	}
	return names
}

func (s *Server) nodePage(r *Request, sel fields.Selection, path string) (Reply, error) {
	return s.nodePageOf(r, sel, path, func(*store.NodeQuery) {})
}

// nodePageOf answers a page of the nodes that the request's filters, narrowed by
// narrow, admit.
func (s *Server) nodePageOf(r *Request, sel fields.Selection, path string, narrow func(*store.NodeQuery)) (Reply, error) {
	if err := r.Query.Allow(nodeArguments("fields", "detail")...); err != nil {
		return Reply{}, err
	}
	q, p, err := s.nodeQuery(r)
	if err != nil {
		return Reply{}, err
	}
	for _, name := range filledFilters {
		if value, given := r.Query[name]; given && value == "" && (name != "parent_node" || !q.IncludeChildren) {
			return ok([]byte(`{"nodes":[]}`)) // none has an empty text there
		}
	}
	narrow(&q)
	page := &nodePage{s: s, r: r, keeps: r.keeps(sel)}
	if !page.keeps {
		page.body = append(s.buffer(), beforeNodes...)
	}
	if err = s.readPage(page, q, sel); errors.Is(err, store.ErrNotFound) {
		return Reply{}, wire.Errorf(http.StatusNotFound, "Node %s could not be found.", p.Marker)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	tail := []byte{']'}
	if page.count == p.Limit && q.InstanceUUID == "" {
		tail = wire.AppendString(wire.AppendName(tail, "next"), nextLink(r, nodeTable, sel, 8, path, p, page.last))
	}
	page.tail = append(tail, '}')
	if page.keeps {
		return Reply{Status: http.StatusOK, Long: page}, nil
	}
	return lent(append(page.body, page.tail...))
}

// nodeQuery reads the filters and the page.
func (s *Server) nodeQuery(r *Request) (store.NodeQuery, wire.Page, error) {
	var q store.NodeQuery
	p, err := r.Query.Page("id")
	if err != nil {
		return q, p, err
	}
	if err := checkMarkerGiven(r); err != nil {
		return q, p, err
	}
	for name, since := range nodeFilters {
		if _, given := r.Query[name]; given && r.Version < since {
			return q, p, newFilter(name, since)
		}
	}
	if err := nodeTable.CheckSort(r.Version, p.SortKey); err != nil {
		return q, p, err
	}
	if q.Page, err = storePage(p); err != nil {
		return q, p, err
	}
	q.SortKey = nodeTable.Column(p.SortKey)
	if q.Page.Project = r.Scope(); q.Page.Project != "" && q.Marker != "" {
		if _, err := s.node(r, q.Marker); err != nil {
			return q, p, err
		}
	}
	for name, at := range map[string]**bool{"associated": &q.Associated, "maintenance": &q.Maintenance, "retired": &q.Retired, "sharded": &q.Sharded} {
		if *at, err = r.Query.Bool(name); err != nil {
			return q, p, err
		}
	}
	for name, at := range map[string]*string{"chassis_uuid": &q.ChassisUUID, "instance_uuid": &q.InstanceUUID} {
		if *at, err = r.Query.UUID(name); err != nil {
			return q, p, err
		}
	}
	if q.ChassisUUID != "" {
		if _, err := s.Store.Chassis(r.Context(), q.ChassisUUID); err != nil {
			return q, p, s.chassisCollection().missing(q.ChassisUUID, err)
		}
	}
	if children, err := r.Query.Bool("include_children"); err != nil {
		return q, p, err
	} else if children != nil {
		q.IncludeChildren = *children
	}
	q.Driver, q.ResourceClass, q.InstanceName = r.Query["driver"], r.Query["resource_class"], r.Query["instance_name"]
	q.Owner, q.Lessee, q.Project = r.Query["owner"], r.Query["lessee"], r.Query["project"]
	if q.DescriptionContains = r.Query.Text("description_contains"); !q.IncludeChildren { // which says more than whose children
		q.ParentNode = r.Query["parent_node"]
	}
	if q.Shards, err = r.Query.Words("shard"); err != nil {
		return q, p, err
	}
	if group, given := r.Query["conductor_group"]; given {
		group = strings.ToLower(group)
		q.ConductorGroup = &group
	}
	if state, given := r.Query["provision_state"]; given {
		if _, known := provision.Describe(provision.State(state)); !known {
			return q, p, wire.Invalid("Provision state \"%.80s\" is not valid", state)
		}
		q.ProvisionState = &state
	}
	if fault, given := r.Query["fault"]; given {
		if !slices.Contains(faults, fault) {
			return q, p, wire.Invalid("Unrecognized fault \"%.80s\" is specified, allowed faults are ('%s')", fault, strings.Join(faults, "', '"))
		}
		q.Fault = &fault
	}
	return q, p, nil
}

// checkMarkerGiven refuses a marker that is empty.
func checkMarkerGiven(r *Request) error {
	if marker, given := r.Query["marker"]; given && marker == "" {
		return wire.Invalid("Expected UUID for marker: ")
	}
	return nil
}

// storePage turns a page of items that are marked by UUID into the store's.
func storePage(p wire.Page) (store.Page, error) {
	q := store.Page{Limit: p.Limit, SortKey: p.SortKey, Desc: p.Desc}
	if p.SortKey == "id" {
		q.SortKey = ""
	}
	if p.Marker != "" {
		id, ok := wire.UUID(p.Marker)
		if !ok {
			return q, wire.Invalid("Expected UUID for marker: %.80s", p.Marker)
		}
		q.Marker = id
	}
	return q, nil
}
