package store

import (
	"context"
	"fmt"
	"strings"
)

// Stamp tells the states of a node apart: where two reads of a node found equal stamps,
// all else that they found is equal, too. Each write of the node's row, and of its
// traits, moves the revision on, and the row of a piece of work stays what it was
// accepted as for as long as it is open; tests hold both.
type Stamp struct {
	Revision int64
	WorkID   string
}

// Stamp is that of the node as it was read.
func (n *Node) Stamp() Stamp { return Stamp{n.Revision, n.WorkID} }

// selectStamps reads stamps, for which no wide row has to be sent.
const selectStamps = "SELECT n.uuid, n.revision, COALESCE(w.id, '')" +
	" FROM nodes n LEFT JOIN works w ON w.node = n.uuid AND w.state = 'open'"

var selectStampsByUUID = newByUUID(selectStamps)

// NodeStamp returns the stamp of the node with that UUID, or ErrNotFound.
func (s *Store) NodeStamp(ctx context.Context, uuid string) (Stamp, error) {
	return s.stamps.read(ctx, strings.ToLower(uuid))
}

// NodeStamps calls each for every node of a page, in order, and returns how many there
// were. Errors are those of Nodes.
func (s *Store) NodeStamps(ctx context.Context, q NodeQuery, each func(uuid string, stamp Stamp)) (count int, err error) {
	err = s.eachStatement(ctx, selectStamps, q, func(stmt string, args []any) (int, error) {
		before := count
		err := readStamps(ctx, s.engine, stmt, args, func(uuid string, stamp Stamp) error {
			count++
			each(uuid, stamp)
			return nil
		})
		return count - before, err
	})
	if err != nil {
		return count, fmt.Errorf("list nodes: %w", err)
	}
	return count, nil
}

// fetchStamps reads stamps for a gatherer.
func fetchStamps(ctx context.Context, c conn, ids []string, give func(id string, read func() (Stamp, error)) error) error {
	stmt, args := selectStampsByUUID.of(ids)
	return readStamps(ctx, c, stmt, args, func(uuid string, stamp Stamp) error {
		return give(strings.ToLower(uuid), func() (Stamp, error) { return stamp, nil })
	})
}

func readStamps(ctx context.Context, c conn, stmt string, args []any, each func(uuid string, stamp Stamp) error) error {
	var uuid string
	var stamp Stamp
	dest := []any{&uuid, &stamp.Revision, &stamp.WorkID}
	r, err := c.query(ctx, stmt, args...)
	return scanAll(r, err, func(r rows) error {
		if err := r.Scan(dest...); err != nil {
			return fmt.Errorf("read stamp of node: %w", err)
		}
		return each(uuid, stamp)
	})
}

func init() {
	builders = append(builders, func() []string {
		stmt, _, err := nodesStatement(selectStamps, NodeQuery{})
		if err != nil {
			panic(err)
		}
		return []string{stmt, selectStampsByUUID[1]}
	})
}
