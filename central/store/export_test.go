package store

import (
	"context"
	"maps"
	"os"
	"slices"
)

// Planned prepares a connection to PostgreSQL as a store does.
var Planned = planned

// NodesStatement is the statement of a page of nodes that are shown, and its arguments.
func NodesStatement(q NodeQuery) (string, []any, error) { return nodesStatement(selectShown, q) }

// NodeParts are the statements of a page in an order of nodeOrders, each from its start or
// behind a node.
func NodeParts(q NodeQuery, after *Node) (list []string, args [][]any) {
	for _, having := range []bool{false, true} {
		stmt, a := nodeOrders[q.SortKey].part(selectShown, q, having, after)
		list, args = append(list, stmt), append(args, a)
	}
	return list, args
}

// InterfaceSort is the statement of a page that is sorted by a kind of interface.
func (s *Store) InterfaceSort(kind string, q NodeQuery, after *Node) (string, []any) {
	o, _ := s.nodeOrder(kind + "_interface")
	return o.part(selectShown, q, true, after)
}

// OrdersInParts are the keys of nodeOrders.
func OrdersInParts() []string { return slices.Sorted(maps.Keys(nodeOrders)) }

// NodeSorts are the keys by which nodes are sorted.
var NodeSorts = nodeSorts

// NodesIn is the statement of CountNodesIn.
var NodesIn = nodesIn

// PortsStatement is that of a page of ports.
func PortsStatement(q PortQuery) (string, []any, error) { return portsStatement(q) }

// HistoryStatement is that of a page of a node's history.
func HistoryStatement(q HistoryQuery) (string, []any, error) { return historyStatement(q) }

// AuditStatement is that of a page of the audit.
func AuditStatement(q AuditQuery) (string, []any, error) {
	stmt, args := auditStatement(q)
	return stmt, args, nil
}

// DeedsStatement is that of what a page of a node's history takes from the audit.
func DeedsStatement(node string, p Page) (string, []any, error) {
	var marker *instant
	if p.Marker != "" {
		marker = &instant{id: p.Marker, deed: true}
	}
	_, stmt, _, args := storyStatements(node, p, marker)
	return stmt, args, nil
}

// PortgroupsStatement is that of a page of portgroups, by default in order of creation.
func PortgroupsStatement(q PortgroupQuery) (string, []any, error) {
	return portgroups.pageStatement(q.filter, q.Page)
}

// VolumeConnectorsStatement is that of a page of volume connectors.
func VolumeConnectorsStatement(q VolumeQuery) (string, []any, error) {
	return volumeConnectors.pageStatement(q.filter, q.Page)
}

// VolumeTargetsStatement is that of a page of volume targets.
func VolumeTargetsStatement(q VolumeQuery) (string, []any, error) {
	return volumeTargets.pageStatement(q.filter, q.Page)
}

// AllocationsStatement is that of a page of allocations.
func AllocationsStatement(q AllocationQuery) (string, []any, error) {
	return allocations.pageStatement(q.narrow, q.Page)
}

// ChassisStatement is that of a page of chassis.
func ChassisStatement(p Page) (string, []any, error) { return chassis.pageStatement(none, p) }

// DeployTemplatesStatement is that of a page of deploy templates.
func DeployTemplatesStatement(p Page) (string, []any, error) {
	return deployTemplates.pageStatement(none, p)
}

// RunbooksStatement is that of a page of runbooks.
func RunbooksStatement(q RunbookQuery) (string, []any, error) {
	return runbooks.pageStatement(q.narrow, q.Page)
}

// InspectionRulesStatement is that of a page of inspection rules.
func InspectionRulesStatement(q InspectionRuleQuery) (string, []any, error) {
	return inspectionRules.pageStatement(q.narrow, q.Page)
}

func none(*filter) {}

// pageStatement is what page asks the database.
func (t *table[T]) pageStatement(narrow func(*filter), p Page) (string, []any, error) {
	var f filter
	narrow(&f)
	if p.SortKey == "" {
		p.SortKey = "created_at"
	}
	return t.selectAll + f.page(p, t.name, "t", p.SortKey), f.args, nil
}

// PlacePages does what opening SQLite does first.
func PlacePages() error { return placePages() }

// SyncLogsBy has the log of each SQLite database, a file of this name, synced by sync, which is given the
// real way. It is for before the first is opened.
func SyncLogsBy(sync func(name string, real func() error) error) {
	syncLogFile = func(f *os.File) error { return sync(f.Name(), func() error { return syncData(f) }) }
}

// Pragma sets something of the connection that writes to SQLite.
func (s *Store) Pragma(ctx context.Context, text string) error {
	w := s.engine.(*sqliteEngine).writer
	<-w.free
	defer func() { w.free <- struct{}{} }()
	if err := w.open(ctx); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(ctx, "PRAGMA "+text)
	return err
}

// Setting is what the database's connections have for one of its settings.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	r, err := s.engine.query(ctx, "SELECT current_setting($1)", name)
	return value, scanAll(r, err, func(r rows) error { return r.Scan(&value) })
}
