package store

import (
	"context"
	"encoding/json"
	"fmt"
)

var (
	selectInventory = register("SELECT data, plugin_data, known_disks FROM node_inventory WHERE node = $1")
	upsertInventory = register("INSERT INTO node_inventory (node, data, plugin_data, updated_at) VALUES ($1, $2, $3, $4) " +
		"ON CONFLICT (node) DO UPDATE SET data = excluded.data, plugin_data = excluded.plugin_data, updated_at = excluded.updated_at")
	updateProcessed = register("UPDATE node_inventory SET plugin_data = $2, known_disks = $3 WHERE node = $1")
)

// Inventory is what an inspection found, as JSON texts.
type Inventory struct {
	Data   []byte // agentapi.Inventory
	Plugin []byte // an object: what came beside it, and what hooks and rules have added; empty for nothing
	// Serials are those of the disks that the last inspection that was not refused found, which
	// may be an older one than Data is of; nil: not known.
	Serials []string
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
	var data, plugin, serials string
	r, err := c.query(ctx, selectInventory, node)
	err = scanAll(r, err, func(r rows) error { return r.Scan(&data, &plugin, &serials) })
	if err == nil && data == "" {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("inventory of node %s: %w", node, err)
	}
	i := &Inventory{Data: []byte(data), Plugin: []byte(plugin)}
	if serials != "" {
		if err := json.Unmarshal([]byte(serials), &i.Serials); err != nil {
			return nil, fmt.Errorf("disks of node %s: %w", node, err)
		}
	}
	return i, nil
}

// SetInventory replaces the node's inventory, and what came beside it, by JSON texts. The serial
// numbers stay as they are until it is processed.
func (tx *Tx) SetInventory(ctx context.Context, node string, i Inventory) error {
	if _, err := tx.conn.exec(ctx, upsertInventory, node, string(i.Data), string(i.Plugin), tx.s.now().UnixMicro()); err != nil {
		return fmt.Errorf("write inventory of node %s: %w", node, err)
	}
	return nil
}

// SetProcessed replaces what is beside the node's inventory, and the serial numbers of its disks.
func (tx *Tx) SetProcessed(ctx context.Context, node string, plugin []byte, serials []string) error {
	disks, err := json.Marshal(serials)
	if err == nil {
		_, err = tx.conn.exec(ctx, updateProcessed, node, string(plugin), string(disks))
	}
	if err != nil {
		return fmt.Errorf("write what was made of the inventory of node %s: %w", node, err)
	}
	return nil
}
