package api

import (
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// inspectWaitSince is the version from which a node in "inspecting" is not to be patched.
const inspectWaitSince = 39

func conflict(format string, args ...any) *wire.Error {
	return wire.Errorf(http.StatusConflict, format, args...)
}

// checkChange refuses a PATCH that is fine as such and that the node's state does not allow.
func checkChange(before, n *store.Node, c *nodeChange) error {
	if err := checkHardwareChange(before, n); err != nil {
		return err
	}
	state := before.ProvisionState
	if n.Protected && !before.Protected && !state.In(provision.ProtectAllowed) {
		return conflict("Node %s can only be made protected in provision states %s, the current state is '%s'", n.UUID,
			strings.ReplaceAll(words(provision.ProtectAllowed), ", ", " or "), state)
	}
	if before.Owner != n.Owner && state == provision.Active && !c.mayMove {
		return conflict("Cannot update owner of node \"%s\" while it is in state \"%s\".", n.UUID, state)
	}
	// What a node that was never protected or retired has for a reason may stay: only a new one is wrong.
	if n.ProtectedReason != "" && n.ProtectedReason != before.ProtectedReason && !n.Protected {
		return wire.Invalid("The protected_reason field can only be set when protected is True")
	}
	if n.Retired && !before.Retired && state.In(provision.RetireRefused) {
		return conflict("Node %s can not have 'retired' set in provision state '%s', the current state is '%s'", n.UUID, state, state).
			Detailed("move it to manageable first")
	}
	if n.RetiredReason != "" && n.RetiredReason != before.RetiredReason && !n.Retired {
		return wire.Invalid("The retired_reason field can only be set when retired is True")
	}
	if n.InstanceUUID != "" && before.InstanceUUID != "" && n.InstanceUUID != before.InstanceUUID {
		return conflict("Node %s is associated with instance %s.", n.UUID, before.InstanceUUID)
	}
	return nil
}

// checkHardwareChange refuses what only a node may change that is not in use: how it is
// driven, and what it is asked for by. Its conductor group only needs it to be idle.
func checkHardwareChange(before, n *store.Node) error {
	hardware := changesHardware(before, n)
	reclassified := before.ResourceClass != n.ResourceClass && before.ResourceClass != ""
	if !hardware && !reclassified && before.ConductorGroup == n.ConductorGroup {
		return nil
	}
	if before.WorkID != "" && (hardware && !besideInspection(before, n) || before.ConductorGroup != n.ConductorGroup || dispatch.Busy(before)) {
		return dispatch.Locked(before) // also beside work that waits: it was planned for the hardware as it is described
	}
	allowed := before.ProvisionState.In(provision.InterfaceChangeAllowed)
	if hardware && !allowed && !before.Maintenance {
		return conflict("Node %s can not have %s updated unless it is in one of allowed (%s) states or in maintenance mode. Current state is '%s'.",
			n.UUID, changedHardware(before, n), unquoted(provision.InterfaceChangeAllowed), before.ProvisionState)
	}
	if reclassified && !allowed {
		return conflict("Node %s can not have resource_class updated unless it is in one of allowed (%s) states. Current state is '%s'.",
			n.UUID, unquoted(provision.InterfaceChangeAllowed), before.ProvisionState)
	}
	if before.Driver != n.Driver && before.ConsoleEnabled {
		return conflict("Node %s can not update the driver while the console is enabled. Please stop the console first.", n.UUID)
	}
	return nil
}

// besideInspection reports whether the change is of nothing that the node's inspection, which waits for
// the ramdisk, makes use of.
func besideInspection(before, n *store.Node) bool {
	same := func(kind string) bool { return before.Interfaces[kind] == n.Interfaces[kind] }
	return before.ProvisionState == provision.InspectWait && before.Driver == n.Driver &&
		same("boot") && same("inspect") && same("management") && same("power")
}

// patchable says why a node may not be patched at all in its state, nil when it may.
func patchable(n *store.Node, c *nodeChange) error {
	switch {
	case n.Maintenance && len(c.ops) == 1 && c.ops[0].Path == "/instance_uuid" && c.ops[0].Kind == patch.Remove:
		return nil // an instance that is gone may be forgotten while the node is looked after
	case n.TargetProvisionState != provision.NoState && n.ProvisionState != provision.Inspecting && !n.ProvisionState.In(provision.UpdateAllowed):
		return conflict("Node %s can not be updated while a state transition is in progress.", c.r.Param(0))
	case n.ProvisionState == provision.Inspecting && c.r.Version >= inspectWaitSince:
		return conflict("Cannot update node \"%s\" while it is in state \"%s\".", n.UUID, n.ProvisionState)
	}
	return nil
}

// checkDelete refuses to delete a node that is in use.
func (s *Server) checkDelete(n *store.Node) error {
	switch {
	case n.InstanceUUID != "" && !n.Maintenance:
		return conflict("Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	case n.Protected:
		return wire.Errorf(http.StatusForbidden, "Node %s is protected and cannot be undeployed, rebuilt or deleted", n.UUID)
	case !n.Maintenance && !n.ProvisionState.In(s.Nodes.deletable()):
		return conflict("Can not delete node %q while it is in provision state %q. Valid provision states to perform deletion are: \"(%s)\", "+
			"or set the node into maintenance mode",
			n.UUID, n.ProvisionState, words(s.Nodes.deletable()))
	case n.WorkID != "" && !(n.Maintenance && (s.ownerName(n) == "" || waits(n))):
		// With its rack gone for good, maintenance lets an operator delete a node
		// whose work nobody will ever end; and one whose work does nothing but wait.
		return dispatch.Locked(n)
	}
	return nil
}

// waits reports whether the node's work waits for its ramdisk, or for an operator: Ironic
// holds no lock on such a node.
func waits(n *store.Node) bool {
	in, _ := provision.Describe(n.ProvisionState)
	return in.Kind == provision.Waiting || in.Kind == provision.Held
}

// changedHardware is the field of how a node is driven that a change of it is refused for.
func changedHardware(before, n *store.Node) string {
	for _, kind := range node.InterfaceKinds {
		if before.Interfaces[kind] != n.Interfaces[kind] {
			return kind + "_interface"
		}
	}
	return "driver"
}

// unquoted and words list states: Ironic writes some lists with quotes and some without.
func unquoted(states []provision.State) string { return strings.ReplaceAll(words(states), "'", "") }

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
