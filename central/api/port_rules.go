package api

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// placedBy are the fields of a port that checkPort is about.
var placedBy = []string{"node_uuid", "portgroup_uuid", "pxe_enabled", "physical_network"}

// checkPort checks what the fields of a port cannot check alone. before is nil for a new one.
// alone says that its portgroup must be one whose ports work by themselves: Ironic asks for that
// where a new port says that it boots from the network, and where the network interface minds.
func checkPort(ctx context.Context, tx *store.Tx, before, p *store.Port, alone bool) error {
	if p.PortgroupUUID == "" {
		return nil
	}
	group, err := tx.Portgroup(ctx, p.PortgroupUUID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.Invalid("Portgroup %s could not be found.", p.PortgroupUUID)
	case err != nil:
		return err
	case group.Node != p.Node:
		return wire.Invalid("Port can not be added to a portgroup belonging to a different node.")
	case alone && !group.StandalonePortsSupported:
		return conflict("Port group %s doesn't support standalone ports. This port cannot be created as a member of that portgroup as the "+
			"port's 'pxe_enabled' field was set to True.", group.UUID)
	}
	if before != nil && before.PortgroupUUID == p.PortgroupUUID && before.PhysicalNetwork == p.PhysicalNetwork {
		return nil
	}
	return checkPhysicalNetwork(ctx, tx, group, p)
}

// checkPhysicalNetwork holds that all ports of a portgroup are in one physical network. The
// first one brings its own along, unless the portgroup has one.
func checkPhysicalNetwork(ctx context.Context, tx *store.Tx, group *store.Portgroup, p *store.Port) error {
	members, err := membersOf(ctx, tx, group)
	if err != nil {
		return err
	}
	network := group.PhysicalNetwork
	members = slices.DeleteFunc(members, func(m *store.Port) bool { return m.UUID == p.UUID })
	switch {
	case len(members) > 0:
		network = members[0].PhysicalNetwork
	case network == "" && p.PhysicalNetwork != "":
		group.PhysicalNetwork = p.PhysicalNetwork
		return tx.UpdatePortgroup(ctx, group)
	case network == "":
		return nil
	}
	if network != p.PhysicalNetwork {
		return conflict("Port with physical network %s cannot become a member of port group %s which has ports in physical network %s.",
			cmp.Or(p.PhysicalNetwork, "None"), group.UUID, cmp.Or(network, "None"))
	}
	return nil
}

// checkPortChange refuses a change that the state of node n does not allow, to which the
// port belongs when it is made.
func checkPortChange(r *Request, n *store.Node, before, p *store.Port) error {
	link := string(wire.AppendValue(nil, p.LocalLinkConnection)) != string(wire.AppendValue(nil, before.LocalLinkConnection))
	connected := link || before.PortgroupUUID != p.PortgroupUUID || before.PXEEnabled != p.PXEEnabled || before.PhysicalNetwork != p.PhysicalNetwork
	switch {
	case n.ProvisionState == provision.Inspecting && r.Version >= inspectWaitSince:
		return conflict("Cannot update port %s on node %s while it is in state %q.", p.UUID, n.UUID, n.ProvisionState)
	case before.Address != p.Address && inUse(n) && !n.Maintenance:
		return conflict("Cannot update hardware address for port %s as node %s is active or an instance UUID is associated, "+
			"and it is not in maintenance mode.", p.UUID, n.UUID)
	case connected && !n.Maintenance && !n.ProvisionState.In(rewired):
		return conflict("Port %s can not have any connectivity attributes (pxe_enabled, portgroup_id, physical_network, "+
			"local_link_connection) updated unless node %s is in one of the states %s or in maintenance mode. Its state is %q.",
			p.UUID, n.UUID, words(rewired), n.ProvisionState)
	}
	return nil
}

// movedPort returns the node that port p has moved to from node n, and what speaks
// against it. A port that is in use there stays.
func (s *Server) movedPort(ctx context.Context, r *Request, tx *store.Tx, n *store.Node, p *store.Port) (*store.Node, error) {
	if vif := vifOf(p.InternalInfo); vif != "" && !n.Maintenance {
		return nil, conflict("Cannot move the port %s from node %s as it is still bound to VIF %s; detach it first.", p.UUID, n.UUID, vif)
	}
	to, err := s.linkedNode(ctx, r, tx, p.Node)
	if err != nil {
		return nil, err
	}
	return to, s.allowed(r, "baremetal:port:update", to)
}
