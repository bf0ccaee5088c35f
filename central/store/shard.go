package store

import (
	"context"
	"fmt"
)

// Shard is a part of the nodes that a client of its own looks after.
type Shard struct {
	Name  string // empty: the nodes without a shard
	Nodes int64
}

var (
	// selectShards reads all of one column: counting is what it is for.
	selectShards   = register("SELECT n.shard, COUNT(*) FROM nodes n GROUP BY n.shard ORDER BY COUNT(*) DESC, n.shard")
	selectChildren = register("SELECT n.uuid FROM nodes n WHERE n.parent_node = $1 ORDER BY n.uuid")
	// Who a child belongs to is asked of the children alone: there are few of them.
	selectProjectsChildren = register("SELECT n.uuid FROM nodes n WHERE n.parent_node = $1 AND (n.owner = $2 OR n.lessee = $2) ORDER BY n.uuid")
)

// Shards counts the nodes of each shard, the largest first.
func (s *Store) Shards(ctx context.Context) ([]Shard, error) {
	var list []Shard
	r, err := s.engine.query(ctx, selectShards)
	err = scanAll(r, err, func(r rows) error {
		var shard Shard
		if err := r.Scan(&shard.Name, &shard.Nodes); err != nil {
			return err
		}
		list = append(list, shard)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the nodes of shards: %w", err)
	}
	return list, nil
}

// Children returns the UUIDs of the nodes that are parts of a node, in order. With a project
// it returns those of which that is the owner or the lessee.
func (s *Store) Children(ctx context.Context, node, project string) ([]string, error) {
	var list []string
	stmt, args := selectChildren, []any{node}
	if project != "" {
		stmt, args = selectProjectsChildren, append(args, project)
	}
	r, err := s.engine.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		var id string
		if err := r.Scan(&id); err != nil {
			return err
		}
		list = append(list, id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the children of node %s: %w", node, err)
	}
	return list, nil
}
