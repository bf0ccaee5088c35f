package store

import (
	"context"
	"time"
)

// Portgroup is a row of portgroups: ports of a node that are bonded.
type Portgroup struct {
	UUID                     string
	Node                     string // UUID
	Address                  string // MAC, lower case, colons; empty for none
	Name                     string
	Mode                     string
	StandalonePortsSupported bool
	Dynamic                  bool // made by a network interface, not by an operator
	PhysicalNetwork          string
	Category                 string
	Properties               map[string]any
	Extra                    map[string]any
	InternalInfo             map[string]any
	CreatedAt                time.Time
	UpdatedAt                time.Time
	EmptyTexts               EmptyTexts
}

// portgroups joins each group's node, by whose fields lists are filtered.
var portgroups = newTable(table[Portgroup]{
	name: "portgroups", noun: "portgroup", join: " JOIN nodes n ON n.uuid = t.node",
	columns: []column[Portgroup]{
		{"uuid", key, func(p *Portgroup) any { return &p.UUID }},
		{"node", intent, func(p *Portgroup) any { return &p.Node }},
		{"created_at", key, func(p *Portgroup) any { return &p.CreatedAt }},
		{"updated_at", intent, func(p *Portgroup) any { return &p.UpdatedAt }},
		{"empty_texts", intent, func(p *Portgroup) any { return (*string)(&p.EmptyTexts) }},
		{"address", intent, func(p *Portgroup) any { return &p.Address }},
		{"name", intent, func(p *Portgroup) any { return &p.Name }},
		{"mode", intent, func(p *Portgroup) any { return &p.Mode }},
		{"standalone_ports_supported", intent, func(p *Portgroup) any { return &p.StandalonePortsSupported }},
		{"dynamic_portgroup", intent, func(p *Portgroup) any { return &p.Dynamic }},
		{"physical_network", intent, func(p *Portgroup) any { return &p.PhysicalNetwork }},
		{"category", intent, func(p *Portgroup) any { return &p.Category }},
		{"properties", intent, func(p *Portgroup) any { return asObject(&p.Properties) }},
		{"extra", intent, func(p *Portgroup) any { return asObject(&p.Extra) }},
		{"internal_info", intent, func(p *Portgroup) any { return asObject(&p.InternalInfo) }},
	},
	idents: []string{"name"},
	sorts: []string{"updated_at", "node", "address", "name", "mode", "standalone_ports_supported", "dynamic_portgroup",
		"physical_network", "category"},
	filters: func(f *filter) {
		PortgroupQuery{Nodes: []string{"n"}, Address: "a", Shards: []string{"s"}, ConductorGroups: []string{"g"}}.filter(f)
	},
	stamps: func(p *Portgroup) (created, updated *time.Time) { return &p.CreatedAt, &p.UpdatedAt },
	value: func(p *Portgroup, field string) string {
		return map[string]string{"uuid": p.UUID, "address": p.Address, "name": p.Name}[field]
	},
})

var (
	selectPortgroupsOfNode = register(portgroups.selectAll + " WHERE t.node = $1 ORDER BY t.uuid")
	selectPortInGroup      = register("SELECT p.uuid FROM ports p WHERE p.portgroup_uuid = $1 LIMIT 1")
)

// PortgroupQuery filters portgroups. A nil or empty filter does not filter.
type PortgroupQuery struct {
	Page
	Nodes           []string // node UUIDs
	Address         string
	Shards          []string // of the node
	ConductorGroups []string // of the node
}

func (q PortgroupQuery) filter(f *filter) {
	f.in("t.node", q.Nodes)
	f.set("t.address", q.Address)
	f.inShards(q.Shards)
	f.in("n.conductor_group", q.ConductorGroups)
}

// Portgroup returns the portgroup with that UUID or name, or ErrNotFound.
func (s *Store) Portgroup(ctx context.Context, ident string) (*Portgroup, error) {
	return portgroups.one(ctx, s.engine, ident, "")
}

// Portgroups returns a page of portgroups, with the errors of Nodes.
func (s *Store) Portgroups(ctx context.Context, q PortgroupQuery) ([]*Portgroup, error) {
	var f filter
	q.filter(&f)
	return portgroups.page(ctx, s, f, q.Page)
}

// Portgroup returns the portgroup for a write that follows, or ErrNotFound.
func (tx *Tx) Portgroup(ctx context.Context, ident string) (*Portgroup, error) {
	return portgroups.one(ctx, tx.conn, ident, tx.s.lockRows("t"))
}

// Portgroups returns the node's portgroups.
func (tx *Tx) Portgroups(ctx context.Context, node string) ([]*Portgroup, error) {
	return portgroups.read(ctx, tx.conn, selectPortgroupsOfNode, node)
}

// InsertPortgroup adds p and moves its node's revision on, or fails with a
// *DuplicateError (uuid, address, name), or ErrNotFound when there is no such node.
func (tx *Tx) InsertPortgroup(ctx context.Context, p *Portgroup) error {
	if err := portgroups.insert(ctx, tx, p); err != nil {
		return err
	}
	return tx.advance(ctx, p.Node)
}

// UpdatePortgroup writes all of p and moves its node's revision on; that of a node which it
// leaves is its caller's to move (Touch). Errors: those of InsertPortgroup.
func (tx *Tx) UpdatePortgroup(ctx context.Context, p *Portgroup) error {
	if err := portgroups.update(ctx, tx, p); err != nil {
		return err
	}
	return tx.Touch(ctx, p.Node)
}

// DeletePortgroup removes p and moves its node's revision on.
func (tx *Tx) DeletePortgroup(ctx context.Context, p *Portgroup) error {
	if err := portgroups.remove(ctx, tx, p.UUID); err != nil {
		return err
	}
	return tx.Touch(ctx, p.Node)
}

// PortgroupInUse reports whether a port is in the portgroup.
func (tx *Tx) PortgroupInUse(ctx context.Context, id string) (bool, error) {
	used := false
	r, err := tx.conn.query(ctx, selectPortInGroup, id)
	err = scanAll(r, err, func(rows) error { used = true; return nil })
	return used, err
}
