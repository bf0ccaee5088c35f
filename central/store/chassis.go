package store

import (
	"context"
	"time"
)

// Chassis is a row of chassis: a label that nodes may share.
type Chassis struct {
	UUID        string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	EmptyTexts  EmptyTexts
	Description string
	Extra       map[string]any
}

var chassis = newTable(table[Chassis]{
	name: "chassis", noun: "chassis",
	columns: []column[Chassis]{
		{"uuid", key, func(c *Chassis) any { return &c.UUID }},
		{"created_at", key, func(c *Chassis) any { return &c.CreatedAt }},
		{"updated_at", intent, func(c *Chassis) any { return &c.UpdatedAt }},
		{"empty_texts", intent, func(c *Chassis) any { return (*string)(&c.EmptyTexts) }},
		{"description", intent, func(c *Chassis) any { return &c.Description }},
		{"extra", intent, func(c *Chassis) any { return asObject(&c.Extra) }},
	},
	sorts:  []string{"updated_at", "description"},
	stamps: func(c *Chassis) (created, updated *time.Time) { return &c.CreatedAt, &c.UpdatedAt },
	value:  func(c *Chassis, _ string) string { return c.UUID },
})

var selectNodeInChassis = register("SELECT n.uuid FROM nodes n WHERE n.chassis_uuid = $1 LIMIT 1")

// Chassis returns the chassis with that UUID, or ErrNotFound.
func (s *Store) Chassis(ctx context.Context, id string) (*Chassis, error) {
	return chassis.one(ctx, s.engine, id, "")
}

// ChassisPage returns a page of chassis, with the errors of Nodes.
func (s *Store) ChassisPage(ctx context.Context, p Page) ([]*Chassis, error) {
	return chassis.page(ctx, s, filter{}, p)
}

// Chassis returns the chassis for a write that follows, or ErrNotFound.
func (tx *Tx) Chassis(ctx context.Context, id string) (*Chassis, error) {
	return chassis.one(ctx, tx.conn, id, tx.s.lockRows("t"))
}

// InsertChassis adds c, or fails with a *DuplicateError (uuid).
func (tx *Tx) InsertChassis(ctx context.Context, c *Chassis) error { return chassis.insert(ctx, tx, c) }

// UpdateChassis writes all of c, or fails with ErrNotFound.
func (tx *Tx) UpdateChassis(ctx context.Context, c *Chassis) error { return chassis.update(ctx, tx, c) }

// DeleteChassis removes c, or fails with ErrNotFound.
func (tx *Tx) DeleteChassis(ctx context.Context, c *Chassis) error {
	return chassis.remove(ctx, tx, c.UUID)
}

// ChassisInUse reports whether a node is in the chassis.
func (tx *Tx) ChassisInUse(ctx context.Context, id string) (bool, error) {
	used := false
	r, err := tx.conn.query(ctx, selectNodeInChassis, id)
	err = scanAll(r, err, func(rows) error { used = true; return nil })
	return used, err
}
