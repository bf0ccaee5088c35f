package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// rewired are the states in which it may change how a node is connected.
var rewired = []provision.State{provision.Enroll, provision.Inspecting, provision.InspectWait, provision.Manageable}

// namedNode reads the node that a new port-like object or volume is to belong to, for a
// write: the request is wrong when there is none. Work on it does not look at what is new.
func (s *Server) namedNode(ctx context.Context, r *Request, tx *store.Tx, id string) (*store.Node, error) {
	n, err := s.nodeForWrite(ctx, r, tx, id)
	return n, asReference(err)
}

// linkedNode is namedNode for what is there already: not while a rackd works on the node.
func (s *Server) linkedNode(ctx context.Context, r *Request, tx *store.Tx, id string) (*store.Node, error) {
	n, err := s.namedNode(ctx, r, tx, id)
	if err == nil && dispatch.Busy(n) {
		err = dispatch.Locked(n)
	}
	return n, err
}

// referenced refuses a request about what is to belong to a node that is not there.
func (s *Server) referenced(r *Request, id string) error {
	_, err := s.node(r, id)
	return asReference(err)
}

// asReference makes of an error that something is not there that of a request that names it.
func asReference(err error) error {
	if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusNotFound {
		return wire.Invalid("%s", e.Text)
	}
	return err
}

// checkPortgroup checks what the fields of a portgroup cannot check alone. before is nil
// for a new one. Its rack sees nothing of it.
func (s *Server) checkPortgroup(ctx context.Context, r *Request, tx *store.Tx, before, p *store.Portgroup) error {
	read := s.linkedNode
	if before == nil {
		read = s.namedNode
	}
	n, err := read(ctx, r, tx, p.Node)
	if err != nil {
		return err
	}
	if p.Mode == "" && before == nil {
		p.Mode = defaultMode
		p.EmptyTexts.Set("mode", false)
	}
	switch valid := p.Name == "" || wire.Logical(p.Name); {
	case !valid && before == nil:
		return wire.Invalid("Cannot create portgroup with invalid name '%.80s'", p.Name)
	case !valid:
		return wire.Invalid("Portgroup %s: Cannot change name to invalid name '%.80s'", r.Param(0), p.Name)
	}
	if before != nil {
		if before.Node != p.Node {
			if err := s.movedPortgroup(ctx, r, tx, before, n); err != nil {
				return err
			}
		}
		if err := checkPortgroupChange(r, n, p); err != nil {
			return err
		}
		if err := checkMembers(ctx, tx, n, before, p); err != nil {
			return err
		}
		if err := rewire(ctx, tx, before, p); err != nil {
			return err
		}
	}
	return nil
}

// mayPatchPortgroup refuses to take the mode away. It may become null all the same.
func mayPatchPortgroup(r *Request, ops []patch.Op, _ *store.Portgroup) error {
	for _, op := range slices.Backward(ops) {
		switch {
		case op.Path != "/mode" || r.Version < portgroupModeSince:
		case op.Kind == patch.Remove:
			return wire.Invalid("'mode' is a mandatory attribute and can not be removed")
		default:
			return nil
		}
	}
	return nil
}

// checkPortgroupChange refuses a change that the state of node n does not allow. Unlike those
// of a port, address and physical network may change in every other state, as in Ironic.
func checkPortgroupChange(r *Request, n *store.Node, p *store.Portgroup) error {
	if n.ProvisionState == provision.Inspecting && r.Version >= inspectWaitSince {
		return conflict("Cannot update portgroup %s on node %s while it is in state %q.", p.UUID, n.UUID, n.ProvisionState)
	}
	return nil
}

// movedPortgroup says what speaks against a portgroup's move to node n, and marks the node
// that it leaves as changed.
func (s *Server) movedPortgroup(ctx context.Context, r *Request, tx *store.Tx, before *store.Portgroup, n *store.Node) error {
	from, err := s.linkedNode(ctx, r, tx, before.Node)
	if err != nil {
		return err
	}
	if err := s.allowed(r, "baremetal:portgroup:update", n); err != nil {
		return err
	}
	used, err := tx.PortgroupInUse(ctx, before.UUID)
	switch vif := vifOf(before.InternalInfo); {
	case err != nil:
		return err
	case !n.ProvisionState.In(rewired) && !n.Maintenance:
		return conflict("Portgroup %s can not be associated to node %s unless the node is in a %s state or in maintenance mode.",
			before.UUID, n.UUID, words(rewired))
	case used:
		return wire.Invalid("Portgroup %s can not be associated with node %s because there are ports associated with this portgroup.",
			before.UUID, n.UUID)
	case vif != "" && !from.Maintenance:
		return conflict("Cannot move the portgroup %s from node %s as VIF %s is attached to it; detach it first.", before.UUID, from.UUID, vif)
	}
	return tx.Touch(ctx, from.UUID)
}

// rewire takes the ports of a portgroup along into its new physical network.
func rewire(ctx context.Context, tx *store.Tx, before, p *store.Portgroup) error {
	if before.PhysicalNetwork == p.PhysicalNetwork {
		return nil
	}
	members, err := membersOf(ctx, tx, p)
	for _, m := range members {
		m.PhysicalNetwork = p.PhysicalNetwork
		err = errors.Join(err, tx.UpdatePort(ctx, m))
	}
	return err
}

// checkMembers refuses a change that does not fit the ports of the portgroup, where the
// network interface of its node n minds.
func checkMembers(ctx context.Context, tx *store.Tx, n *store.Node, before, p *store.Portgroup) error {
	if !before.StandalonePortsSupported || p.StandalonePortsSupported || n.Interfaces["network"] == noopNetwork {
		return nil
	}
	members, err := membersOf(ctx, tx, p)
	for _, m := range members {
		if m.PXEEnabled || vifOf(m.InternalInfo) != "" {
			return conflict("standalone_ports_supported can not be set to False: port %s of portgroup %s has pxe_enabled set, or a VIF.", m.UUID, p.UUID)
		}
	}
	return err
}

// membersOf returns the ports of a portgroup.
func membersOf(ctx context.Context, tx *store.Tx, p *store.Portgroup) ([]*store.Port, error) {
	ports, err := tx.Ports(ctx, p.Node)
	var members []*store.Port
	for _, port := range ports {
		if port.PortgroupUUID == p.UUID {
			members = append(members, port)
		}
	}
	return members, err
}

// inUse reports whether somebody's instance is on the node.
func inUse(n *store.Node) bool {
	return n.ProvisionState == provision.Active || n.InstanceUUID != ""
}

// mayRemovePortgroup refuses to remove a portgroup that has ports or a VIF.
func (s *Server) mayRemovePortgroup(ctx context.Context, r *Request, tx *store.Tx, p *store.Portgroup) error {
	n, err := s.linkedNode(ctx, r, tx, p.Node)
	if err != nil {
		return err
	}
	used, err := tx.PortgroupInUse(ctx, p.UUID)
	switch {
	case err != nil:
		return err
	case used:
		return wire.Invalid("Cannot complete the requested action because portgroup %s contains ports.", p.UUID)
	case vifOf(p.InternalInfo) != "" && !n.Maintenance:
		return conflict("Cannot delete the portgroup %s as VIF %s is attached to it; detach it first.", p.UUID, vifOf(p.InternalInfo))
	}
	return nil
}
