package store

import (
	"context"
	"fmt"
)

// Snapshot is all that the documents of a node are rendered from.
type Snapshot struct {
	Node  *Node
	Ports []*Port
	Work  *Work // open, or nil
}

func snapshotsOf(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return "SELECT n.revision, " + names(nodeColumns, "n.") + ", " + nodeTraits + ", " + outer(workColumns, "w.") + ", " + outer(portColumns, "p.") +
		" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open' LEFT JOIN ports p ON p.node = n.uuid" +
		" WHERE n.uuid IN (" + list + ") ORDER BY n.uuid, p.uuid", args
}

var selectNodeKeys = register("SELECT n.uuid, n.conductor_group FROM nodes n WHERE n.uuid > $1 ORDER BY n.uuid LIMIT $2")

func init() {
	builders = append(builders, func() []string {
		stmt, _ := snapshotsOf([]string{"a", "b"})
		return []string{stmt}
	})
}

// Snapshots reads nodes with their ports, in order of UUID, and open work, by UUID;
// those that do not exist are missing. It is one statement, so all that it returns
// held at one moment.
func (s *Store) Snapshots(ctx context.Context, nodes []string) (map[string]*Snapshot, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	out := make(map[string]*Snapshot, len(nodes))
	stmt, args := snapshotsOf(nodes)
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error { return scanSnapshot(r, out) })
	if err != nil {
		return nil, fmt.Errorf("read %d nodes for their sites: %w", len(nodes), err)
	}
	return out, nil
}

// scanSnapshot reads a row, which is a node with one of its ports, into out.
func scanSnapshot(r rows, out map[string]*Snapshot) error {
	n, w, p := new(Node), new(Work), new(Port)
	var traits string
	dest := append([]any{&n.Revision}, fields(nodeColumns, n)...)
	dest = append(append(append(dest, &traits), fields(workColumns, w)...), fields(portColumns, p)...)
	if err := r.Scan(dest...); err != nil {
		return err
	}
	row := out[n.UUID]
	if row == nil {
		n.WorkID = w.ID
		n.finish(traits, string(w.Verb), w.Owner)
		row = &Snapshot{Node: n}
		if w.ID != "" {
			row.Work = w
		}
		out[n.UUID] = row
	}
	if p.UUID != "" {
		row.Ports = append(row.Ports, p)
	}
	return nil
}

// NodeKey says where a node's documents belong.
type NodeKey struct{ UUID, Group string }

// NodeKeys returns up to limit nodes after afterNode, in order of UUID.
func (s *Store) NodeKeys(ctx context.Context, afterNode string, limit int) ([]NodeKey, error) {
	var list []NodeKey
	r, err := s.engine.query(ctx, selectNodeKeys, afterNode, limit)
	err = scanAll(r, err, func(r rows) error {
		var k NodeKey
		if err := r.Scan(&k.UUID, &k.Group); err != nil {
			return err
		}
		list = append(list, k)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list node keys: %w", err)
	}
	return list, nil
}
