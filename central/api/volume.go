package api

import (
	"context"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

const volumesSince microversion.Version = 32

// connectorTable is every field of a volume connector.
var connectorTable = fields.New("volume connector",
	fields.UUID("uuid", 32, func(v *store.VolumeConnector) *string { return &v.UUID }).Post().List().Sort(),
	fields.Text("connector_id", 32, func(v *store.VolumeConnector) *string { return &v.ConnectorID }).NeverNull().Write().Must().Max(255).List().Sort(),
	fields.Time("created_at", 32, func(v *store.VolumeConnector) time.Time { return v.CreatedAt }).Sort(),
	fields.Object("extra", 32, func(v *store.VolumeConnector) *map[string]any { return &v.Extra }).Write(),
	fields.UUID("node_uuid", 32, func(v *store.VolumeConnector) *string { return &v.Node }).Write().Must().Keep().List(), // which belongs to a node always
	fields.Text("type", 32, func(v *store.VolumeConnector) *string { return &v.Type }).NeverNull().Write().Must().Max(32).List().Sort(),
	fields.Time("updated_at", 32, func(v *store.VolumeConnector) time.Time { return v.UpdatedAt }).Sort(),
).Called("connector").Order("uuid", "created_at", "updated_at", "connector_id", "extra", "type", "links", "node_uuid").
	Columns(map[string]string{"node_id": "node"}).Choices("connector_id", "created_at", "extra", "links", "node_uuid", "type", "updated_at", "uuid")

// targetTable is every field of a volume target.
var targetTable = fields.New("volume target",
	fields.UUID("uuid", 32, func(v *store.VolumeTarget) *string { return &v.UUID }).Post().List().Sort(),
	fields.Int("boot_index", 32, func(v *store.VolumeTarget) *int64 { return &v.BootIndex }).Write().Must().List().Sort(),
	fields.Time("created_at", 32, func(v *store.VolumeTarget) time.Time { return v.CreatedAt }).Sort(),
	fields.Object("extra", 32, func(v *store.VolumeTarget) *map[string]any { return &v.Extra }).Write(),
	fields.UUID("node_uuid", 32, func(v *store.VolumeTarget) *string { return &v.Node }).Write().Must().Keep().List(), // which belongs to a node always
	fields.Object("properties", 32, func(v *store.VolumeTarget) *map[string]any { return &v.Properties }).Write().
		Show(func(v *store.VolumeTarget) any { return mask(v.Properties) }),
	fields.Time("updated_at", 32, func(v *store.VolumeTarget) time.Time { return v.UpdatedAt }).Sort(),
	fields.Text("volume_id", 32, func(v *store.VolumeTarget) *string { return &v.VolumeID }).NeverNull().Write().Must().Max(36).List().Sort(),
	fields.Text("volume_type", 32, func(v *store.VolumeTarget) *string { return &v.VolumeType }).NeverNull().Write().Must().Max(64).List().Sort(),
).Called("target").Order("uuid", "created_at", "updated_at", "boot_index", "extra", "properties", "volume_id", "volume_type", "links", "node_uuid").
	Columns(map[string]string{"node_id": "node"}).Choices("boot_index", "created_at", "extra", "links", "node_uuid", "properties", "updated_at", "uuid", "volume_id", "volume_type")

func (s *Server) volumes() Resource {
	const read, below = "baremetal:volume:get", "nodes/{node}/volume"
	connectors, targets := s.volumeConnectors(), s.volumeTargets()
	routes := []Route{
		{Method: http.MethodGet, Path: "volume", Summary: "Show where volume connectors and targets are", Policy: "baremetal:volume:list", Handle: s.volumeRoot, Shows: volumesAnswer},
		{Method: http.MethodGet, Path: below, Summary: "Show where the volume connectors and targets of a node are", Policy: "baremetal:volume:list", Handle: s.volumeRootOfNode, Shows: volumesAnswer},
		{Method: http.MethodGet, Path: below + "/connectors", Policy: "baremetal:volume:list", Handle: connectors.below(s.connectorsOfNode).list},
		{Method: http.MethodGet, Path: below + "/targets", Policy: "baremetal:volume:list", Handle: targets.below(s.targetsOfNode).list},
	}
	for _, r := range []struct {
		path                               string
		list, create, show, change, delete Handler
	}{
		{connectors.path, connectors.list, connectors.create, connectors.show, connectors.change, connectors.delete},
		{targets.path, targets.list, targets.create, targets.show, targets.change, targets.delete},
	} {
		one := r.path + "/{volume}"
		routes = append(routes,
			Route{Method: http.MethodGet, Path: r.path, Policy: "baremetal:volume:list", Handle: r.list},
			Route{Method: http.MethodPost, Path: r.path, Policy: "baremetal:volume:create", Handle: r.create},
			Route{Method: http.MethodGet, Path: one, Policy: read, Handle: r.show},
			Route{Method: http.MethodPatch, Path: one, Policy: "baremetal:volume:update", Handle: r.change},
			Route{Method: http.MethodDelete, Path: one, Policy: "baremetal:volume:delete", Handle: r.delete})
	}
	return Resource{Name: "volume", Since: volumesSince, Routes: routes}
}

// shownTarget is what a request sees of a target: its properties may hold what is needed
// to use the volume.
func shownTarget(r *Request, v *store.VolumeTarget) *store.VolumeTarget {
	if r.allowed("baremetal:volume:view_target_properties", nobodys) == nil {
		return v
	}
	shown := *v
	shown.Properties = map[string]any{"redacted_contents": "** Value redacted: Requires permission " +
		"baremetal:volume:view_target_properties access. Permission denied. **"}
	return &shown
}

func (s *Server) volumeConnectors() *collection[store.VolumeConnector] {
	return &collection[store.VolumeConnector]{
		path: "volume/connectors", noun: "Volume connector", another: "A volume connector", item: "connector_uuid", table: connectorTable, fieldsSince: volumesSince, detailSince: volumesSince, bySchema: []string{"sort_dir"},
		filters: map[string]microversion.Version{"node": volumesSince},
		store:   s.Store, find: s.Store.VolumeConnector,
		page: func(r *Request, p store.Page) ([]*store.VolumeConnector, error) {
			nodes, err := s.nodesOfQuery(r)
			if err != nil {
				return nil, err
			}
			return s.Store.VolumeConnectors(r.Context(), store.VolumeQuery{Page: p, Nodes: nodes})
		},
		read: (*store.Tx).VolumeConnector, insert: tellRacks((*store.Tx).InsertVolumeConnector, (*store.VolumeConnector).Nodes), update: tellRacks((*store.Tx).UpdateVolumeConnector, (*store.VolumeConnector).Nodes),
		remove: tellRacks((*store.Tx).DeleteVolumeConnector, (*store.VolumeConnector).Nodes),
		fresh:  func() *store.VolumeConnector { return &store.VolumeConnector{Extra: map[string]any{}} },
		id:     func(v *store.VolumeConnector) *string { return &v.UUID },
		check:  s.checkConnector, mayPatch: byUUID[store.VolumeConnector], relink: relinks(s, nodeOfConnector), node: nodeOfConnector, mayRemove: s.mayRemoveConnector,
	}
}

func (s *Server) volumeTargets() *collection[store.VolumeTarget] {
	return &collection[store.VolumeTarget]{
		path: "volume/targets", noun: "Volume target", another: "A volume target", item: "target_uuid", table: targetTable, fieldsSince: volumesSince, detailSince: volumesSince, bySchema: []string{"sort_dir"},
		filters: map[string]microversion.Version{"node": volumesSince},
		shown:   shownTarget,
		store:   s.Store, find: s.Store.VolumeTarget,
		page: func(r *Request, p store.Page) ([]*store.VolumeTarget, error) {
			nodes, err := s.nodesOfQuery(r)
			if err != nil {
				return nil, err
			}
			return s.Store.VolumeTargets(r.Context(), store.VolumeQuery{Page: p, Nodes: nodes})
		},
		read: (*store.Tx).VolumeTarget, insert: tellRacks((*store.Tx).InsertVolumeTarget, (*store.VolumeTarget).Nodes), update: tellRacks((*store.Tx).UpdateVolumeTarget, (*store.VolumeTarget).Nodes),
		remove: tellRacks((*store.Tx).DeleteVolumeTarget, (*store.VolumeTarget).Nodes),
		fresh: func() *store.VolumeTarget {
			return &store.VolumeTarget{Properties: map[string]any{}, Extra: map[string]any{}}
		},
		id:    func(v *store.VolumeTarget) *string { return &v.UUID },
		check: s.checkTarget, mayPatch: byUUID[store.VolumeTarget], relink: relinks(s, nodeOfTarget), node: nodeOfTarget, mayRemove: s.mayRemoveTarget,
	}
}

// tellRacks is a write of a volume, of which the racks of its nodes are told.
func tellRacks[T any](write func(*store.Tx, context.Context, *T) error, nodes func(*T) []string) func(*store.Tx, context.Context, *T) error {
	return func(tx *store.Tx, ctx context.Context, v *T) error {
		if err := write(tx, ctx, v); err != nil {
			return err
		}
		for _, id := range nodes(v) {
			n, err := tx.Node(ctx, id)
			if err != nil {
				return err
			}
			if err := tx.Tell(ctx, dispatch.Dirty(n)); err != nil {
				return err
			}
		}
		return nil
	}
}

func nodeOfConnector(v *store.VolumeConnector) string { return v.Node }

func nodeOfTarget(v *store.VolumeTarget) string { return v.Node }

func (s *Server) connectorsOfNode(r *Request, p store.Page) ([]*store.VolumeConnector, error) {
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return nil, err
	}
	return s.Store.VolumeConnectors(r.Context(), store.VolumeQuery{Page: p, Nodes: []string{n.UUID}})
}

func (s *Server) targetsOfNode(r *Request, p store.Page) ([]*store.VolumeTarget, error) {
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return nil, err
	}
	return s.Store.VolumeTargets(r.Context(), store.VolumeQuery{Page: p, Nodes: []string{n.UUID}})
}

func (s *Server) volumeRoot(r *Request) (Reply, error) {
	r.Scope() // there are only links here
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	return volumeLinks(r, "volume")
}

func (s *Server) volumeRootOfNode(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	if _, err := r.nodeIdent(r.Param(0)); err != nil {
		return Reply{}, err
	}
	r.Scope()                                            // there are only links here, of nodes that are not there as well
	return volumeLinks(r, "nodes/"+r.Param(0)+"/volume") // as it was asked for, as in Ironic
}

// volumeLinks answers where the two kinds of volume resource are.
func volumeLinks(r *Request, path string) (Reply, error) {
	b := wire.AppendLinks([]byte(`{"links":`), r.Base, path+"/")
	for _, kind := range []string{"connectors", "targets"} {
		b = wire.AppendLinks(wire.AppendName(b, kind), r.Base, path+"/"+kind)
	}
	return ok(append(b, '}'))
}
