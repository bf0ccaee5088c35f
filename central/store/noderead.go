package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/work"
)

// selectNodes reads nodes with their open work, in the order of scanNode.
var selectNodes = "SELECT n.revision, " + names(nodeColumns, "n.") +
	", COALESCE(w.id, ''), COALESCE(w.verb, ''), COALESCE(w.owner, '')" +
	" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open'"

var (
	selectNodeByUUID = register(selectNodes + " WHERE n.uuid = $1")
	selectNodeByName = register(selectNodes + " WHERE n.name = $1")
	_                = register(selectNodeByUUID + " FOR UPDATE OF n")
	_                = register(selectNodeByName + " FOR UPDATE OF n")
	selectNodeExists = register("SELECT uuid FROM nodes WHERE uuid = $1")
)

// finish fills in what other tables say.
func (n *Node) finish(verb, owner string) {
	if n.WorkID == "" {
		return
	}
	n.WorkVerb, n.Reservation = work.Verb(verb), owner
	if n.ObservedGeneration >= n.Generation && n.ObservedOwner != "" {
		n.Reservation = n.ObservedOwner
	}
}

// readNode reads one node, and for a write also what its columns hold. suffix ends the
// statement.
func readNode(ctx context.Context, c conn, ident, suffix string, forWrite bool) (*Node, error) {
	stmt := selectNodeByName
	if id, err := uuid.Parse(ident); err == nil && len(ident) == 36 {
		stmt, ident = selectNodeByUUID, id.String()
	} else if ident == "" {
		return nil, fmt.Errorf("node %q: %w", ident, ErrNotFound)
	}
	var node *Node
	scan := borrowScanner()
	defer scan.giveBack()
	r, err := c.query(ctx, stmt+suffix, ident)
	err = scanAll(r, err, func(r rows) (err error) {
		if node, err = scan.node(r); err == nil && forWrite {
			node.asRead, err = scan.values()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", ident, err)
	}
	if node == nil {
		return nil, fmt.Errorf("node %s: %w", ident, ErrNotFound)
	}
	return node, nil
}

// Node returns the node with that UUID or name, or ErrNotFound.
func (s *Store) Node(ctx context.Context, ident string) (*Node, error) {
	if IsUUID(ident) {
		return s.nodes.read(ctx, strings.ToLower(ident))
	}
	return readNode(ctx, s.engine, ident, "", false)
}

// Node returns the node with that UUID or name for a write that follows, its open
// work included, or ErrNotFound. One statement.
func (tx *Tx) Node(ctx context.Context, ident string) (*Node, error) {
	n, err := tx.readNode(ctx, ident)
	if err == nil {
		asRead := *n
		tx.nodes = append(tx.nodes, &asRead)
		n.lockedBy = tx
	}
	return n, err
}

func (tx *Tx) readNode(ctx context.Context, ident string) (*Node, error) {
	if c, grouped := tx.conn.(*groupConn); grouped {
		if n := c.attempt.ahead.take(strings.ToLower(ident)); n != nil {
			return n, ctx.Err()
		}
	}
	return readNode(ctx, tx.conn, ident, tx.s.lockRows("n"), true)
}

// InvalidSortError names a sort key that cannot be used.
type InvalidSortError struct{ Key string }

func (e *InvalidSortError) Error() string { return fmt.Sprintf("cannot sort by %q", e.Key) }

// Nodes returns a page of nodes. A marker that does not exist is ErrNotFound, an
// unknown sort key an *InvalidSortError.
func (s *Store) Nodes(ctx context.Context, q NodeQuery) ([]*Node, error) {
	var list []*Node
	scan := borrowScanner()
	defer scan.giveBack()
	err := s.eachStatement(ctx, selectNodes, q, func(stmt string, args []any) (count int, err error) {
		r, err := s.engine.query(ctx, stmt, args...)
		err = scanAll(r, err, func(r rows) error {
			n, err := scan.node(r)
			list = append(list, n)
			count++
			return err
		})
		return count, err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list, nil
}

// markerExists tells an empty last page from a marker that is no row.
func (s *Store) markerExists(ctx context.Context, stmt, what, marker string) error {
	found := false
	r, err := s.engine.query(ctx, stmt, marker)
	err = scanAll(r, err, func(rows) error { found = true; return nil })
	if err == nil && !found {
		err = fmt.Errorf("%s %s, the marker of a list: %w", what, marker, ErrNotFound)
	}
	return err
}

func nodesStatement(what string, q NodeQuery) (string, []any, error) {
	if q.SortKey == "" {
		q.SortKey = "created_at"
	}
	if !nodeSorts[q.SortKey] {
		return "", nil, &InvalidSortError{q.SortKey}
	}
	f := nodesFilter(q)
	tail := f.page(q.Page, "nodes", "n", q.SortKey)
	return what + tail, f.args, nil
}

// nodesFilter is the conditions of a list of nodes.
func nodesFilter(q NodeQuery) *filter {
	f := new(filter)
	f.in("n.uuid", q.UUIDs)
	f.set("n.instance_uuid", q.InstanceUUID)
	f.set("n.instance_name", q.InstanceName)
	f.equal("n.driver", q.Driver)
	f.equal("n.resource_class", q.ResourceClass)
	f.set("n.owner", q.Owner)
	f.set("n.lessee", q.Lessee)
	f.equal("n.chassis_uuid", q.ChassisUUID)
	f.inShards(q.Shards)
	if q.DescriptionContains != nil {
		f.contains("n.description", *q.DescriptionContains)
	}
	if q.Project != "" {
		f.add("(n.owner = ? AND n.owner <> '' OR n.lessee = ? AND n.lessee <> '')", q.Project, q.Project)
	}
	if q.ProvisionState != nil {
		f.add("n.provision_state = ?", *q.ProvisionState)
	}
	if q.Fault != nil {
		f.add("n.fault = ?", *q.Fault)
	}
	if q.ConductorGroup != nil {
		f.add("n.conductor_group = ?", strings.ToLower(*q.ConductorGroup))
	}
	// Not as arguments: an engine has to see which index will do.
	if q.Maintenance != nil {
		f.conds = append(f.conds, map[bool]string{true: "n.maintenance", false: "NOT n.maintenance"}[*q.Maintenance])
	}
	if q.Retired != nil {
		f.conds = append(f.conds, map[bool]string{true: "n.retired", false: "NOT n.retired"}[*q.Retired])
	}
	present := func(column string, want *bool) {
		if want != nil {
			f.conds = append(f.conds, column+map[bool]string{true: " <> ''", false: " = ''"}[*want])
		}
	}
	present("n.instance_uuid", q.Associated)
	present("n.shard", q.Sharded)
	switch {
	case q.ParentNode != "":
		f.add("n.parent_node = ?", q.ParentNode)
	case !q.IncludeChildren:
		// Not "=": of a table without statistics PostgreSQL thinks that an equality holds for
		// one row of 200, and then reads all of them to sort those few.
		f.conds = append(f.conds, "n.parent_node <= ''")
	}
	return f
}

func init() {
	builders = append(builders, func() []string {
		var out []string
		yes, text := true, "x"
		for sort, ok := range nodeSorts {
			if !ok {
				continue
			}
			for _, desc := range []bool{false, true} {
				stmt, _, err := nodesStatement(selectNodes, NodeQuery{Page: Page{Marker: "m", SortKey: sort, Desc: desc, Project: "p"}, UUIDs: []string{"a", "b", "c"},
					InstanceUUID: "i", InstanceName: "i", Associated: &yes, Maintenance: &yes, Retired: &yes, ProvisionState: &text,
					Driver: "d", ResourceClass: "r", Fault: &text, ConductorGroup: &text, Owner: "o", Lessee: "l", Project: "p",
					DescriptionContains: &text, Shards: []string{"s"}, Sharded: &yes, ChassisUUID: "c", ParentNode: "p"})
				if err != nil {
					panic(err)
				}
				out = append(out, stmt)
			}
		}
		return out
	})
}
