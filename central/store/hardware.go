package store

import (
	"context"
	"fmt"
	"time"
)

// HardwareKind says what a row of node_hardware is about.
type HardwareKind string

// The kinds.
const (
	BIOSSetting       HardwareKind = "bios"
	FirmwareComponent HardwareKind = "firmware"
)

// HardwareItem is a row of node_hardware: one of the many like things that a rack
// observed of a machine.
type HardwareItem struct {
	Name string
	// Initial is what the writer gave when the item was first seen; later writes keep it.
	Initial   string
	Data      string // JSON, as the writer gave it
	CreatedAt time.Time
	UpdatedAt time.Time // zero until Data changes
}

var (
	selectHardware = register("SELECT name, initial, data, created_at, updated_at FROM node_hardware WHERE node = $1 AND kind = $2 ORDER BY name")
	clearHardware  = register("DELETE FROM node_hardware WHERE node = $1 AND kind = $2")
)

func pruneHardware(names []string) (string, []any) {
	list, args := inList(3, names)
	return "DELETE FROM node_hardware WHERE node = $1 AND kind = $2 AND name NOT IN (" + list + ")", args
}

// upsertHardware leaves rows alone whose data is the same.
func upsertHardware(rows int) string {
	return "INSERT INTO node_hardware (node, kind, name, initial, data, created_at, updated_at) VALUES " + valueRows(rows, 7, nil) +
		" ON CONFLICT (node, kind, name) DO UPDATE SET data = excluded.data, updated_at = excluded.created_at WHERE node_hardware.data <> excluded.data"
}

func init() {
	builders = append(builders, func() []string {
		prune, _ := pruneHardware([]string{"a", "b"})
		return []string{prune, upsertHardware(2)}
	})
}

func hardware(ctx context.Context, c conn, node string, kind HardwareKind) ([]*HardwareItem, error) {
	var list []*HardwareItem
	r, err := c.query(ctx, selectHardware, node, string(kind))
	err = scanAll(r, err, func(r rows) error {
		item := new(HardwareItem)
		list = append(list, item)
		return r.Scan(&item.Name, &item.Initial, &item.Data, &micros{&item.CreatedAt}, &micros{&item.UpdatedAt})
	})
	if err != nil {
		return nil, fmt.Errorf("read the %s of node %s: %w", kind, node, err)
	}
	return list, nil
}

// Hardware returns the node's items of a kind, in order of name.
func (s *Store) Hardware(ctx context.Context, node string, kind HardwareKind) ([]*HardwareItem, error) {
	return hardware(ctx, s.engine, node, kind)
}

// Hardware is Store.Hardware inside of the transaction.
func (tx *Tx) Hardware(ctx context.Context, node string, kind HardwareKind) ([]*HardwareItem, error) {
	return hardware(ctx, tx.conn, node, kind)
}

// SetHardware makes items, whose names differ, all that the node has of a kind.
func (tx *Tx) SetHardware(ctx context.Context, node string, kind HardwareKind, items []*HardwareItem) error {
	failed := func(err error) error { return fmt.Errorf("write the %s of node %s: %w", kind, node, err) }
	if len(items) == 0 {
		if _, err := tx.conn.exec(ctx, clearHardware, node, string(kind)); err != nil {
			return failed(err)
		}
		return nil
	}
	var names []string
	for _, item := range items {
		names = append(names, item.Name)
	}
	stmt, list := pruneHardware(names)
	if _, err := tx.conn.exec(ctx, stmt, append([]any{node, string(kind)}, list...)...); err != nil {
		return failed(err)
	}
	for len(items) > 0 {
		part := items[:min(len(items), maxRows)]
		items = items[len(part):]
		var args []any
		for _, item := range part {
			args = append(args, node, string(kind), item.Name, item.Initial, item.Data, tx.s.now().UnixMicro(), int64(0))
		}
		if _, err := tx.conn.exec(ctx, upsertHardware(len(part)), args...); err != nil {
			return failed(err)
		}
	}
	return nil
}
