package store

import (
	"context"
	"fmt"
	"time"
)

// oldWorks picks the ended works of a node of before a time; the newest one stays: it says what the node's last
// request came to.
const oldWorks = "FROM works w WHERE w.node = %s AND w.state <> 'open' AND w.ended_at > 0 AND w.ended_at < $2 AND w.generation < (SELECT x.generation FROM works x WHERE x.node = w.node ORDER BY x.generation DESC LIMIT 1)"

var (
	selectSurplus = register("SELECT p.uuid, (SELECT count(*) FROM node_history h WHERE h.node = p.uuid), (SELECT count(*) " + fmt.Sprintf(oldWorks, "p.uuid") +
		") FROM (SELECT n.uuid FROM nodes n WHERE n.uuid > $1 ORDER BY n.uuid LIMIT $3) p ORDER BY p.uuid")
	countHistory = register("SELECT count(*) FROM node_history h WHERE h.node = $1")
	pruneHistory = register("DELETE FROM node_history WHERE uuid IN (SELECT h.uuid FROM node_history h WHERE h.node = $1 ORDER BY h.revision, h.uuid LIMIT $2)")
	pruneWorks   = register("DELETE FROM works WHERE id IN (SELECT w.id " + fmt.Sprintf(oldWorks, "$1") + " ORDER BY w.generation LIMIT $3)")
)

// Surplus is how much a node has of what is kept for a while only.
type Surplus struct {
	Node     string
	History  int // entries, all of them
	OldWorks int // ended before the time that was asked for, without the newest
}

// Surpluses counts for up to limit nodes, those behind the UUID after in order. The last one says where to go on;
// fewer than limit are the last ones.
func (s *Store) Surpluses(ctx context.Context, after string, ended time.Time, limit int) (list []Surplus, err error) {
	r, err := s.engine.query(ctx, selectSurplus, after, ended.UnixMicro(), limit)
	err = scanAll(r, err, func(r rows) error {
		var x Surplus
		if err := r.Scan(&x.Node, &x.History, &x.OldWorks); err != nil {
			return err
		}
		list = append(list, x)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the history and the ended works of nodes: %w", err)
	}
	return list, nil
}

// PruneHistory removes up to limit entries of a node's history behind the keep newest ones, and returns how many. The newest
// are those of the node's highest revisions, whatever the clocks of rackds and replicas said. Ids order those of one revision.
func (s *Store) PruneHistory(ctx context.Context, node string, keep, limit int) (removed int64, err error) {
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) error {
		fail := func(err error) error { return fmt.Errorf("remove old history of node %s: %w", node, err) }
		var there int
		r, err := tx.conn.query(ctx, countHistory, node)
		if err := scanAll(r, err, func(r rows) error { return r.Scan(&there) }); err != nil {
			return fail(err)
		}
		if removed = 0; there <= keep {
			return nil
		}
		if removed, err = tx.conn.exec(ctx, pruneHistory, node, min(there-keep, limit)); err != nil {
			return fail(err)
		}
		return nil
	})
	return removed, err
}

// PruneWorks removes up to limit works of a node that ended before a time, but not its newest, and returns how many.
func (s *Store) PruneWorks(ctx context.Context, node string, ended time.Time, limit int) (removed int64, err error) {
	err = s.Update(ctx, func(ctx context.Context, tx *Tx) (err error) {
		if removed, err = tx.conn.exec(ctx, pruneWorks, node, ended.UnixMicro(), limit); err != nil {
			return fmt.Errorf("remove ended works of node %s: %w", node, err)
		}
		return nil
	})
	return removed, err
}
