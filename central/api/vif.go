package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// vifChoiceSince is the version from which a VIF may be attached to a port or portgroup
// of the caller's choice.
const vifChoiceSince microversion.Version = 67

// noopNetwork is the network interface that takes part in nothing: whatever is attached
// to it or detached from it is neither checked nor kept.
const noopNetwork = "noop"

func (s *Server) nodeVIFs() Resource {
	const all = "nodes/{node}/vifs"
	return Resource{Since: 28, Routes: []Route{
		{Method: http.MethodGet, Path: all, Summary: "List the virtual interfaces of a node", Policy: "baremetal:node:vif:list", Handle: s.listVIFs, Shows: vifsAnswer},
		{Method: http.MethodPost, Path: all, Summary: "Attach a virtual interface to a node", Policy: "baremetal:node:vif:attach", Handle: s.attachVIF, Takes: attachVIFBody, Success: http.StatusNoContent},
		{Method: http.MethodDelete, Path: all + "/{vif}", Summary: "Detach a virtual interface from a node", Policy: "baremetal:node:vif:detach", Handle: s.detachVIF},
	}}
}

// vifOf is the VIF in the internal_info of a port or portgroup; empty for none.
func vifOf(info map[string]any) string {
	vif, _ := info[store.TenantVIF].(string)
	return vif
}

// socket is a port or a portgroup: what a VIF can be attached to.
type socket struct {
	kind, uuid  string // "Port" or "Portgroup"
	info        *map[string]any
	free        bool // it has no VIF, nor has what it is a part of, or its parts
	pxe, placed bool // boots from the network; is in a physical network
	save        func() error
}

// sockets returns those of a node, the ones that take a VIF first at the front.
func sockets(ctx context.Context, tx *store.Tx, node string) ([]*socket, error) {
	ports, err := tx.Ports(ctx, node)
	if err != nil {
		return nil, err
	}
	groups, err := tx.Portgroups(ctx, node)
	if err != nil {
		return nil, err
	}
	byGroup := map[string]*socket{}
	alone := map[string]bool{} // members may be used by themselves
	var list []*socket
	for _, g := range groups {
		byGroup[g.UUID] = &socket{kind: "Portgroup", uuid: g.UUID, info: &g.InternalInfo, free: vifOf(g.InternalInfo) == "",
			placed: g.PhysicalNetwork != "", save: func() error { return tx.UpdatePortgroup(ctx, g) }}
		alone[g.UUID] = g.StandalonePortsSupported
	}
	members := map[string]int{}
	for _, p := range ports {
		k := &socket{kind: "Port", uuid: p.UUID, info: &p.InternalInfo, free: vifOf(p.InternalInfo) == "", pxe: p.PXEEnabled,
			placed: p.PhysicalNetwork != "", save: func() error { return tx.UpdatePort(ctx, p) }}
		list = append(list, k)
		g := byGroup[p.PortgroupUUID]
		if g == nil {
			continue
		}
		members[g.uuid]++
		g.pxe, g.placed = g.pxe || k.pxe, g.placed || k.placed
		if vifOf(p.InternalInfo) != "" {
			g.free = false
		}
		if vifOf(*g.info) != "" || !alone[g.uuid] {
			k.free = false
		}
	}
	for id, g := range byGroup {
		g.free = g.free && members[id] > 0
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *socket) int {
		return cmp.Or(yesFirst(a.placed, b.placed), yesFirst(a.kind == "Portgroup", b.kind == "Portgroup"), yesFirst(a.pxe, b.pxe),
			cmp.Compare(a.uuid, b.uuid))
	})
	return list, nil
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (s *Server) listVIFs(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	ports, err := s.Store.Ports(r.Context(), store.PortQuery{Nodes: []string{n.UUID}})
	if err != nil {
		return Reply{}, storeError(err)
	}
	groups, err := s.Store.Portgroups(r.Context(), store.PortgroupQuery{Nodes: []string{n.UUID}})
	if err != nil {
		return Reply{}, storeError(err)
	}
	var vifs []string
	for _, p := range ports {
		vifs = append(vifs, vifOf(p.InternalInfo))
	}
	for _, g := range groups {
		vifs = append(vifs, vifOf(g.InternalInfo))
	}
	b := []byte(`{"vifs":[`)
	for _, vif := range vifs {
		if vif == "" {
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(wire.AppendString(append(b, `{"id":`...), vif), '}')
	}
	return ok(append(b, `]}`...))
}

// attachment is the body of a request to attach a VIF.
type attachment struct {
	vif, port, portgroup string
	// besides are the names of what else the request says of the VIF.
	besides []string
}

func readAttachment(r *Request) (a attachment, err error) {
	body, err := r.Object()
	if err != nil {
		return a, err
	}
	if _, given := body["id"]; !given {
		return a, wire.Invalid("Schema error for vif: 'id' is a required property")
	}
	id, isText := body["id"].(string)
	if !isText {
		return a, wire.Invalid("Schema error for vif: %s is not of type 'string'", wire.Repr(body["id"]))
	}
	if a.vif, err = nameOrUUID(r, id); err != nil {
		return a, wire.Invalid("Expected UUID or name for id: %.80s", id)
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if name != "id" && (r.Version < vifChoiceSince || name != "port_uuid" && name != "portgroup_uuid") {
			a.besides = append(a.besides, fmt.Sprintf("%.60s", name))
		}
	}
	if r.Version < vifChoiceSince {
		return a, nil // what else there is means nothing yet
	}
	for name, at := range map[string]*string{"port_uuid": &a.port, "portgroup_uuid": &a.portgroup} {
		v, given := body[name]
		if !given {
			continue
		}
		text, _ := v.(string)
		id, isUUID := wire.UUID(text)
		if !isUUID {
			return a, wire.Invalid("Expected UUID for %s: %.80s", name, text)
		}
		*at = id
	}
	if a.port != "" && a.portgroup != "" {
		return a, wire.Invalid("Cannot specify both port_uuid and portgroup_uuid")
	}
	return a, nil
}

// choose returns the socket that a goes to.
func (a *attachment) choose(list []*socket) (*socket, error) {
	for _, k := range list {
		if vifOf(*k.info) == a.vif {
			return nil, conflict("Unable to attach VIF because VIF %s is already attached to Ironic %s %s", a.vif, k.kind, k.uuid)
		}
	}
	wanted := cmp.Or(a.port, a.portgroup)
	for _, k := range list {
		if k.free && (wanted == "" || k.uuid == wanted) {
			return k, nil
		}
	}
	return nil, wire.Invalid("Unable to attach VIF %s, not enough free physical ports.", a.vif)
}

func (s *Server) attachVIF(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	a, err := readAttachment(r)
	if err != nil {
		return Reply{}, err
	}
	return s.changeVIFs(r, func(ctx context.Context, tx *store.Tx, n *store.Node, list []*socket) error {
		k, err := a.choose(list)
		if err != nil {
			return err
		}
		if a.besides != nil {
			if err := tellHistory(ctx, r, tx, n, fmt.Sprintf("of VIF %.80s nothing but its id is kept, and no rack acts on: %.500s", a.vif, strings.Join(a.besides, ", "))); err != nil {
				return err
			}
		}
		info := maps.Clone(*k.info)
		if info == nil {
			info = map[string]any{}
		}
		info[store.TenantVIF] = a.vif
		*k.info = info
		return k.save()
	})
}

func (s *Server) detachVIF(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	vif, err := nameOrUUID(r, r.Param(1))
	if err != nil {
		return Reply{}, wire.Invalid("Expected UUID or name for vif_id: %.80s", r.Param(1))
	}
	return s.changeVIFs(r, func(_ context.Context, _ *store.Tx, n *store.Node, list []*socket) error {
		for _, k := range list {
			if vifOf(*k.info) == vif {
				info := maps.Clone(*k.info)
				delete(info, store.TenantVIF)
				*k.info = info
				return k.save()
			}
		}
		return wire.Invalid("Unable to detach VIF %s from node %s because it is not attached to it.", vif, n.UUID)
	})
}

// changeVIFs runs change on the sockets of the path's node, unless its network
// interface takes no part. The rack sees nothing of them.
func (s *Server) changeVIFs(r *Request, change func(context.Context, *store.Tx, *store.Node, []*socket) error) (Reply, error) {
	err := s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		if dispatch.Busy(n) {
			return dispatch.Locked(n)
		}
		if _, err := s.dispatch.Owner(n, http.StatusBadRequest); err != nil {
			return err
		}
		if n.Interfaces["network"] == noopNetwork {
			return tx.Touch(ctx, n.UUID)
		}
		list, err := sockets(ctx, tx, n.UUID)
		if err != nil {
			return err
		}
		return change(ctx, tx, n, list)
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}
