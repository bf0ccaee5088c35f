package api

import (
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// inspectWaitSince is the version from which a node in "inspecting" is not to be patched.
const inspectWaitSince = 39

func conflict(format string, args ...any) error {
	return wire.Errorf(http.StatusConflict, format, args...)
}

// checkChange refuses a PATCH that the node's state does not allow.
func checkChange(before, n *store.Node, c *nodeChange) error {
	if !patchable(before, c) {
		return conflict("Node %s can not be updated while a state transition is in progress.", n.UUID)
	}
	state := before.ProvisionState
	reclassified := before.ResourceClass != n.ResourceClass && before.ResourceClass != ""
	if changesHardware(before, n) || reclassified || before.ConductorGroup != n.ConductorGroup {
		if before.WorkID != "" {
			return dispatch.Locked(before)
		}
		if !state.In(provision.InterfaceChangeAllowed) && !before.Maintenance {
			return conflict("Node %s can not have its driver, interfaces, resource_class or conductor_group updated unless it is in one of "+
				"the states %s or in maintenance mode.", n.UUID, words(provision.InterfaceChangeAllowed))
		}
	}
	if before.Driver != n.Driver && before.ConsoleEnabled {
		return conflict("Node %s can not change its driver while its console is enabled.", n.UUID)
	}
	if n.Protected && !before.Protected && !state.In(provision.ProtectAllowed) {
		return conflict("Node %s can only be protected in the states %s, it is in %q.", n.UUID, words(provision.ProtectAllowed), state)
	}
	if before.Owner != n.Owner && state == provision.Active && !c.mayMove {
		return conflict("Node %s can not be given to another owner while it is in state %q.", n.UUID, state)
	}
	if n.ProtectedReason != "" && !n.Protected {
		return wire.Invalid("protected_reason can only be set on a protected node.")
	}
	if n.Retired && !before.Retired && state.In(provision.RetireRefused) {
		return conflict("Node %s can not be retired in state %q; move it to manageable first.", n.UUID, state)
	}
	if n.RetiredReason != "" && !n.Retired {
		return wire.Invalid("retired_reason can only be set on a retired node.")
	}
	if n.InstanceUUID != "" && before.InstanceUUID != "" && n.InstanceUUID != before.InstanceUUID {
		return conflict("Node %s is associated with instance %s.", n.UUID, before.InstanceUUID)
	}
	return nil
}

// patchable reports whether a node may be patched at all in its state.
func patchable(n *store.Node, c *nodeChange) bool {
	switch {
	case n.TargetProvisionState == provision.NoState || n.ProvisionState.In(provision.UpdateAllowed):
		return true
	case n.ProvisionState == provision.Inspecting:
		return c.r.Version < inspectWaitSince
	}
	// An instance that is gone may be forgotten while the node is looked after.
	return n.Maintenance && len(c.ops) == 1 && c.ops[0].Path == "/instance_uuid" && c.ops[0].Kind == patch.Remove
}

// checkDelete refuses to delete a node that is in use.
func (s *Server) checkDelete(n *store.Node) error {
	switch {
	case n.Protected:
		return wire.Errorf(http.StatusForbidden, "Node %s is protected and can not be undeployed, rebuilt or deleted.", n.UUID)
	case n.InstanceUUID != "" && !n.Maintenance:
		return conflict("Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	case !n.Maintenance && !n.ProvisionState.In(provision.DeleteAllowed):
		return conflict("Can not delete node %q while it is in provision state %q. Valid provision states to delete are: %s, or set the node into maintenance mode",
			n.UUID, n.ProvisionState, words(provision.DeleteAllowed))
	case n.WorkID != "" && !(n.Maintenance && s.ownerName(n) == ""):
		// With its rack gone for good, maintenance lets an operator delete a node
		// whose work nobody will ever end.
		return dispatch.Locked(n)
	}
	return nil
}

func words(states []provision.State) string {
	var b strings.Builder
	for i, s := range states {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + string(s) + "'")
	}
	return b.String()
}
