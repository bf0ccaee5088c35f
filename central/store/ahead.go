package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// readAhead are nodes that a group's transaction has read for its members, all in one
// statement before the first of them runs: what each would read by itself is most of what
// it waits for. A node is there until its member takes it, or another writes what it is made of.
type readAhead map[string]*Node

// UpdateOf is Update for an f that reads a node by its UUID, for a write, before it writes
// anything: Tx.Node may find it read along with those of others. Any other identifier is
// as good as none.
func (s *Store) UpdateOf(ctx context.Context, node string, f func(ctx context.Context, tx *Tx) error) error {
	if IsUUID(node) {
		ctx = context.WithValue(ctx, aheadKey{}, strings.ToLower(node))
	}
	return s.Update(ctx, f)
}

type aheadKey struct{}

// wantedAhead returns the nodes that members want read, each once.
func wantedAhead(members []*member) (ids []string) {
	for _, m := range members {
		if id, _ := m.ctx.Value(aheadKey{}).(string); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// read reads nodes as Tx.Node does.
func (a readAhead) read(ctx context.Context, c conn, ids []string) error {
	scan := borrowScanner()
	defer scan.giveBack()
	for part := range slices.Chunk(ids, maxGathered) {
		stmt, args := selectNodesByUUID.of(part)
		r, err := c.query(ctx, stmt, args...)
		err = scanAll(r, err, func(r rows) error {
			n, err := scan.node(r)
			if err == nil {
				n.asRead, err = scan.values()
			}
			if err == nil {
				a[n.UUID] = n
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("read %d nodes for those who write them: %w", len(part), err)
		}
	}
	return nil
}

// take hands a node out, once: who has it may change it. nil: it has to be read.
func (a readAhead) take(ident string) *Node {
	n := a[ident]
	delete(a, ident)
	return n
}

// wrote drops what a statement may have changed.
func (a readAhead) wrote(stmt string, args []any) {
	switch {
	case len(a) == 0:
	case strings.HasPrefix(stmt, updateOneNode):
		delete(a, args[0].(string))
	case strings.Contains(stmt, "nodes"), strings.Contains(stmt, "node_traits"), strings.Contains(stmt, "works"):
		clear(a)
	}
}
