package store

import (
	"context"
	"fmt"
	"time"
)

// A deleted node leaves the last revision that it had. A node that is enrolled again under its UUID goes
// on from there: what a rack, a cache or another replica still holds of the old one is older by number,
// whatever the clocks of the replicas say.

var (
	selectNodeEnd = register("SELECT revision FROM node_ends WHERE uuid = $1")
	// writeNodeEnd runs before the node's row goes.
	writeNodeEnd = register("INSERT INTO node_ends (uuid, revision) SELECT n.uuid, n.revision FROM nodes n WHERE n.uuid = $1" +
		" ON CONFLICT (uuid) DO UPDATE SET revision = excluded.revision")
)

// GiveUUID gives a node that is to be inserted a UUID which no node has had, so that nobody looks for one.
func (n *Node) GiveUUID() {
	n.UUID = NewID()
	n.given = n.UUID
}

// firstRevision is where the revisions of a new node begin: with the time, which is above those of nodes that
// programs before this table have deleted, and in any case above those of an earlier node.
func (tx *Tx) firstRevision(ctx context.Context, n *Node, now time.Time) (int64, error) {
	first := now.UnixMicro()
	given := n.given
	n.given = ""
	if given == n.UUID {
		return first, nil
	}
	r, err := tx.conn.query(ctx, selectNodeEnd, n.UUID)
	err = scanAll(r, err, func(r rows) error {
		var last int64
		err := r.Scan(&last)
		first = max(first, last+1)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for an earlier node %s: %w", n.UUID, err)
	}
	return first, nil
}
