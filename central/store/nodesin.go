package store

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/provision"
)

// nodesIn counts the nodes in some states, and stops at the last parameter.
func nodesIn(states []provision.State, most int) (string, []any) {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	list, args := inList(1, names)
	return fmt.Sprintf("SELECT COUNT(*) FROM (SELECT n.uuid FROM nodes n WHERE n.provision_state IN (%s) LIMIT $%d) several", list, len(args)+1), append(args, most)
}

func init() {
	builders = append(builders, func() []string {
		stmt, _ := nodesIn([]provision.State{provision.Deploying, provision.DeployWait}, 1)
		return []string{stmt}
	})
}

// CountNodesIn counts the nodes that are in any of the states, and no more than most of them: what it reads
// does not grow with the others.
func (tx *Tx) CountNodesIn(ctx context.Context, states []provision.State, most int) (int, error) {
	stmt, args := nodesIn(states, most)
	var n int
	r, err := tx.conn.query(ctx, stmt, args...)
	if err := scanAll(r, err, func(r rows) error { return r.Scan(&n) }); err != nil {
		return 0, fmt.Errorf("count the nodes in %v: %w", states, err)
	}
	return n, nil
}
