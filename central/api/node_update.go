package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

const (
	resetInterfacesSince = 45
	// unsetChassisSince is the version from which chassis_uuid may be removed.
	unsetChassisSince = 25
)

func (s *Server) updateNode(r *Request) (Reply, error) {
	if err := r.Query.Allow("reset_interfaces"); err != nil {
		return Reply{}, err
	}
	reset, err := r.Query.Bool("reset_interfaces")
	if err != nil {
		return Reply{}, err
	}
	if reset != nil && r.Version < resetInterfacesSince {
		return Reply{}, wire.NotAcceptable("The argument reset_interfaces", resetInterfacesSince)
	}
	ops, err := readPatch(r, patch.Parse)
	if err != nil {
		return Reply{}, err
	}
	change := &nodeChange{r: r, ops: ops, reset: reset != nil && *reset}
	if change.touched, err = nodeTable.Admit(r.Version, ops); err != nil {
		return Reply{}, err
	}
	if err := cmp.Or(checkReset(change), checkNewNetworkData(r, ops)); err != nil {
		return Reply{}, err
	}
	var n *store.Node
	err = s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) (err error) {
		if n, err = s.nodeForWrite(ctx, r, tx, r.Param(0)); err != nil {
			return err
		}
		if err := s.mayChange(r, ops, n); err != nil {
			return err
		}
		group := n.ConductorGroup
		change.mayMove = s.allowed(r, "baremetal:node:update_owner_provisioned", n) == nil
		if err := s.change(ctx, tx, n, change); err != nil {
			return err
		}
		if change.pins {
			if err := tx.UpdateObservation(ctx, n); err != nil {
				return err
			}
		}
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		out := []*store.Outbox{left(n)}
		if group != n.ConductorGroup {
			out = append(out, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: group})
		}
		return tx.Tell(ctx, out...)
	})
	if err != nil {
		return Reply{}, storeError(instanceTaken(err, n))
	}
	return lent(s.appendNode(s.smallBuffer(), r, nodeTable.All(r.Version), n))
}

// instanceTaken says of an error whether it is that n is to have the instance of another node.
func instanceTaken(err error, n *store.Node) error {
	if taken, is := errors.AsType[*store.DuplicateError](err); is && taken.Field == "instance_uuid" {
		return conflict("Instance %s is already associated with a node, it cannot be associated with this other node %s", taken.Value, n.UUID)
	}
	return err
}

// left is the outbox entry of a node that its transaction has read as a whole, or made, and
// that nobody changes any more.
func left(n *store.Node) *store.Outbox {
	o := dispatch.Dirty(n)
	o.Left = n
	return o
}

// checkReset refuses to reset the interfaces of a node that keeps its driver.
func checkReset(c *nodeChange) error {
	driver := func(op patch.Op) bool { return op.Path == "/driver" && op.Kind != patch.Remove }
	if c.reset && !slices.ContainsFunc(c.ops, driver) {
		return wire.Invalid("The reset_interfaces parameter can only be used when changing the node's driver.")
	}
	return nil
}

// checkNewNames refuses a PATCH that gives a node a name it cannot bear. To take the name
// away is to remove it.
func checkNewNames(r *Request, ops []patch.Op) error {
	for _, op := range ops {
		if op.Root() != "name" || !op.Whole() || op.Kind == patch.Remove {
			continue
		}
		if r.Version < wire.NameSince {
			return wire.NotAcceptable("Field name", wire.NameSince)
		}
		name, isText := op.Value.(string)
		if !isText {
			return wire.Invalid("Node %s: Cannot change name to invalid name '%.80s'", r.Param(0), wire.Repr(op.Value))
		}
		if err := checkName(r, name, "Node "+r.Param(0)+": Cannot change name to invalid name"); err != nil {
			return err
		}
	}
	return nil
}

// nodeChange is a PATCH of a node.
type nodeChange struct {
	r       *Request
	ops     []patch.Op // admitted
	touched []string   // fields, by ops
	reset   bool       // reset_interfaces
	// pins: racks are to pin the BMC's key again (pinAnew).
	pins bool
	// mayMove: the owner may change while the node is in use.
	mayMove bool
}

func (c *nodeChange) touches(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(c.touched, name) })
}

// change applies c to n, or says why it must not be.
func (s *Server) change(ctx context.Context, tx *store.Tx, n *store.Node, c *nodeChange) error {
	if n.Interfaces == nil {
		n.Interfaces = map[string]string{}
	}
	before := *n
	before.Interfaces = maps.Clone(n.Interfaces)
	c.pins = false // the transaction may be run again
	ops, err := s.withParent(ctx, tx, n, c)
	if err := cmp.Or(err, patchable(n, c), checkNewNames(c.r, c.ops)); err != nil {
		return err
	}
	if err := nodeTable.Apply(ops, c.touched, &nodeView{Node: n, version: c.r.Version}); err != nil {
		return err
	}
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	if c.reset && (changesHardware(&before, n) || c.touches("conductor_group")) {
		forgetInterfaces(n, c)
	}
	if err := s.modernise(n, func(kind string) bool { return c.touches(kind + "_interface") }); err != nil {
		return err
	}
	if c.touches("lessee") {
		n.LentTo = "" // from now on the lessee is the operator's
	}
	if before.Protected && !n.Protected {
		n.ProtectedReason = ""
		n.EmptyTexts.Set("protected_reason", false)
	}
	if !n.Retired && (before.Retired || before.EmptyTexts.Has("retired") && !n.EmptyTexts.Has("retired")) { // null is not false
		n.RetiredReason = ""
		n.EmptyTexts.Set("retired_reason", false)
	}
	if before.ChassisUUID != "" && n.ChassisUUID == "" && c.r.Version < unsetChassisSince {
		return wire.NotAcceptable("Removing chassis_uuid", unsetChassisSince)
	}
	if name, isText := n.InstanceInfo["display_name"].(string); isText && n.InstanceName == "" && c.touches("instance_info") {
		n.InstanceName = name // older clients name instances there
	}
	if err := checkGroup(n); err != nil {
		return err
	}
	if before.Driver != n.Driver || before.ConductorGroup != n.ConductorGroup { // one that nobody serves is said to be wrong whatever the node does
		if _, err := s.dispatch.Owner(n, http.StatusBadRequest); err != nil {
			return err
		}
	}
	if err := checkChange(&before, n, c); err != nil {
		return err
	}
	if n.ParentNode != before.ParentNode || n.Owner != before.Owner || n.Lessee != before.Lessee || n.ConductorGroup != before.ConductorGroup ||
		changesHardware(&before, n) || c.touches("driver_info") {
		if err := dispatch.Engaged(ctx, tx, &before); err != nil {
			return err
		}
	}
	if before.AllocationUUID != "" && n.Owner != before.Owner && n.Owner != "" {
		if err := checkAllocated(ctx, tx, &before); err != nil {
			return err
		}
	}
	if before.AllocationUUID != "" && n.InstanceUUID == "" {
		if err := deallocate(ctx, tx, &before, n); err != nil {
			return err
		}
	}
	if err := s.checkPlace(ctx, c.r, tx, &before, n); err != nil {
		return err
	}
	if err := s.refit(&before, n, c); err != nil {
		return err
	}
	if c.touches("properties") {
		if err := checkProperties(n); err != nil {
			return err
		}
	}
	if c.touches("driver_info") {
		if err := newlyWrong(n, before.DriverInfo); err != nil {
			return err
		}
		if n.DriverInfo, err = s.sealSecrets(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, "driver_info", n.DriverInfo, before.DriverInfo); err != nil {
			return err
		}
		if err := s.checkSecretPlaces(c.r, &before, n); err != nil {
			return err
		}
		if err := s.pinAnew(&before, n, c); err != nil {
			return err
		}
	}
	if c.touches("instance_info") {
		if n.InstanceInfo, err = s.sealSecrets(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID}, "instance_info", n.InstanceInfo, before.InstanceInfo); err != nil {
			return err
		}
		if err := s.checkSecretPlaces(c.r, &before, n); err != nil {
			return err
		}
		if err := s.keepDrive(ctx, tx, n, before.InstanceInfo); err != nil {
			return err
		}
	}
	if c.touches("driver_info", "instance_info", "properties") {
		return checkSize(n)
	}
	return nil
}

// refit fits the interfaces when the driver, an interface or the group changes.
func (s *Server) refit(before, n *store.Node, c *nodeChange) error {
	if !changesHardware(before, n) && !c.touches("conductor_group") {
		return nil
	}
	m, err := s.dispatch.Owner(n, http.StatusBadRequest)
	if err != nil {
		return err
	}
	return fitInterfaces(n, m)
}

// forgetInterfaces is reset_interfaces: those that the request does not name become the driver's defaults.
func forgetInterfaces(n *store.Node, c *nodeChange) {
	for _, kind := range node.InterfaceKinds {
		if !c.touches(kind + "_interface") {
			delete(n.Interfaces, kind)
		}
	}
}

func changesHardware(before, n *store.Node) bool {
	return before.Driver != n.Driver || !maps.Equal(before.Interfaces, n.Interfaces)
}

// readPatch reads the body of a PATCH.
func readPatch(r *Request, parse func(any) ([]patch.Op, error)) ([]patch.Op, error) {
	body, err := r.JSON(wire.MaxBody)
	if err != nil {
		return nil, err
	}
	return parse(body)
}
