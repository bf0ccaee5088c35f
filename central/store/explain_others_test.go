//go:build !race

package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/store"
)

// fillWorks gives some nodes of fillNodes open work, and many some that has ended.
const fillWorks = `INSERT INTO works (id, node, state, owner, generation, verb, entry, requested_at) SELECT 'w' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad(i::text, 12, '0'),
	CASE WHEN i % 200 = 0 THEN 'open' ELSE 'ended' END, 'rack-' || i % 40, 1, 'deploy', 'deploying', i FROM generate_series(1, 100000) AS i`

// fillOthers makes what belongs to the nodes of fillNodes: 100,000 rows of each kind.
var fillOthers = []string{
	fillWorks,
	`INSERT INTO ports (uuid, node, created_at, address, name, portgroup_uuid)
SELECT 'p' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad((i / 2 + 1)::text, 12, '0'), i / 3, 'a' || i,
	CASE WHEN i % 10 = 0 THEN 'port-' || i ELSE '' END, CASE WHEN i % 2 = 0 THEN 'g' || lpad(i::text, 12, '0') ELSE '' END FROM generate_series(1, 100000) AS i`,
	`INSERT INTO portgroups (uuid, node, created_at, address, name)
SELECT 'g' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad(i::text, 12, '0'), i / 3, 'a' || i, 'bond-' || i FROM generate_series(1, 100000) AS i`,
	`INSERT INTO volume_connectors (uuid, node, created_at, type, connector_id)
SELECT 'c' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad(i::text, 12, '0'), i / 3, 'iqn', 'iqn-' || i FROM generate_series(1, 100000) AS i`,
	`INSERT INTO volume_targets (uuid, node, created_at, volume_type, volume_id, boot_index)
SELECT 't' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad(i::text, 12, '0'), i / 3, 'iscsi', 'v' || i, 0 FROM generate_series(1, 100000) AS i`,
	`INSERT INTO allocations (uuid, node, created_at, name, state, resource_class, owner)
SELECT 'l' || lpad(i::text, 12, '0'), CASE WHEN i % 100 = 0 THEN '' ELSE '00000000-0000-0000-0000-' || lpad(i::text, 12, '0') END, i / 3, 'alloc-' || i,
	CASE WHEN i % 100 = 0 THEN 'error' ELSE 'active' END, 'class-' || i % 20, 'o' || i % 80 FROM generate_series(1, 100000) AS i`,
	`INSERT INTO node_history (uuid, node, created_at, severity, event_type, work)
SELECT 'h' || lpad(i::text, 12, '0'), '00000000-0000-0000-0000-' || lpad((i % 1000)::text, 12, '0'), i, CASE WHEN i % 50 = 0 THEN 'ERROR' ELSE 'INFO' END, 'transition', 'w' || i / 10
FROM generate_series(1, 100000) AS i`,
	`INSERT INTO audit (uuid, created_at, request_id, user_name, user_id, project, client, action, method, path, resource, object, node, status, result, error)
SELECT 'u' || lpad(i::text, 12, '0'), i, 'req-' || i, 'user-' || i % 50, '', '', '', 'baremetal:node:update', 'PATCH', '', 'node', 'n' || i % 1000, 'n' || i % 1000, 200, 'accepted', ''
FROM generate_series(1, 100000) AS i`,
	`INSERT INTO chassis (uuid, created_at, description) SELECT 's' || lpad(i::text, 12, '0'), i / 3, 'rack ' || i FROM generate_series(1, 100000) AS i`,
	`INSERT INTO deploy_templates (uuid, created_at, name) SELECT 'd' || lpad(i::text, 12, '0'), i / 3, 'CUSTOM_' || i FROM generate_series(1, 100000) AS i`,
	`INSERT INTO runbooks (uuid, created_at, name, public, owner)
SELECT 'r' || lpad(i::text, 12, '0'), i / 3, 'CUSTOM_' || i, i % 1000 = 0, CASE WHEN i % 10 = 0 THEN '' WHEN i = 77777 THEN 'rare' ELSE 'o' || i % 80 END FROM generate_series(1, 100000) AS i`,
	`INSERT INTO inspection_rules (uuid, created_at, description, priority, phase)
SELECT 'i' || lpad(i::text, 12, '0'), i / 3, 'rule ' || i, i % 100, CASE WHEN i = 77777 THEN 'early' ELSE 'main' END FROM generate_series(1, 100000) AS i`,
}

// explainOthers asks how PostgreSQL answers a page of each list besides that of nodes,
// under each filter by which clients ask, from the start and from a marker.
func explainOthers(t *testing.T, c *pgx.Conn) {
	node := []string{"00000000-0000-0000-0000-000000050000"}
	ports := func(narrow func(*store.PortQuery)) func(store.Page) (string, []any, error) {
		return func(p store.Page) (string, []any, error) {
			q := store.PortQuery{Page: p}
			narrow(&q)
			return store.PortsStatement(q)
		}
	}
	portgroups := func(q store.PortgroupQuery) func(store.Page) (string, []any, error) {
		return func(p store.Page) (string, []any, error) {
			p.Project, q.Page = q.Project, p
			return store.PortgroupsStatement(q)
		}
	}
	allocations := func(q store.AllocationQuery) func(store.Page) (string, []any, error) {
		return func(p store.Page) (string, []any, error) {
			p.Project, q.Page = q.Project, p
			return store.AllocationsStatement(q)
		}
	}
	project := store.Page{Project: "o8"}
	for _, list := range []struct {
		what, table, marker string
		statement           func(store.Page) (string, []any, error)
		sorts               []string // besides the usual order
		// joins: PostgreSQL may join all ports behind a marker with the project's nodes,
		// instead of walking on from the marker until the page is full.
		joins bool
	}{
		{"all", "ports", "p000000050000", ports(func(*store.PortQuery) {}), []string{"uuid", "address"}, false},
		{"of a node", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.Nodes = node }), nil, false},
		{"by address", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.Address = "a77" }), nil, false},
		{"of a portgroup", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.Portgroups = []string{"g000000050000"} }), nil, false},
		{"of a shard", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.Shards = []string{"s3"} }), nil, false},
		{"of a conductor group", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.ConductorGroups = []string{"g1"} }), nil, false},
		{"of a project", "ports", "p000000050000", ports(func(q *store.PortQuery) { q.Project = "o8" }), nil, true},
		{"all", "portgroups", "g000000050000", portgroups(store.PortgroupQuery{}), []string{"uuid"}, false},
		{"of a node", "portgroups", "g000000050000", portgroups(store.PortgroupQuery{Nodes: node}), nil, false},
		{"by address", "portgroups", "g000000050000", portgroups(store.PortgroupQuery{Address: "a77"}), nil, false},
		{"of a project", "portgroups", "g000000050000", portgroups(store.PortgroupQuery{Page: project}), nil, false},
		{"all", "volume_connectors", "c000000050000", func(p store.Page) (string, []any, error) {
			return store.VolumeConnectorsStatement(store.VolumeQuery{Page: p})
		}, []string{"uuid"}, false},
		{"of a node", "volume_connectors", "c000000050000", func(p store.Page) (string, []any, error) {
			return store.VolumeConnectorsStatement(store.VolumeQuery{Page: p, Nodes: node})
		}, nil, false},
		{"all", "volume_targets", "t000000050000", func(p store.Page) (string, []any, error) {
			return store.VolumeTargetsStatement(store.VolumeQuery{Page: p})
		}, []string{"uuid"}, false},
		{"of a node", "volume_targets", "t000000050000", func(p store.Page) (string, []any, error) {
			return store.VolumeTargetsStatement(store.VolumeQuery{Page: p, Nodes: node})
		}, nil, false},
		{"all", "allocations", "l000000050000", allocations(store.AllocationQuery{}), []string{"uuid"}, false},
		{"of a node", "allocations", "l000000050000", allocations(store.AllocationQuery{Node: node[0]}), nil, false},
		{"in error", "allocations", "l000000050000", allocations(store.AllocationQuery{State: "error"}), nil, false},
		{"active", "allocations", "l000000050000", allocations(store.AllocationQuery{State: "active"}), nil, false},
		{"of a class", "allocations", "l000000050000", allocations(store.AllocationQuery{ResourceClass: "class-3"}), nil, false},
		{"of an owner", "allocations", "l000000050000", allocations(store.AllocationQuery{Owner: "o7"}), nil, false},
		{"of a project", "allocations", "l000000050000", allocations(store.AllocationQuery{Page: project}), nil, false},
		{"of a node", "node_history", "h000000050007", func(p store.Page) (string, []any, error) {
			return store.HistoryStatement(store.HistoryQuery{Page: p, Node: "00000000-0000-0000-0000-000000000007"})
		}, nil, false},
		{"errors of a node", "node_history", "h000000050007", func(p store.Page) (string, []any, error) {
			return store.HistoryStatement(store.HistoryQuery{Page: p, Node: "00000000-0000-0000-0000-000000000050", Severity: "ERROR"})
		}, nil, false},
		{"all", "audit", "u000000050000", func(p store.Page) (string, []any, error) { return store.AuditStatement(store.AuditQuery{Page: p}) }, nil, false},
		{"of a node", "audit", "u000000050000", func(p store.Page) (string, []any, error) {
			return store.AuditStatement(store.AuditQuery{Page: p, Node: "n7"})
		}, nil, false},
		{"in the history of a node", "audit", "u000000050000", func(p store.Page) (string, []any, error) {
			return store.DeedsStatement("n7", p)
		}, nil, false},
		{"of an object", "audit", "u000000050000", func(p store.Page) (string, []any, error) {
			return store.AuditStatement(store.AuditQuery{Page: p, Object: "n7"})
		}, nil, false},
		{"of a user", "audit", "u000000050000", func(p store.Page) (string, []any, error) {
			return store.AuditStatement(store.AuditQuery{Page: p, User: "user-7"})
		}, nil, false},
		{"all", "chassis", "s000000050000", store.ChassisStatement, []string{"uuid"}, false},
		{"all", "deploy_templates", "d000000050000", store.DeployTemplatesStatement, []string{"uuid", "name"}, false},
		{"all", "runbooks", "r000000050000", func(p store.Page) (string, []any, error) {
			return store.RunbooksStatement(store.RunbookQuery{Page: p})
		}, []string{"uuid", "name"}, false},
		{"of a project", "runbooks", "r000000050000", func(p store.Page) (string, []any, error) {
			return store.RunbooksStatement(store.RunbookQuery{Page: p, Project: "o7"})
		}, []string{"uuid", "name"}, false},
		{"of a project that has few", "runbooks", "r000000050000", func(p store.Page) (string, []any, error) {
			return store.RunbooksStatement(store.RunbookQuery{Page: p, Project: "rare"})
		}, nil, false},
		{"all", "inspection_rules", "i000000050000", func(p store.Page) (string, []any, error) {
			return store.InspectionRulesStatement(store.InspectionRuleQuery{Page: p})
		}, []string{"uuid"}, false},
		{"of a phase", "inspection_rules", "i000000050000", func(p store.Page) (string, []any, error) {
			return store.InspectionRulesStatement(store.InspectionRuleQuery{Page: p, Phase: "early"})
		}, nil, false},
	} {
		for _, key := range append(list.sorts, "") {
			for _, marker := range []string{"", list.marker} {
				for _, desc := range []bool{false, true} {
					stmt, args, err := list.statement(store.Page{Limit: 100, SortKey: key, Marker: marker, Desc: desc})
					if err != nil {
						t.Fatal(err)
					}
					plan := explain(t, c, stmt, args)
					if plan.sequential(list.table) > 0 || !list.joins && plan.read(list.table) > 100_000/7 {
						t.Errorf("%s %s, sort %q, marker %t, desc %t: reads %.0f rows, %d times all of them\n%s", list.table, list.what, key, marker != "", desc,
							plan.read(list.table), plan.sequential(list.table), stmt)
					}
				}
			}
		}
	}
}
