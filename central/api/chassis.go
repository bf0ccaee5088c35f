package api

import (
	"context"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// chassisTable is every field of a chassis.
var chassisTable = fields.New("chassis",
	fields.UUID("uuid", 1, func(c *store.Chassis) *string { return &c.UUID }).Post().List().Sort(),
	fields.Time("created_at", 1, func(c *store.Chassis) time.Time { return c.CreatedAt }).Sort(),
	fields.Text("description", 1, func(c *store.Chassis) *string { return &c.Description }).KeepEmpty(func(c *store.Chassis) fields.Empties { return &c.EmptyTexts }).Write().Max(255).List().Sort(),
	fields.Object("extra", 1, func(c *store.Chassis) *map[string]any { return &c.Extra }).Write(),
	fields.Time("updated_at", 1, func(c *store.Chassis) time.Time { return c.UpdatedAt }).Sort(),
).Order("uuid", "created_at", "updated_at", "description", "extra").Choices("created_at", "description", "extra", "links", "nodes", "updated_at", "uuid")

func (s *Server) chassis() Resource {
	const one = "chassis/{chassis}"
	c := s.chassisCollection()
	return Resource{Name: "chassis", Routes: []Route{
		{Method: http.MethodGet, Path: "chassis", Policy: "baremetal:chassis:get", Handle: c.list},
		{Method: http.MethodGet, Path: "chassis/detail", Policy: "baremetal:chassis:get", Handle: c.listDetail},
		{Method: http.MethodPost, Path: "chassis", Policy: "baremetal:chassis:create", Handle: c.create},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:chassis:get", Handle: c.show},
		{Method: http.MethodPatch, Path: one, Policy: "baremetal:chassis:update", Handle: c.change},
		{Method: http.MethodDelete, Path: one, Policy: "baremetal:chassis:delete", Handle: c.delete},
		{Method: http.MethodGet, Path: one + "/nodes", Policy: "baremetal:node:list", Handle: s.listChassisNodes},
		{Method: http.MethodGet, Path: one + "/nodes/detail", Policy: "baremetal:node:list", Handle: s.listChassisNodesDetail},
	}}
}

func (s *Server) chassisCollection() *collection[store.Chassis] {
	return &collection[store.Chassis]{
		path: "chassis", noun: "Chassis", another: "A chassis", item: "chassis_uuid", pathBySchema: []string{http.MethodPatch}, stamps: true, table: chassisTable, fieldsSince: 8, detailSince: 43, bySchema: []string{"sort_dir"},
		store: s.Store, find: s.Store.Chassis,
		page: func(r *Request, p store.Page) ([]*store.Chassis, error) { return s.Store.ChassisPage(r.Context(), p) },
		read: (*store.Tx).Chassis, insert: (*store.Tx).InsertChassis, update: (*store.Tx).UpdateChassis, remove: removeChassis,
		fresh: func() *store.Chassis { return &store.Chassis{Extra: map[string]any{}} },
		id:    func(c *store.Chassis) *string { return &c.UUID },
		more: func(b []byte, r *Request, c *store.Chassis) []byte {
			// A list within a list, as Ironic answers and its clients know it.
			b = wire.AppendLinks(append(wire.AppendName(b, "nodes"), '['), r.Base, "chassis/"+c.UUID+"/nodes")
			return append(b, ']')
		},
	}
}

// removeChassis refuses to remove a chassis that has nodes.
func removeChassis(tx *store.Tx, ctx context.Context, c *store.Chassis) error {
	used, err := tx.ChassisInUse(ctx, c.UUID)
	if err != nil {
		return err
	}
	if used {
		return wire.Invalid("Cannot complete the requested action because chassis %s contains nodes.", c.UUID).Detailed("remove them, or unset their chassis_uuid, first")
	}
	return tx.DeleteChassis(ctx, c)
}

// listChassisNodes answers a page of the nodes of a chassis.
func (s *Server) listChassisNodes(r *Request) (Reply, error) {
	sel, err := selectListed(r)
	if err != nil {
		return Reply{}, err
	}
	return s.nodesOfChassis(r, sel)
}

// listChassisNodesDetail is the older form of listChassisNodes with detail=True.
func (s *Server) listChassisNodesDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(nodeArguments()...); err != nil {
		return Reply{}, err
	}
	return s.nodesOfChassis(r, nodeTable.All(r.Version))
}

func (s *Server) nodesOfChassis(r *Request, sel fields.Selection) (Reply, error) {
	id, isUUID := wire.UUID(r.Param(0))
	if !isUUID {
		return Reply{}, wire.Invalid("Expected UUID for chassis_uuid: %.80s", r.Param(0))
	}
	if _, err := s.Store.Chassis(r.Context(), id); err != nil {
		return Reply{}, s.chassisCollection().missing(id, err)
	}
	return s.nodePageOf(r, sel, r.listPath(), func(q *store.NodeQuery) { q.ChassisUUID = id })
}
