package store

import (
	"context"
	"fmt"
)

var (
	selectInventory = register("SELECT data FROM node_inventory WHERE node = $1")
	upsertInventory = register("INSERT INTO node_inventory (node, data, updated_at) VALUES ($1, $2, $3) " +
		"ON CONFLICT (node) DO UPDATE SET data = excluded.data, updated_at = excluded.updated_at")
)

// Inventory returns the JSON of the node's inventory (agentapi.Inventory), or ErrNotFound.
func (s *Store) Inventory(ctx context.Context, node string) ([]byte, error) {
	var data string
	r, err := s.engine.query(ctx, selectInventory, node)
	err = scanAll(r, err, func(r rows) error { return r.Scan(&data) })
	if err == nil && data == "" {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("inventory of node %s: %w", node, err)
	}
	return []byte(data), nil
}

// SetInventory replaces the node's inventory by JSON text.
func (tx *Tx) SetInventory(ctx context.Context, node string, data []byte) error {
	if _, err := tx.conn.exec(ctx, upsertInventory, node, string(data), tx.s.now().UnixMicro()); err != nil {
		return fmt.Errorf("write inventory of node %s: %w", node, err)
	}
	return nil
}
