//go:build !race

// The work is done by PostgreSQL; the race detector has nothing to see here.

package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
)

// filters are those of a list of nodes, with values that some nodes of many have.
// description_contains is not among them: no engine of ours has an index for it.
func filters() map[string]func(*store.NodeQuery) {
	yes, no, text := true, false, func(s string) *string { return &s }
	return map[string]func(*store.NodeQuery){
		"none":                func(*store.NodeQuery) {},
		"with children":       func(q *store.NodeQuery) { q.IncludeChildren = true },
		"uuid":                func(q *store.NodeQuery) { q.UUIDs = []string{"00000000-0000-0000-0000-000000000007"} },
		"instance_uuid":       func(q *store.NodeQuery) { q.InstanceUUID = "i20" },
		"instance_name":       func(q *store.NodeQuery) { q.InstanceName = "in20" },
		"associated":          func(q *store.NodeQuery) { q.Associated = &yes },
		"not associated":      func(q *store.NodeQuery) { q.Associated = &no },
		"maintenance":         func(q *store.NodeQuery) { q.Maintenance = &yes },
		"not maintenance":     func(q *store.NodeQuery) { q.Maintenance = &no },
		"retired":             func(q *store.NodeQuery) { q.Retired = &yes },
		"not retired":         func(q *store.NodeQuery) { q.Retired = &no },
		"provision_state":     func(q *store.NodeQuery) { q.ProvisionState = text("available") },
		"rare state":          func(q *store.NodeQuery) { q.ProvisionState = text("deploy failed") },
		"driver":              func(q *store.NodeQuery) { q.Driver = "redfish" },
		"rare driver":         func(q *store.NodeQuery) { q.Driver = "ilo" },
		"resource_class":      func(q *store.NodeQuery) { q.ResourceClass = "class-3" },
		"fault":               func(q *store.NodeQuery) { q.Fault = text("power failure") },
		"no fault":            func(q *store.NodeQuery) { q.Fault = text("") },
		"conductor_group":     func(q *store.NodeQuery) { q.ConductorGroup = text("g1") },
		"owner":               func(q *store.NodeQuery) { q.Owner = "o7" },
		"lessee":              func(q *store.NodeQuery) { q.Lessee = "l7" },
		"project":             func(q *store.NodeQuery) { q.Project = "o7" },
		"shard":               func(q *store.NodeQuery) { q.Shards = []string{"s1", "s2"} },
		"sharded":             func(q *store.NodeQuery) { q.Sharded = &yes },
		"chassis_uuid":        func(q *store.NodeQuery) { q.ChassisUUID = "c7" },
		"parent_node":         func(q *store.NodeQuery) { q.ParentNode = "00000000-0000-0000-0000-000000000007" },
		"visible to projects": func(q *store.NodeQuery) { q.Page.Project = "o7" },
	}
}

const manyNodes = 100_000

// fillNodes makes nodes as the filters expect them.
const fillNodes = `INSERT INTO nodes (uuid, created_at, name, driver, conductor_group, resource_class, owner, lessee, shard, parent_node,
	chassis_uuid, instance_uuid, instance_name, interfaces, automated_clean, secure_boot, maintenance_set, retired, accepted_state, fault_number, observed_fault)
SELECT '00000000-0000-0000-0000-' || lpad(i::text, 12, '0'), i / 3, 'n' || i, CASE WHEN i % 1000 = 0 THEN 'ilo' ELSE 'redfish' END,
	'g' || i % 4, 'class-' || i % 20, CASE WHEN i % 2 = 0 THEN 'o' || i % 80 ELSE '' END, CASE WHEN i % 10 = 7 THEN 'l' || i % 80 ELSE '' END,
	's' || i % 16, CASE WHEN i % 50 = 1 THEN '00000000-0000-0000-0000-000000000007' ELSE '' END, CASE WHEN i % 4 = 3 THEN 'c' || i % 200 ELSE '' END,
	CASE WHEN i % 20 = 0 THEN 'i' || i ELSE '' END, CASE WHEN i % 20 = 0 THEN 'in' || i ELSE '' END,
	CASE WHEN i % 10 = 0 THEN '' ELSE '{"bios":"no-bios","boot":"' || CASE WHEN i % 3 = 0 THEN 'ipxe' ELSE 'redfish-virtual-media' END || '","deploy":"direct"}' END, CASE WHEN i % 50 = 0 THEN i % 100 = 0 END, CASE WHEN i % 3 = 0 THEN i % 2 = 0 END, i % 100 = 0, i % 200 = 0,
	CASE WHEN i % 500 = 0 THEN 'deploy failed' ELSE 'available' END, CASE WHEN i % 300 = 0 THEN 1 ELSE 0 END, CASE WHEN i % 300 = 0 THEN 'power failure' ELSE '' END
FROM generate_series(1, $1) AS i`

// TestListsReadWhatTheyReturn asks PostgreSQL, with 100,000 nodes whose statistics it
// knows, how it answers a page under each filter and each sort key that has an index:
// it never reads the table from end to end, and in the usual order what it reads is in
// proportion to the page or to what the filter admits, whatever else there is. So with
// the lists of what nodes have.
func TestListsReadWhatTheyReturn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills a database with 100,000 nodes")
	}
	// Its memory holds all that is filled in, and its log is that of a database that has no replica.
	p, err := storetest.StartPostgres(t.Context(), "shared_buffers=512MB", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	address := p.Database(t)
	s := storetest.Open(t, address)
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := store.Planned(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "ALTER TABLE nodes SET (autovacuum_enabled = false)"); err != nil {
		t.Fatal(err)
	}
	// fill empties a table first: PostgreSQL logs no row of a table that is emptied in the same transaction.
	fill := func(table, rows string, args ...any) {
		err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "TRUNCATE "+table); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), rows, args...)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", rows, err)
		}
	}
	// fillSorted makes the indexes when all rows are there.
	fillSorted := func(table, rows string, args ...any) {
		again := dropIndexes(t, c, table)
		fill(table, rows, args...)
		for _, index := range again {
			if _, err := c.Exec(t.Context(), index); err != nil {
				t.Fatalf("%s: %v", index, err)
			}
		}
	}
	for _, nodes := range []int{2000, 3000, 10_000} {
		fill("nodes", fillNodes, nodes)
		t.Run(fmt.Sprintf("%d without statistics", nodes), func(t *testing.T) { explainFew(t, c) })
	}
	fillSorted("nodes", fillNodes, manyNodes)
	t.Run("without statistics", func(t *testing.T) { explainUnknown(t, c) })
	for name, want := range map[string]string{"jit": "off", "random_page_cost": "1"} {
		if value, err := s.Setting(t.Context(), name); err != nil || value != want {
			t.Errorf("the store's connections have %s = %q, not %q: %v", name, value, want, err)
		}
	}
	for _, rows := range fillOthers {
		table, _, _ := strings.Cut(strings.TrimPrefix(rows, "INSERT INTO "), " ")
		fillSorted(table, rows)
	}
	if _, err := c.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	t.Run("nodes", func(t *testing.T) { explainNodes(t, c) })
	t.Run("counts", func(t *testing.T) { explainCounts(t, c) })
	t.Run("orders in parts", func(t *testing.T) { explainParts(t, c) })
	t.Run("by interface", func(t *testing.T) { explainInterfaces(t, c, address) })
	t.Run("others", func(t *testing.T) { explainOthers(t, c) })
}

// dropIndexes drops a table's indexes, but for that of its primary key, and returns what makes them again: a sort when all
// rows are there costs less than a search for each row.
func dropIndexes(t *testing.T, c *pgx.Conn, table string) (again []string) {
	t.Helper()
	r, err := c.Query(t.Context(), `SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1::regclass AND NOT i.indisprimary`, table)
	if err != nil {
		t.Fatal(err)
	}
	type index struct{ Name, Made string }
	list, err := pgx.CollectRows(r, pgx.RowToStructByPos[index])
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if _, err := c.Exec(t.Context(), "DROP INDEX "+pgx.Identifier{i.Name}.Sanitize()); err != nil {
			t.Fatal(err)
		}
		again = append(again, i.Made)
	}
	return again
}

func explainNodes(t *testing.T, c *pgx.Conn) {
	const limit = 100
	for name, narrow := range filters() {
		for _, key := range sortedByIndex {
			for _, marker := range []string{"", "00000000-0000-0000-0000-000000050000"} {
				if marker != "" && key != "" {
					continue // nothing that the usual order does not show
				}
				q := store.NodeQuery{Page: store.Page{Limit: limit, SortKey: key, Marker: marker}}
				narrow(&q)
				stmt, args, err := store.NodesStatement(q)
				if err != nil {
					t.Fatal(err)
				}
				plan := explain(t, c, stmt, args)
				what := fmt.Sprintf("filter %s, sort %q, marker %t", name, key, marker != "")
				if scans := plan.sequential("nodes"); scans > 0 {
					t.Errorf("%s: reads nodes from end to end", what)
				}
				// The largest crowd that a filter with an index leaves to be sorted is
				// that of a chassis, a class, a shard or a project: 5 to 13 % of all.
				// With another order than the usual, the database may rather walk along
				// that and leave out what the filter does not admit.
				if read := plan.read("nodes"); key == "" && read > manyNodes/7 {
					t.Errorf("%s: reads %.0f nodes for %d", what, read, limit)
				}
			}
		}
	}
}

// explainCounts asks how busy nodes are counted: no further than was asked for.
func explainCounts(t *testing.T, c *pgx.Conn) {
	const most = 250
	for _, states := range [][]provision.State{{provision.Deploying, provision.DeployWait}, {provision.Deleting, provision.Cleaning, provision.CleanWait}, {provision.Available, provision.Active}} {
		stmt, args := store.NodesIn(states, most)
		plan := explain(t, c, stmt, args)
		if read := plan.read("nodes"); read > most {
			t.Errorf("%v: reads %.0f nodes", states, read)
		}
	}
}

// explainUnknown asks how pages are read from a table that the database has never looked at:
// PostgreSQL does so within a minute or more of its filling, or of a restore. Filters that
// admit most nodes are not asked for: it takes them for narrow ones then.
func explainUnknown(t *testing.T, c *pgx.Conn) {
	for _, filter := range []string{"none", "with children", "not maintenance", "not retired", "sharded", "rare state", "rare driver", "resource_class", "owner", "lessee", "chassis_uuid", "parent_node", "visible to projects"} {
		q := store.NodeQuery{Page: store.Page{Limit: 1000}}
		filters()[filter](&q)
		stmt, args, err := store.NodesStatement(q)
		if err != nil {
			t.Fatal(err)
		}
		if plan := explain(t, c, stmt, args); plan.sequential("nodes") > 0 || plan.read("nodes") > manyNodes/7 {
			t.Errorf("filter %s: reads %.0f nodes, %d times the table from end to end", filter, plan.read("nodes"), plan.sequential("nodes"))
		}
	}
}

// explainFew asks how the longest page is read from a table that the database has never looked at,
// where there are not many more nodes than are on it.
func explainFew(t *testing.T, c *pgx.Conn) {
	q := store.NodeQuery{Page: store.Page{Limit: 1000}}
	filters()["with children"](&q)
	stmt, args, err := store.NodesStatement(q)
	if err != nil {
		t.Fatal(err)
	}
	if plan := explain(t, c, stmt, args); plan.sequential("nodes") > 0 || plan.read("nodes") > 1000 {
		t.Errorf("reads %.0f nodes, %d times the table from end to end", plan.read("nodes"), plan.sequential("nodes"))
	}
}

// explainParts asks how the parts of orders that have some are read: without a filter none
// reads more than the page has, save those who have nothing, where those who have are passed over.
// By name, which every node may have, none reads all nodes under any filter.
func explainParts(t *testing.T, c *pgx.Conn) {
	const limit = 100
	yes := true
	middle := &store.Node{UUID: "00000000-0000-0000-0000-000000050000", CreatedAt: time.UnixMicro(50_000 / 3), Name: "n5", Owner: "o4", Lessee: "l4",
		InstanceUUID: "i5", InstanceName: "in5", ChassisUUID: "c4", AutomatedClean: &yes, SecureBoot: &yes, WorkID: "w", Reservation: "rack-2"}
	for _, key := range store.OrdersInParts() {
		for name, narrow := range filters() {
			whole := name == "with children"
			for _, desc := range []bool{false, true} {
				for _, after := range []*store.Node{nil, middle} {
					if !whole && (key != "name" || desc) {
						continue
					}
					q := store.NodeQuery{Page: store.Page{Limit: limit, SortKey: key, Desc: desc}}
					narrow(&q)
					stmts, args := store.NodeParts(q, after)
					for i, stmt := range stmts {
						plan := explain(t, c, stmt, args[i])
						if scans, read := plan.sequential("nodes"), plan.read("nodes"); scans > 0 || whole && read > manyNodes/7 {
							t.Errorf("filter %s, sort %s, desc %t, marker %t, part %d: reads %.0f nodes for %d, %d times all of them: %s",
								name, key, desc, after != nil, i, read, limit, scans, stmt)
						}
					}
				}
			}
		}
	}
}

// explainInterfaces asks what the orders read that no index serves: no more than the nodes that
// the filter admits, where it has an index, and every node once where there is no filter.
func explainInterfaces(t *testing.T, c *pgx.Conn, address string) {
	s := storetest.Open(t, address)
	middle := &store.Node{UUID: "00000000-0000-0000-0000-000000050000", CreatedAt: time.UnixMicro(50_000 / 3), Interfaces: map[string]string{"boot": "ipxe"}}
	for _, filter := range []string{"with children", "uuid", "rare state", "rare driver", "resource_class", "owner", "lessee", "project", "chassis_uuid", "parent_node"} {
		for _, desc := range []bool{false, true} {
			for _, after := range []*store.Node{nil, middle} {
				q := store.NodeQuery{Page: store.Page{Limit: 100, Desc: desc}}
				filters()[filter](&q)
				stmt, args := s.InterfaceSort("boot", q, after)
				plan := explain(t, c, stmt, args)
				most, scans := manyNodes/7.0, 0
				if filter == "with children" {
					most, scans = manyNodes, 1
				}
				if read := plan.read("nodes"); read > most || plan.sequential("nodes") > scans {
					t.Errorf("filter %s, desc %t, marker %t: reads %.0f nodes: %s", filter, desc, after != nil, read, stmt)
				}
			}
		}
	}
}

// planNode is a node of a plan as EXPLAIN gives it.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Rechecks float64    `json:"Rows Removed by Index Recheck"`
	Loops    float64    `json:"Actual Loops"`
	Plans    []planNode `json:"Plans"`
}

// sequential is how often the plan reads a table from end to end.
func (p *planNode) sequential(table string) (n int) {
	if p.Type == "Seq Scan" && p.Relation == table {
		n++
	}
	for i := range p.Plans {
		n += p.Plans[i].sequential(table)
	}
	return n
}

// read is how many rows of a table the plan has read.
func (p *planNode) read(table string) (rows float64) {
	if p.Relation == table {
		rows = (p.Rows + p.Removed + p.Rechecks) * p.Loops
	}
	for i := range p.Plans {
		rows += p.Plans[i].read(table)
	}
	return rows
}

func explain(t *testing.T, c *pgx.Conn, stmt string, args []any) *planNode {
	t.Helper()
	var text []byte
	if err := c.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+stmt, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	return &plans[0].Plan
}
