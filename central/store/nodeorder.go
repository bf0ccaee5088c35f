package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Some orders are made of parts that are walked one after the other: first the nodes that
// have nothing there (null, in Ironic), then the others, which an index of their own holds.
// So no index has every node in it for an order that few ask for, and a page reads little
// more than it returns as long as those that have nothing are not the rare ones.

// nodeOrder is such an order.
type nodeOrder struct {
	// lacking and having are the conditions of the two parts. Both empty: there is one part, of
	// all nodes.
	lacking, having string
	expr            string // by which the second is ordered
	unique          bool   // no two nodes have the same there: that is all of its order
	// of is a node's value, nil for nothing.
	of func(*Node) any
}

// reservation is the expression of what Node.finish computes.
const reservation = "CASE WHEN n.observed_generation >= n.generation AND n.observed_owner <> '' THEN n.observed_owner ELSE w.owner END"

var nodeOrders = map[string]nodeOrder{
	"automated_clean": nullableOrder("automated_clean", func(n *Node) *bool { return n.AutomatedClean }),
	"secure_boot":     nullableOrder("secure_boot", func(n *Node) *bool { return n.SecureBoot }),
	"name":            uniqueOrder("name", func(n *Node) string { return n.Name }),
	"owner":           textOrder("owner", func(n *Node) string { return n.Owner }),
	"lessee":          textOrder("lessee", func(n *Node) string { return n.Lessee }),
	"instance_uuid":   uniqueOrder("instance_uuid", func(n *Node) string { return n.InstanceUUID }),
	"instance_name":   textOrder("instance_name", func(n *Node) string { return n.InstanceName }),
	"chassis_uuid":    textOrder("chassis_uuid", func(n *Node) string { return n.ChassisUUID }),
	// Open works have an index that holds no others.
	"reservation": {lacking: "(n.provision_state IN " + waiting + " OR NOT EXISTS (SELECT 1 FROM works o WHERE o.node = n.uuid AND o.state = 'open'))",
		having: "n.provision_state NOT IN " + waiting + " AND n.uuid IN (SELECT o.node FROM works o WHERE o.state = 'open')", expr: reservation, of: func(n *Node) any {
			if n.WorkID == "" || waits(n.ProvisionState) {
				return nil
			}
			return n.Reservation
		}},
}

// waits reports whether a node's work, if it has some, waits for the machine or for an
// operator: nobody is shown to hold the node then.
func waits(s provision.State) bool {
	known, _ := provision.Describe(s)
	return known.Kind == provision.Waiting || known.Kind == provision.Held
}

// waiting is the list of the states that wait.
var waiting = func() string {
	var list []string
	for _, known := range provision.States {
		if waits(known.State) {
			list = append(list, "'"+string(known.State)+"'")
		}
	}
	return "(" + strings.Join(list, ", ") + ")"
}()

func nullableOrder(column string, at func(*Node) *bool) nodeOrder {
	return nodeOrder{lacking: "n." + column + " IS NULL", having: "n." + column + " IS NOT NULL", expr: "n." + column, of: func(n *Node) any {
		if b := at(n); b != nil {
			return *b
		}
		return nil
	}}
}

func textOrder(column string, at func(*Node) string) nodeOrder {
	return nodeOrder{lacking: "n." + column + " = ''", having: "n." + column + " <> ''", expr: "n." + column, of: func(n *Node) any {
		if text := at(n); text != "" {
			return text
		}
		return nil
	}}
}

func uniqueOrder(column string, at func(*Node) string) nodeOrder {
	o := textOrder(column, at)
	o.unique = true
	return o
}

// interfaceOrder is that of what a node has of a kind of interface, nothing coming first. No
// index serves it: every node has one of each kind, so there would be 13 of them to be written
// for each node, and few ask.
func interfaceOrder(kind string, member func(column, name string) string) nodeOrder {
	return nodeOrder{expr: "COALESCE(" + member("n.interfaces", kind) + ", '')", of: func(n *Node) any { return n.Interfaces[kind] }}
}

// nodeOrder returns the order that a sort key names, if it is one of those made here.
func (s *Store) nodeOrder(key string) (nodeOrder, bool) {
	if kind, cut := strings.CutSuffix(key, "_interface"); cut && slices.Contains(node.InterfaceKinds, kind) {
		return interfaceOrder(kind, s.engine.member), true
	}
	o, ok := nodeOrders[key]
	return o, ok
}

// parts says of each part, in ascending order, whether it is that of the nodes that have
// something.
func (o nodeOrder) parts() []bool {
	if o.lacking == "" {
		return []bool{true}
	}
	return []bool{false, true}
}

// part is the statement of one of the two parts, behind the node after, if that is not nil.
func (o nodeOrder) part(what string, q NodeQuery, having bool, after *Node) (string, []any) {
	f := nodesFilter(q)
	f.visible(q.Page.Project, "nodes", "n")
	keys, values := []string{"n.created_at", "n.uuid"}, []any{}
	if after != nil {
		values = []any{toMicros(after.CreatedAt), after.UUID}
	}
	if having {
		if o.having != "" {
			f.conds = append(f.conds, o.having)
		}
		if o.unique {
			keys, values = nil, nil
		}
		keys = append([]string{o.expr}, keys...)
		if after != nil {
			values = append([]any{o.of(after)}, values...)
		}
	} else {
		f.conds = append(f.conds, o.lacking)
	}
	dir, cmp := " ASC", ">"
	if q.Desc {
		dir, cmp = " DESC", "<"
	}
	if after != nil {
		f.add("("+strings.Join(keys, ", ")+") "+cmp+" (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	return what + f.where() + " ORDER BY " + strings.Join(keys, dir+", ") + dir + " LIMIT " + strconv.Itoa(q.Limit), f.args
}

// eachStatement calls run for the statements whose rows, one after the other, are a page of
// nodes, until there are enough: run says how many it has read. Errors are those of Nodes.
func (s *Store) eachStatement(ctx context.Context, what string, q NodeQuery, run func(stmt string, args []any) (int, error)) error {
	order, isOne := s.nodeOrder(q.SortKey)
	if !isOne {
		stmt, args, err := nodesStatement(what, q)
		if err != nil {
			return err
		}
		n, err := run(stmt, args)
		if err == nil && n == 0 && q.Marker != "" {
			err = s.markerExists(ctx, selectNodeExists, "node", q.Marker)
		}
		return err
	}
	if q.Limit <= 0 {
		q.Limit = 1000
	}
	var after *Node
	parts := order.parts()
	if q.Desc {
		slices.Reverse(parts)
	}
	if q.Marker != "" {
		var err error
		if after, err = readNode(ctx, s.engine, q.Marker, "", false); err != nil {
			return fmt.Errorf("the marker of a list: %w", err)
		}
		parts = parts[slices.Index(parts, order.of(after) != nil):]
	}
	for _, having := range parts {
		stmt, args := order.part(what, q, having, after)
		n, err := run(stmt, args)
		if err != nil || n >= q.Limit {
			return err
		}
		q.Limit, after = q.Limit-n, nil
	}
	return nil
}

func init() {
	builders = append(builders, func() (out []string) {
		yes := true
		marker := &Node{Name: "n", AutomatedClean: &yes, SecureBoot: &yes, WorkID: "w", Owner: "o", Lessee: "l", InstanceUUID: "i", InstanceName: "i", ChassisUUID: "c"}
		for _, key := range slices.Sorted(maps.Keys(nodeOrders)) {
			for _, desc := range []bool{false, true} {
				for _, having := range []bool{false, true} {
					stmt, _ := nodeOrders[key].part(selectNodes, NodeQuery{Page: Page{Limit: 1, Desc: desc}}, having, marker)
					out = append(out, stmt)
				}
			}
		}
		for _, desc := range []bool{false, true} { // the one kind like the other
			stmt, _ := interfaceOrder("boot", jsonMember).part(selectNodes, NodeQuery{Page: Page{Limit: 1, Desc: desc}}, true, marker)
			out = append(out, stmt)
		}
		return out
	})
}
