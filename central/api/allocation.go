package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/allocation"
	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// The versions that brought parts of allocations.
const (
	allocationsSince        microversion.Version = 52
	allocationUpdateSince   microversion.Version = 57
	allocationBackfillSince microversion.Version = 58
	allocationOwnerSince    microversion.Version = 60
)

// allocationTable is every field of an allocation.
var allocationTable = fields.New("allocation",
	fields.UUID("uuid", allocationsSince, func(a *store.Allocation) *string { return &a.UUID }).Post().Sort(),
	fields.Text("name", allocationsSince, func(a *store.Allocation) *string { return &a.Name }).KeepEmpty(func(a *store.Allocation) fields.Empties { return &a.EmptyTexts }).Write().Sort().Where(allocationName),
	fields.Said("node_uuid", allocationsSince, func(a *store.Allocation) string { return a.Node }),
	fields.Text("resource_class", allocationsSince, func(a *store.Allocation) *string { return &a.ResourceClass }).Post().Max(80).Sort(),
	fields.Computed("state", allocationsSince, func(a *store.Allocation) any { return string(a.State) }).Sort(),
	fields.Said("last_error", allocationsSince, func(a *store.Allocation) string { return a.LastError }).Sort(),
	fields.Strings("traits", allocationsSince, func(a *store.Allocation) *[]string { return &a.Traits }).Post().Each(checkTrait),
	fields.Strings("candidate_nodes", allocationsSince, func(a *store.Allocation) *[]string { return &a.Candidates }).Post().Each(checkNodeIdent),
	fields.Object("extra", allocationsSince, func(a *store.Allocation) *map[string]any { return &a.Extra }).Write(),
	fields.Text("owner", allocationOwnerSince, func(a *store.Allocation) *string { return &a.Owner }).Post().Max(255).Sort().Early(fields.Sorting),
	fields.Time("created_at", allocationsSince, func(a *store.Allocation) time.Time { return a.CreatedAt }).Sort(),
	fields.Time("updated_at", allocationsSince, func(a *store.Allocation) time.Time { return a.UpdatedAt }).Sort(),
).Called("").Later("extra").Order("uuid", "created_at", "updated_at", "candidate_nodes", "extra", "last_error", "name", "owner", "resource_class", "state",
	"traits", "links", "node_uuid").Columns(map[string]string{"node_id": "node", "conductor_affinity": "id"}).Choices("candidate_nodes", "created_at", "extra", "last_error", "links", "name", "node_uuid", "resource_class", "state", "traits", "updated_at", "uuid", "owner").Dated()

// checkNodeIdent admits what can be the UUID or the name of a node.
func checkNodeIdent(ident string) error {
	if _, isUUID := wire.UUID(ident); isUUID || wire.Logical(ident) {
		return nil
	}
	text := wire.Repr(ident)
	return fmt.Errorf("%.100s is not valid under any of the given schemas. Possible root cause: %.100s is not a 'uuid'", text, text)
}

// allocationName admits the name of an allocation.
func allocationName(v any) error {
	if name, _ := v.(string); name != "" && !wire.Logical(name) {
		return wire.Invalid("Cannot create allocation with invalid name '%.80s'", name)
	}
	return nil
}

// mayPatchAllocation refuses names that are none, as a change's.
func mayPatchAllocation(_ *Request, ops []patch.Op, _ *store.Allocation) error {
	for _, op := range ops {
		if op.Path == "/name" && op.Kind != patch.Remove && allocationName(op.Value) != nil {
			return wire.Invalid("Cannot update allocation with invalid name '%.80s'", op.Value)
		}
	}
	return nil
}

func (s *Server) allocations() Resource {
	const all, one, late = "allocations", "allocations/{allocation}", http.StatusMethodNotAllowed
	c := s.allocationCollection()
	return Resource{Name: all, Since: allocationsSince, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: "baremetal:allocation:list", Handle: c.list},
		{Method: http.MethodPost, Path: all, Late: late, Policy: "baremetal:allocation:create", Last: createForOthers, Handle: s.createAllocation},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:allocation:get", Handle: c.show},
		{Method: http.MethodPatch, Path: one, Since: allocationUpdateSince, Late: late, Policy: "baremetal:allocation:update", Handle: c.change},
		{Method: http.MethodDelete, Path: one, Late: late, Policy: "baremetal:allocation:delete", Handle: c.delete},
	}}
}

func (s *Server) allocationCollection() *collection[store.Allocation] {
	return &collection[store.Allocation]{
		path: "allocations", noun: "Allocation", another: "An allocation", item: "allocation_ident", misnamed: notLogical, table: allocationTable, fieldsSince: allocationsSince, plain: true, ident: nameOrUUID,
		bySchema: []string{"sort_dir", "marker"},
		filters: map[string]microversion.Version{"node": allocationsSince, "resource_class": allocationsSince, "state": allocationsSince,
			"owner": allocationOwnerSince},
		store: s.Store, find: s.Store.Allocation, page: s.allocationPage,
		read: (*store.Tx).Allocation, insert: (*store.Tx).InsertAllocation, update: (*store.Tx).UpdateAllocation,
		remove: func(tx *store.Tx, ctx context.Context, a *store.Allocation) error {
			return allocation.Remove(ctx, tx, a)
		},
		fresh:    func() *store.Allocation { return &store.Allocation{} },
		id:       func(a *store.Allocation) *string { return &a.UUID },
		mayPatch: mayPatchAllocation, parsePatch: patch.ParseFree,
	}
}

func (s *Server) allocationPage(r *Request, p store.Page) ([]*store.Allocation, error) {
	q := store.AllocationQuery{Page: p, ResourceClass: r.Query["resource_class"], State: r.Query["state"], Owner: r.Query["owner"]}
	nodes, err := s.nodesBySchema(r)
	if err != nil {
		return nil, asInvalid(err)
	}
	for _, name := range []string{"resource_class", "state", "owner"} {
		if value, given := r.Query[name]; given && value == "" {
			return nil, nil // none has an empty text there
		}
	}
	if len(nodes) > 0 {
		q.Node = nodes[0]
	}
	list, err := s.Store.Allocations(r.Context(), q)
	if err != nil {
		return nil, err
	}
	for _, a := range list { // who may list need not be one who may read: a project's service
		if err := r.allowed(readAllocations, allocationTarget(a)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// asInvalid turns the 404 of something that a request refers to into a 400.
func asInvalid(err error) error {
	if e := wire.AsError(err); e.Status == http.StatusNotFound {
		return wire.Invalid("%s", e.Text)
	}
	return err
}
