package store

import (
	"context"
	"fmt"
	"strings"
)

// What ingest reads of a node: little, because it does so for every batch.
var observedClasses = []class{hot, effective}

const observedExtra = "n.uuid, n.revision, n.name, n.conductor_group, n.generation, n.fault_acked, COALESCE(w.id, ''), COALESCE(w.verb, ''), COALESCE(w.owner, ''), n.inspection_started_at"

func selectObserved(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return "SELECT " + observedExtra + ", " + names(nodeColumns, "n.", observedClasses...) +
		" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open' WHERE n.uuid IN (" + list + ")", args
}

func saveObserved(n int) string {
	columns := pick(nodeColumns, hot)
	casts, sets := []string{"TEXT"}, []string{"revision = nodes.revision + 1"}
	for _, c := range columns {
		casts = append(casts, hotType(c))
		sets = append(sets, c.name+" = v."+c.name)
	}
	return "WITH v (uuid, " + names(nodeColumns, "", hot) + ") AS (VALUES " + valueRows(n, len(casts), casts) +
		") UPDATE nodes SET " + strings.Join(sets, ", ") + " FROM v WHERE nodes.uuid = v.uuid"
}

func init() {
	builders = append(builders, func() []string {
		sel, _ := selectObserved([]string{"a", "b"})
		return []string{sel, sel + " FOR UPDATE OF n", saveObserved(2)}
	})
}

// Observed reads nodes for ingest, by UUID; those that do not exist are missing.
// Of each only UUID, Revision, Name, ConductorGroup, Generation, FaultAcked, InspectionStarted, the
// open work, the frequent observations and the effective fields are filled in.
func (tx *Tx) Observed(ctx context.Context, nodes []string) (map[string]*Node, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	stmt, args := selectObserved(nodes)
	out := make(map[string]*Node, len(nodes))
	r, err := tx.conn.query(ctx, stmt+tx.s.lockRows("n"), args...)
	err = scanAll(r, err, func(r rows) error {
		n := new(Node)
		var verb, owner string
		dest := []any{&n.UUID, &n.Revision, &n.Name, &n.ConductorGroup, &n.Generation, &n.FaultAcked, &n.WorkID, &verb, &owner, &micros{&n.InspectionStarted}}
		if err := r.Scan(append(dest, fields(nodeColumns, n, observedClasses...)...)...); err != nil {
			return err
		}
		n.finish(verb, owner)
		n.read = n.shown()
		out[n.UUID] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %d observed nodes: %w", len(nodes), err)
	}
	return out, nil
}

// maxRows bounds the rows of one statement, whose arguments an engine limits
// (PostgreSQL 65535, SQLite 32766).
const maxRows = 1000

// SaveObserved writes the frequent observations of nodes that Observed read in
// this transaction, in one statement, and moves their revisions on.
func (tx *Tx) SaveObserved(ctx context.Context, nodes []*Node) error {
	for len(nodes) > 0 {
		part := nodes[:min(len(nodes), maxRows)]
		nodes = nodes[len(part):]
		var args []any
		for _, n := range part {
			args = append(append(args, n.UUID), fields(nodeColumns, n, hot)...)
		}
		if _, err := tx.conn.exec(ctx, saveObserved(len(part)), args...); err != nil {
			return fmt.Errorf("write observations of %d nodes: %w", len(part), err)
		}
		for _, n := range part {
			tx.noteNode(ctx, n, false)
		}
	}
	return nil
}
