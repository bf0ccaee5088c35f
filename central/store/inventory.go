package store

import (
	"context"
	"fmt"
)

var (
	selectInventory = register("SELECT data, plugin_data FROM node_inventory WHERE node = $1")
	upsertInventory = register("INSERT INTO node_inventory (node, data, plugin_data, updated_at) VALUES ($1, $2, $3, $4) " +
		"ON CONFLICT (node) DO UPDATE SET data = excluded.data, plugin_data = excluded.plugin_data, updated_at = excluded.updated_at")
	updatePluginData = register("UPDATE node_inventory SET plugin_data = $2 WHERE node = $1")
)

// Inventory is what an inspection found, as JSON texts.
type Inventory struct {
	Data   []byte // agentapi.Inventory
	Plugin []byte // an object: what came beside it, and what hooks and rules have added; empty for nothing
}

// Inventory returns what the node's last inspection found, or ErrNotFound.
func (s *Store) Inventory(ctx context.Context, node string) (*Inventory, error) {
	return inventory(ctx, s.engine, node)
}

// Inventory returns what the node's last inspection found, or ErrNotFound.
func (tx *Tx) Inventory(ctx context.Context, node string) (*Inventory, error) {
	return inventory(ctx, tx.conn, node)
}

func inventory(ctx context.Context, c conn, node string) (*Inventory, error) {
	var data, plugin string
	r, err := c.query(ctx, selectInventory, node)
	err = scanAll(r, err, func(r rows) error { return r.Scan(&data, &plugin) })
	if err == nil && data == "" {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("inventory of node %s: %w", node, err)
	}
	return &Inventory{[]byte(data), []byte(plugin)}, nil
}

// SetInventory replaces the node's inventory, and what came beside it, by JSON texts.
func (tx *Tx) SetInventory(ctx context.Context, node string, i Inventory) error {
	if _, err := tx.conn.exec(ctx, upsertInventory, node, string(i.Data), string(i.Plugin), tx.s.now().UnixMicro()); err != nil {
		return fmt.Errorf("write inventory of node %s: %w", node, err)
	}
	return nil
}

// SetPluginData replaces what is beside the node's inventory.
func (tx *Tx) SetPluginData(ctx context.Context, node string, plugin []byte) error {
	if _, err := tx.conn.exec(ctx, updatePluginData, node, string(plugin)); err != nil {
		return fmt.Errorf("write plugin data of node %s: %w", node, err)
	}
	return nil
}
