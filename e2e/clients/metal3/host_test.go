package metal3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// access is what a BMC's address makes of a host.
type access struct {
	driver, boot, firmware, raid string
	deploy                       string // at registration
	info                         map[string]any
}

// host is one BareMetalHost and what the operator remembers of it.
type host struct {
	t      *testing.T
	o      *operator
	name   string
	uid    string
	mac    string
	access access
	clean  bool   // automated cleaning
	node   string // UUID of its node, empty until it is registered
}

func (o *operator) host(t *testing.T, name, mac string, a access) *host {
	h := &host{t: t, o: o, name: "metal3~" + name, uid: uuid.NewString(), mac: mac, access: a}
	// The fleet is everybody's, and a test may run again.
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if h.node != "" {
			nodes.SetMaintenance(ctx, o.client, h.node, nodes.MaintenanceOpts{})
			nodes.Delete(ctx, o.client, h.node)
		}
	})
	return h
}

func fake() access {
	return access{driver: "fake-hardware", boot: "fake", firmware: "fake", raid: "fake", info: map[string]any{}}
}

var errUnregistered = errors.New("the node is not registered")

// get reads the node; the host must be registered again if it is gone.
func (h *host) get() (*nodes.Node, error) {
	if h.node == "" {
		return nil, errUnregistered
	}
	n, err := nodes.Get(h.t.Context(), h.o.client, h.node).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil, errUnregistered
	}
	return n, err
}

func (h *host) describe() string {
	n, err := h.get()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("node %s: %s (target %q), power %s (target %q), maintenance %v, last_error %q",
		n.UUID, n.ProvisionState, n.TargetProvisionState, n.PowerState, n.TargetPowerState, n.Maintenance, n.LastError)
}

// now is get for tests.
func (h *host) now() *nodes.Node {
	h.t.Helper()
	n, err := h.get()
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// patch collects what differs from a node as it should be.
type patch struct{ ops nodes.UpdateOpts }

// want asks for value at section/name, where the node has current; a nil value asks
// for nothing to be there.
func (p *patch) want(path string, current any, present bool, value any) {
	switch {
	case value != nil && (!present || !same(current, value)):
		p.ops = append(p.ops, nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: value})
	case value == nil && present:
		p.ops = append(p.ops, nodes.UpdateOperation{Op: nodes.RemoveOp, Path: path})
	}
}

func (p *patch) section(path string, current map[string]any, values map[string]any) {
	for name, value := range values {
		have, present := current[name]
		p.want(path+"/"+name, have, present, value)
	}
}

func same(have, want any) bool {
	if m, ok := have.(map[string]any); ok && reflect.TypeOf(want).Kind() == reflect.Map && len(m) == 0 {
		return reflect.ValueOf(want).Len() == 0
	}
	return reflect.DeepEqual(have, want)
}

// update sends the patch, if there is any. A busy node is tried again.
func (h *host) update(n *nodes.Node, p *patch) (*nodes.Node, turn, error) {
	if len(p.ops) == 0 {
		return n, turn{}, nil
	}
	updated, err := nodes.Update(h.t.Context(), h.o.client, n.UUID, p.ops).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return nil, again, nil
	}
	if err != nil {
		return nil, turn{}, fmt.Errorf("update the node: %w", err)
	}
	return updated, turn{}, nil
}

// change asks for a provision state; ok says that it was accepted.
func (h *host) change(n *nodes.Node, opts nodes.ProvisionStateOpts) (ok bool, result turn, err error) {
	if n.Fault != "" {
		return false, again, nil
	}
	if n.Maintenance {
		result, err = h.maintenance(n, false)
		return false, result, err
	}
	err = nodes.ChangeProvisionState(h.t.Context(), h.o.client, n.UUID, opts).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return false, turn{}, fmt.Errorf("change the provision state to %s: %w", opts.Target, err)
	}
	return err == nil, again, nil
}

// ask is change for a target without parameters.
func (h *host) ask(n *nodes.Node, target nodes.TargetProvisionState) (turn, error) {
	_, result, err := h.change(n, nodes.ProvisionStateOpts{Target: target})
	return result, err
}

func (h *host) maintenance(n *nodes.Node, on bool) (turn, error) {
	var err error
	if on {
		err = nodes.SetMaintenance(h.t.Context(), h.o.client, n.UUID, nodes.MaintenanceOpts{Reason: "to force its deletion"}).ExtractErr()
	} else {
		err = nodes.UnsetMaintenance(h.t.Context(), h.o.client, n.UUID).ExtractErr()
	}
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return turn{}, fmt.Errorf("set maintenance to %v: %w", on, err)
	}
	return again, nil
}
