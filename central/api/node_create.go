package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// enrollSince is the version from which new nodes start in enroll.
const enrollSince = 11

func (s *Server) createNode(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	n := &store.Node{AcceptedState: provision.Available, Interfaces: map[string]string{}, DriverInfo: map[string]any{},
		Properties: map[string]any{}, InstanceInfo: map[string]any{}, Extra: map[string]any{}, NetworkData: map[string]any{}}
	if r.Version >= enrollSince {
		n.AcceptedState = provision.Enroll
	}
	if body["conductor_group"] == "" {
		delete(body, "conductor_group") // which says nothing, in no version
	}
	n.ProvisionState = n.AcceptedState
	if err := nodeTable.Create(r.Version, body, &nodeView{Node: n, version: r.Version}); err != nil {
		return Reply{}, err
	}
	for _, name := range []string{"owner", "resource_class", "retired", "disable_power_off"} {
		n.EmptyTexts.Set(name, false) // a new node has none, and "", or null of the latter two, says no more
	}
	if n.Name != "" {
		if err := checkName(r, n.Name, "Cannot create node with invalid name"); err != nil {
			return Reply{}, err
		}
	}
	if n.ConsoleEnabled {
		return Reply{}, wire.Invalid("console_enabled is true for a new node, and its console is off: leave it out, and switch the console on with PUT /v1/nodes/%s/states/console", cmp.Or(n.UUID, "{node}"))
	}
	if err := cmp.Or(s.claim(r, n), s.mayCreateWith(r, body, n)); err != nil {
		return Reply{}, err
	}
	if n.UUID == "" {
		n.GiveUUID()
	}
	s.Nodes.complete(n)
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	if err := s.modernise(n, func(kind string) bool { return n.Interfaces[kind] != "" }); err != nil {
		return Reply{}, err
	}
	m, err := s.dispatch.Owner(n, http.StatusBadRequest)
	if err != nil {
		return Reply{}, err
	}
	if err := cmp.Or(checkGroup(n), fitInterfaces(n, m), checkProperties(n)); err != nil {
		return Reply{}, err
	}
	if err := newlyWrong(n, nil); err != nil {
		return Reply{}, err
	}
	if n.DriverInfo, err = s.sealSecrets(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, "driver_info", n.DriverInfo, nil); err != nil {
		return Reply{}, err
	}
	if n.InstanceInfo, err = s.sealSecrets(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID}, "instance_info", n.InstanceInfo, nil); err != nil {
		return Reply{}, err
	}
	asked := *n
	err = s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		*n = asked // each attempt anew
		if err := s.checkPlace(ctx, r, tx, nil, n); err != nil {
			return err
		}
		if err := s.keepDrive(ctx, tx, n, nil); err != nil {
			return err
		}
		if err := checkSize(n); err != nil {
			return err
		}
		if err := tx.InsertNode(ctx, n); err != nil {
			return err
		}
		if pinFirst(n) {
			if err := tx.UpdateObservation(ctx, n); err != nil {
				return err
			}
		}
		return tx.Enqueue(ctx, left(n))
	})
	if err != nil {
		return Reply{}, storeError(instanceTaken(err, n))
	}
	reply, err := lent(s.appendNode(s.smallBuffer(), r, nodeTable.All(r.Version), n))
	reply.Status, reply.Location = http.StatusCreated, r.Base+"/v1/nodes/"+n.UUID
	return reply, err
}

// claim gives a node that a project enrols for itself to that project.
func (s *Server) claim(r *Request, n *store.Node) error {
	if !s.selfService(r, createOwn) {
		return nil
	}
	if n.Owner != "" && n.Owner != r.Caller.Project {
		return wire.Invalid("Cannot create a node as a project scoped admin with an owner other than your own project.")
	}
	n.Owner = r.Caller.Project
	return nil
}

// checkName refuses a name that no node can bear.
func checkName(r *Request, name, refusal string) error {
	if slices.Contains(wire.ReservedNames, name) {
		return wire.Invalid("The word \"%s\" is reserved and can not be used as a node name. Reserved words are: %s.",
			name, strings.Join(wire.ReservedNames, ", "))
	}
	if !wire.ValidName(name, r.Version) {
		return wire.Invalid("%s '%.80s'", refusal, name)
	}
	return nil
}

func checkGroup(n *store.Node) error {
	if strings.Trim(n.ConductorGroup, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
		return wire.Invalid("Schema error for node: conductor_group %.80q does not match '^[a-zA-Z0-9_\\-\\.]*$'", n.ConductorGroup)
	}
	return nil
}

// fitInterfaces checks the node's interfaces against what the rackd offers for its
// driver, and fills in the driver's first for those that are not named.
func fitInterfaces(n *store.Node, m bus.Member) error {
	offered := m.Drivers[n.Driver]
	for _, kind := range node.InterfaceKinds {
		name, choice := n.Interfaces[kind], offered[kind]
		switch {
		case name == "" && len(choice) > 0:
			n.Interfaces[kind] = choice[0]
		case name == "":
			delete(n.Interfaces, kind)
		case !slices.Contains(choice, name):
			return wire.Invalid("Could not find the following interface in the 'ironic.hardware.interfaces.%s' entrypoint: %.80s. "+
				"Valid interfaces are ['%s'].", kind, name, strings.Join(slices.Sorted(slices.Values(choice)), "', '"))
		}
	}
	return nil
}
