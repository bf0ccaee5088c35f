package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// portColumns is the ports table in the order in which it is read.
var portColumns = []column[Port]{
	{"uuid", key, func(p *Port) any { return &p.UUID }},
	{"node", intent, func(p *Port) any { return &p.Node }},
	{"created_at", key, func(p *Port) any { return &p.CreatedAt }},
	{"updated_at", intent, func(p *Port) any { return &p.UpdatedAt }},
	{"empty_texts", intent, func(p *Port) any { return (*string)(&p.EmptyTexts) }},
	{"address", intent, func(p *Port) any { return &p.Address }},
	{"name", intent, func(p *Port) any { return &p.Name }},
	{"description", intent, func(p *Port) any { return &p.Description }},
	{"pxe_enabled", intent, func(p *Port) any { return &p.PXEEnabled }},
	{"is_smartnic", intent, func(p *Port) any { return &p.IsSmartNIC }},
	{"physical_network", intent, func(p *Port) any { return &p.PhysicalNetwork }},
	{"portgroup_uuid", intent, func(p *Port) any { return &p.PortgroupUUID }},
	{"available_for_dynamic_portgroup", intent, func(p *Port) any { return &p.AvailableForDynamicPortgroup }},
	{"vendor", intent, func(p *Port) any { return &p.Vendor }},
	{"category", intent, func(p *Port) any { return &p.Category }},
	{"local_link_connection", intent, func(p *Port) any { return asObject(&p.LocalLinkConnection) }},
	{"extra", intent, func(p *Port) any { return asObject(&p.Extra) }},
	{"internal_info", intent, func(p *Port) any { return asObject(&p.InternalInfo) }},
}

var portSorts = map[string]bool{"uuid": true, "created_at": true, "updated_at": true, "node": true, "portgroup_uuid": true, "address": true, "name": true,
	"pxe_enabled": true, "physical_network": true, "is_smartnic": true, "description": true, "vendor": true, "category": true,
	"available_for_dynamic_portgroup": true}

var (
	selectPorts         = "SELECT " + names(portColumns, "p.") + " FROM ports p"
	selectPortByUUID    = register(selectPorts + " WHERE p.uuid = $1")
	selectPortByAddress = register(selectPorts + " WHERE p.address = $1")
	selectPortByName    = register(selectPorts + " WHERE p.name = $1")
	selectPortsOfNode   = register(selectPorts + " WHERE p.node = $1 ORDER BY p.uuid")
	selectPortExists    = register("SELECT uuid FROM ports WHERE uuid = $1")
	insertPort          = register("INSERT INTO ports (" + names(portColumns, "") + ") VALUES (" + placeholders(1, len(portColumns)) + ")")
	updatePort          = register("UPDATE ports SET " + assignments(portColumns, 2, intent) + " WHERE uuid = $1")
	deletePort          = register("DELETE FROM ports WHERE uuid = $1")
)

func readPorts(ctx context.Context, c conn, stmt string, args ...any) ([]*Port, error) {
	var list []*Port
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		p := new(Port)
		list = append(list, p)
		if err := r.Scan(fields(portColumns, p)...); err != nil {
			return err
		}
		p.asRead = p.sight()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ports: %w", err)
	}
	return list, nil
}

func readPort(ctx context.Context, c conn, ident string) (*Port, error) {
	stmt := selectPortByName
	if id, err := uuid.Parse(ident); err == nil && len(ident) == 36 {
		stmt, ident = selectPortByUUID, id.String()
	} else if strings.Count(ident, ":") == 5 {
		stmt, ident = selectPortByAddress, strings.ToLower(ident)
	}
	list, err := readPorts(ctx, c, stmt, ident)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || ident == "" {
		return nil, fmt.Errorf("port %s: %w", ident, ErrNotFound)
	}
	return list[0], nil
}

// Port returns the port with that UUID, name or MAC address, or ErrNotFound.
func (s *Store) Port(ctx context.Context, ident string) (*Port, error) {
	return readPort(ctx, s.engine, ident)
}

// Port returns the port with that UUID, name or address, or ErrNotFound.
func (tx *Tx) Port(ctx context.Context, ident string) (*Port, error) {
	return readPort(ctx, tx.conn, ident)
}

// Ports returns the node's ports.
func (tx *Tx) Ports(ctx context.Context, node string) ([]*Port, error) {
	return readPorts(ctx, tx.conn, selectPortsOfNode, node)
}

// Ports returns a page of ports, with the errors of Nodes.
func (s *Store) Ports(ctx context.Context, q PortQuery) ([]*Port, error) {
	stmt, args, err := portsStatement(q)
	if err != nil {
		return nil, err
	}
	list, err := readPorts(ctx, s.engine, stmt, args...)
	if err == nil && len(list) == 0 && q.Marker != "" {
		err = s.markerExists(ctx, selectPortExists, "port", q.Marker)
	}
	return list, err
}

func portsStatement(q PortQuery) (string, []any, error) {
	if q.SortKey == "" {
		q.SortKey = "created_at"
	}
	if !portSorts[q.SortKey] {
		return "", nil, &InvalidSortError{q.SortKey}
	}
	var f filter
	f.in("p.uuid", q.UUIDs)
	f.in("p.node", q.Nodes)
	f.equal("p.address", strings.ToLower(q.Address))
	f.in("p.portgroup_uuid", q.Portgroups)
	if q.DescriptionContains != "" {
		f.contains("p.description", q.DescriptionContains)
	}
	join := ""
	if len(q.Shards) > 0 || len(q.ConductorGroups) > 0 {
		join = " JOIN nodes n ON n.uuid = p.node"
		f.inShards(q.Shards)
		f.in("n.conductor_group", q.ConductorGroups)
	}
	tail := f.page(q.Page, "ports", "p", q.SortKey)
	return selectPorts + join + tail, f.args, nil
}

func init() {
	builders = append(builders, func() []string {
		var out []string
		for sort := range portSorts {
			for _, desc := range []bool{false, true} {
				stmt, _, err := portsStatement(PortQuery{Page: Page{Marker: "m", SortKey: sort, Desc: desc, Project: "p"}, UUIDs: []string{"a"}, Nodes: []string{"n", "m"},
					Address: "a", Portgroups: []string{"p"}, DescriptionContains: "d", Shards: []string{"s"}, ConductorGroups: []string{"g"}})
				if err != nil {
					panic(err)
				}
				out = append(out, stmt)
			}
		}
		return out
	})
}

// value returns a unique field of p.
func (p *Port) value(field string) string {
	return map[string]string{"uuid": p.UUID, "address": p.Address, "name": p.Name}[field]
}

// InsertPort adds p and moves its node's revision on, or fails with a
// *DuplicateError (uuid, address, name), or ErrNotFound when there is no such node.
func (tx *Tx) InsertPort(ctx context.Context, p *Port) error {
	p.Address = strings.ToLower(p.Address)
	if p.CreatedAt.IsZero() {
		p.CreatedAt = tx.s.now()
	}
	if _, err := tx.conn.exec(ctx, insertPort, fields(portColumns, p)...); err != nil {
		return fmt.Errorf("insert port %s of node %s: %w", p.Address, p.Node, tx.s.taken(err, p.value))
	}
	tx.noteRow("port", p.UUID, p.Node, "create")
	p.asRead = p.sight()
	return tx.advanceSeen(ctx, p.Node)
}

// UpdatePort writes all of p and moves the revision of its node on, and of a node that the port
// leaves. Tell reaches their racks if the port was not read, or differs in what they see.
// Errors: those of InsertPort.
func (tx *Tx) UpdatePort(ctx context.Context, p *Port) error {
	p.Address, p.UpdatedAt = strings.ToLower(p.Address), tx.s.now()
	rows, err := tx.conn.exec(ctx, updatePort, append([]any{p.UUID}, fields(portColumns, p, intent)...)...)
	if err == nil && rows == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("update port %s of node %s: %w", p.UUID, p.Node, tx.s.taken(err, p.value))
	}
	tx.noteRow("port", p.UUID, p.Node, "update")
	before := p.asRead
	if p.asRead = p.sight(); p.asRead == before {
		return tx.Touch(ctx, p.Node)
	}
	if before.node != "" && before.node != p.Node {
		err = tx.touchSeen(ctx, before.node)
	}
	return errors.Join(err, tx.touchSeen(ctx, p.Node))
}

// DeletePort removes the port and moves its node's revision on.
func (tx *Tx) DeletePort(ctx context.Context, p *Port) error {
	rows, err := tx.conn.exec(ctx, deletePort, p.UUID)
	if err == nil && rows == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete port %s of node %s: %w", p.UUID, p.Node, err)
	}
	tx.noteRow("port", p.UUID, p.Node, "delete")
	return tx.touchSeen(ctx, p.Node)
}

// TenantVIF is the key of internal_info under which a port or portgroup keeps the
// virtual interface that is attached to it.
const TenantVIF = "tenant_vif_port_id"

// DetachVIFs takes the virtual interfaces from all ports and portgroups of a node.
func (tx *Tx) DetachVIFs(ctx context.Context, node string) error {
	ports, err := tx.Ports(ctx, node)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if _, attached := p.InternalInfo[TenantVIF]; attached {
			delete(p.InternalInfo, TenantVIF)
			if err := tx.UpdatePort(ctx, p); err != nil {
				return err
			}
		}
	}
	groups, err := tx.Portgroups(ctx, node)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if _, attached := g.InternalInfo[TenantVIF]; attached {
			delete(g.InternalInfo, TenantVIF)
			if err := tx.UpdatePortgroup(ctx, g); err != nil {
				return err
			}
		}
	}
	return nil
}
