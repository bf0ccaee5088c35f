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

func nodesByUUID(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return selectNodes + " WHERE n.uuid IN (" + list + ")", args
}

func portsByNode(nodes []string) (string, []any) {
	list, args := inList(1, nodes)
	return selectPorts + " WHERE p.node IN (" + list + ") ORDER BY p.node, p.uuid", args
}

var selectNodeKeys = register("SELECT n.uuid, n.conductor_group FROM nodes n WHERE n.uuid > $1 ORDER BY n.uuid LIMIT $2")

func init() {
	builders = append(builders, func() []string {
		n, _ := nodesByUUID([]string{"a", "b"})
		p, _ := portsByNode([]string{"a", "b"})
		return []string{n, p}
	})
}

// Snapshots reads nodes with their ports and open work, by UUID; those that do not
// exist are missing. The three reads are one transaction, so they fit each other.
func (s *Store) Snapshots(ctx context.Context, nodes []string) (map[string]*Snapshot, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	var out map[string]*Snapshot
	err := s.engine.view(ctx, func(c conn) (err error) {
		out, err = snapshots(ctx, c, nodes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d nodes for their sites: %w", len(nodes), err)
	}
	return out, nil
}

func snapshots(ctx context.Context, c conn, nodes []string) (map[string]*Snapshot, error) {
	out := make(map[string]*Snapshot, len(nodes))
	stmt, args := nodesByUUID(nodes)
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		n, err := scanNode(r)
		if err == nil {
			out[n.UUID] = &Snapshot{Node: n}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	stmt, args = portsByNode(nodes)
	ports, err := readPorts(ctx, c, stmt, args...)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		if s := out[p.Node]; s != nil {
			s.Ports = append(s.Ports, p)
		}
	}
	var open []string
	for id, s := range out {
		if s.Node.WorkID != "" {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return out, nil
	}
	stmt, args = openWorksOf(open)
	works, err := readWorks(ctx, c, stmt, args...)
	if err != nil {
		return nil, err
	}
	for _, w := range works {
		out[w.Node].Work = w
	}
	return out, nil
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
