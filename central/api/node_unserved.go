package api

import (
	"context"
	"strings"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// unserved adds to a validation what clients have said of the node's network and volumes and no rack acts on: it is kept
// and shown, as those clients expect, and the machine has nothing of it.
func (s *Server) unserved(ctx context.Context, n *store.Node, found map[string]ask.Validation) error {
	var network, storage []string
	ports, err := s.Store.Ports(ctx, store.PortQuery{Nodes: []string{n.UUID}})
	if err != nil {
		return err
	}
	for _, p := range ports {
		if _, attached := p.InternalInfo[store.TenantVIF]; attached {
			network = append(network, "the VIF of port "+p.Address)
		}
		if p.IsSmartNIC {
			network = append(network, "is_smartnic of port "+p.Address)
		}
	}
	groups, err := s.Store.Portgroups(ctx, store.PortgroupQuery{Nodes: []string{n.UUID}})
	if err != nil {
		return err
	}
	if len(groups) > 0 {
		network = append(network, "its port groups")
	}
	volumes := store.VolumeQuery{Nodes: []string{n.UUID}, Page: store.Page{Limit: 1}}
	connectors, err := s.Store.VolumeConnectors(ctx, volumes)
	if err != nil {
		return err
	}
	targets, err := s.Store.VolumeTargets(ctx, volumes)
	if err != nil {
		return err
	}
	if kind := n.Interfaces["storage"]; len(connectors)+len(targets) > 0 && (kind == "" || kind == "noop") {
		storage = append(storage, "its volumes (the storage interface noop uses none: external does)")
	}
	for kind, list := range map[string][]string{"network": network, "storage": storage} {
		v, heard := found[kind]
		if !heard || v.Result == nil || !*v.Result || len(list) == 0 {
			continue
		}
		if v.Reason != "" { // what the rack says of fields of its own
			v.Reason += "; "
		}
		v.Reason += "kept, and no rack acts on it: " + strings.Join(list, ", ")
		found[kind] = v
	}
	return nil
}
