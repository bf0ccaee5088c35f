package store

import (
	"context"
	"strconv"
	"time"
)

// VolumeConnector is a row of volume_connectors: a name under which a node shows
// itself to a storage system.
type VolumeConnector struct {
	UUID        string
	Node        string // UUID
	Type        string // "iqn", "wwpn", …
	ConnectorID string // unique with Type
	Extra       map[string]any
	CreatedAt   time.Time
	UpdatedAt   time.Time

	from string // node that it belonged to when a transaction read it
}

// VolumeTarget is a row of volume_targets: a remote volume that a node uses.
type VolumeTarget struct {
	UUID       string
	Node       string // UUID
	VolumeType string // "iscsi", "fibre_channel", …
	VolumeID   string
	BootIndex  int64          // unique in the node; 0: it boots from the volume
	Properties map[string]any // secrets sealed with the database key
	Extra      map[string]any
	CreatedAt  time.Time
	UpdatedAt  time.Time

	from string // node that it belonged to when a transaction read it
}

// Nodes are those whose racks see a change of the volume: its own, and the one that it has left.
func (v *VolumeConnector) Nodes() []string { return nodesOf(v.from, v.Node) }

// Nodes are those whose racks see a change of the volume: its own, and the one that it has left.
func (v *VolumeTarget) Nodes() []string { return nodesOf(v.from, v.Node) }

func nodesOf(from, to string) []string {
	if from == "" || from == to {
		return []string{to}
	}
	return []string{from, to}
}

var volumeConnectors = newTable(table[VolumeConnector]{
	name: "volume_connectors", noun: "volume connector",
	columns: []column[VolumeConnector]{
		{"uuid", key, func(v *VolumeConnector) any { return &v.UUID }},
		{"node", intent, func(v *VolumeConnector) any { return &v.Node }},
		{"created_at", key, func(v *VolumeConnector) any { return &v.CreatedAt }},
		{"updated_at", intent, func(v *VolumeConnector) any { return &v.UpdatedAt }},
		{"type", intent, func(v *VolumeConnector) any { return &v.Type }},
		{"connector_id", intent, func(v *VolumeConnector) any { return &v.ConnectorID }},
		{"extra", intent, func(v *VolumeConnector) any { return asObject(&v.Extra) }},
	},
	sorts:   []string{"updated_at", "node", "type", "connector_id"},
	filters: func(f *filter) { VolumeQuery{Nodes: []string{"n"}}.filter(f) },
	stamps:  func(v *VolumeConnector) (created, updated *time.Time) { return &v.CreatedAt, &v.UpdatedAt },
	value: func(v *VolumeConnector, field string) string {
		return map[string]string{"uuid": v.UUID, "connector_id": v.Type + " " + v.ConnectorID}[field]
	},
})

var volumeTargets = newTable(table[VolumeTarget]{
	name: "volume_targets", noun: "volume target",
	columns: []column[VolumeTarget]{
		{"uuid", key, func(v *VolumeTarget) any { return &v.UUID }},
		{"node", intent, func(v *VolumeTarget) any { return &v.Node }},
		{"created_at", key, func(v *VolumeTarget) any { return &v.CreatedAt }},
		{"updated_at", intent, func(v *VolumeTarget) any { return &v.UpdatedAt }},
		{"volume_type", intent, func(v *VolumeTarget) any { return &v.VolumeType }},
		{"volume_id", intent, func(v *VolumeTarget) any { return &v.VolumeID }},
		{"boot_index", intent, func(v *VolumeTarget) any { return &v.BootIndex }},
		{"properties", intent, func(v *VolumeTarget) any { return asObject(&v.Properties) }},
		{"extra", intent, func(v *VolumeTarget) any { return asObject(&v.Extra) }},
	},
	sorts:   []string{"updated_at", "node", "volume_type", "volume_id", "boot_index"},
	filters: func(f *filter) { VolumeQuery{Nodes: []string{"n"}}.filter(f) },
	stamps:  func(v *VolumeTarget) (created, updated *time.Time) { return &v.CreatedAt, &v.UpdatedAt },
	value: func(v *VolumeTarget, field string) string {
		return map[string]string{"uuid": v.UUID, "boot_index": strconv.FormatInt(v.BootIndex, 10)}[field]
	},
})

// VolumeQuery filters volume connectors and targets. An empty filter does not filter.
type VolumeQuery struct {
	Page
	Nodes []string // node UUIDs
}

func (q VolumeQuery) filter(f *filter) { f.in("t.node", q.Nodes) }

// VolumeConnector returns the connector with that UUID, or ErrNotFound.
func (s *Store) VolumeConnector(ctx context.Context, id string) (*VolumeConnector, error) {
	return volumeConnectors.one(ctx, s.engine, id, "")
}

// VolumeConnectors returns a page of connectors, with the errors of Nodes.
func (s *Store) VolumeConnectors(ctx context.Context, q VolumeQuery) ([]*VolumeConnector, error) {
	var f filter
	q.filter(&f)
	return volumeConnectors.page(ctx, s, f, q.Page)
}

// VolumeConnector returns the connector for a write that follows, or ErrNotFound.
func (tx *Tx) VolumeConnector(ctx context.Context, id string) (*VolumeConnector, error) {
	v, err := volumeConnectors.one(ctx, tx.conn, id, tx.s.lockRows("t"))
	if err == nil {
		v.from = v.Node
	}
	return v, err
}

// InsertVolumeConnector adds v and moves its node's revision on, or fails with a *DuplicateError (uuid, connector_id).
func (tx *Tx) InsertVolumeConnector(ctx context.Context, v *VolumeConnector) error {
	if err := volumeConnectors.insert(ctx, tx, v); err != nil {
		return err
	}
	return tx.advanceSeen(ctx, v.Node)
}

// UpdateVolumeConnector writes all of v and moves the revision of its node on, and of one that it leaves. Errors: those of
// InsertVolumeConnector, and ErrNotFound.
func (tx *Tx) UpdateVolumeConnector(ctx context.Context, v *VolumeConnector) error {
	if err := volumeConnectors.update(ctx, tx, v); err != nil {
		return err
	}
	return tx.touchAll(ctx, v.Nodes())
}

// DeleteVolumeConnector removes v and moves its node's revision on, or fails with ErrNotFound.
func (tx *Tx) DeleteVolumeConnector(ctx context.Context, v *VolumeConnector) error {
	if err := volumeConnectors.remove(ctx, tx, v.UUID); err != nil {
		return err
	}
	return tx.touchSeen(ctx, v.Node)
}

// VolumeTarget returns the target with that UUID, or ErrNotFound.
func (s *Store) VolumeTarget(ctx context.Context, id string) (*VolumeTarget, error) {
	return volumeTargets.one(ctx, s.engine, id, "")
}

// VolumeTargets returns a page of targets, with the errors of Nodes.
func (s *Store) VolumeTargets(ctx context.Context, q VolumeQuery) ([]*VolumeTarget, error) {
	var f filter
	q.filter(&f)
	return volumeTargets.page(ctx, s, f, q.Page)
}

// VolumeTarget returns the target for a write that follows, or ErrNotFound.
func (tx *Tx) VolumeTarget(ctx context.Context, id string) (*VolumeTarget, error) {
	v, err := volumeTargets.one(ctx, tx.conn, id, tx.s.lockRows("t"))
	if err == nil {
		v.from = v.Node
	}
	return v, err
}

// InsertVolumeTarget adds v and moves its node's revision on, or fails with a *DuplicateError (uuid, boot_index).
func (tx *Tx) InsertVolumeTarget(ctx context.Context, v *VolumeTarget) error {
	if err := volumeTargets.insert(ctx, tx, v); err != nil {
		return err
	}
	return tx.advanceSeen(ctx, v.Node)
}

// UpdateVolumeTarget writes all of v and moves the revision of its node on, and of one that it leaves. Errors: those of
// InsertVolumeTarget, and ErrNotFound.
func (tx *Tx) UpdateVolumeTarget(ctx context.Context, v *VolumeTarget) error {
	if err := volumeTargets.update(ctx, tx, v); err != nil {
		return err
	}
	return tx.touchAll(ctx, v.Nodes())
}

// DeleteVolumeTarget removes v and moves its node's revision on, or fails with ErrNotFound.
func (tx *Tx) DeleteVolumeTarget(ctx context.Context, v *VolumeTarget) error {
	if err := volumeTargets.remove(ctx, tx, v.UUID); err != nil {
		return err
	}
	return tx.touchSeen(ctx, v.Node)
}

// touchAll is touchSeen of several nodes.
func (tx *Tx) touchAll(ctx context.Context, nodes []string) error {
	for _, n := range nodes {
		if err := tx.touchSeen(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
