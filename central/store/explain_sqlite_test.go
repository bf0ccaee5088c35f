//go:build !race

// Plans are looked at, nothing runs side by side; the cases are those of PostgreSQL.

package store_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// sortedByIndex are the sort keys that an index serves, whatever the filter leaves over.
// The others are sorted by the database each time, which reads as many nodes as the
// filter admits: few ask for them, and each index costs every write of a node.
var sortedByIndex = []string{"", "uuid", "created_at", "provision_state", "conductor_group", "driver", "resource_class", "shard"}

// TestSQLiteWalksIndexes asks SQLite, which plans by the text alone, how it lists nodes in
// each order that an index serves: along that, so that it can stop when the page is full.
func TestSQLiteWalksIndexes(t *testing.T) {
	db, err := sql.Open("sqlite", strings.TrimPrefix(storetest.SQLite(t), "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const openWorks = "reservation 1" // few, which are sorted
	walks := func(what, stmt string, args []any) {
		t.Helper()
		for _, step := range queryPlan(t, db, stmt, args) {
			if strings.HasPrefix(step, "SCAN n") && !strings.Contains(step, "INDEX") || strings.Contains(step, "FOR ORDER BY") && what != openWorks {
				t.Errorf("%s: %s: %s", what, step, stmt)
			}
		}
	}
	after := &store.Node{UUID: "u", Name: "n", Owner: "o", Lessee: "l", InstanceUUID: "i", InstanceName: "i", ChassisUUID: "c"}
	for _, desc := range []bool{false, true} {
		for _, marker := range []string{"", "u"} {
			for _, key := range sortedByIndex {
				stmt, args, err := store.NodesStatement(store.NodeQuery{Page: store.Page{SortKey: key, Desc: desc, Marker: marker}})
				if err != nil {
					t.Fatal(err)
				}
				walks(key, stmt, args)
			}
		}
		for _, key := range store.OrdersInParts() {
			for _, from := range []*store.Node{nil, after} {
				stmts, args := store.NodeParts(store.NodeQuery{Page: store.Page{SortKey: key, Desc: desc}}, from)
				for i, stmt := range stmts {
					walks(fmt.Sprintf("%s %d", key, i), stmt, args[i])
				}
			}
		}
	}
}

// queryPlan is what SQLite says of a statement.
func queryPlan(t *testing.T, db *sql.DB, stmt string, args []any) (steps []string) {
	t.Helper()
	r, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+stmt, args...)
	if err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	defer r.Close()
	for r.Next() {
		var id, parent, unused int
		var step string
		if err := r.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
