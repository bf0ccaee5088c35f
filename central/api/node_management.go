package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

func (s *Server) nodeManagement() Resource {
	const get, set = "baremetal:node:get_boot_device", "baremetal:node:set_boot_device"
	const device = "nodes/{node}/management/boot_device"
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: device, Summary: "Show from what a machine starts", Policy: get, Handle: s.getBootDevice, Shows: bootDeviceAnswer},
		{Method: http.MethodPut, Path: device, Summary: "Set from what a machine starts", Policy: set, Handle: s.setBootDevice, Takes: bootDeviceBody},
		{Method: http.MethodGet, Path: device + "/supported", Summary: "List from what a machine can start", Policy: get, Handle: s.supportedBootDevices, Shows: bootDevicesAnswer},
		{Method: http.MethodPut, Path: "nodes/{node}/management/inject_nmi", Summary: "Send a machine a non-maskable interrupt", Since: 29, Policy: "baremetal:node:inject_nmi", Handle: s.injectNMI, Takes: nothing},
	}}
}

// bootDevices are the boot devices there are.
var bootDevices = []string{"pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp"}

// noHost turns 404 into 400 where the path itself is there: only its node's driver is not.
func noHost(err error) error {
	if e, refused := errors.AsType[*dispatch.Refusal](err); refused && e.Status == http.StatusNotFound {
		return wire.Invalid("%s", e.Text)
	}
	return err
}

// ask puts a question about a node to its rackd and reads the answer into out.
func (s *Server) ask(r *Request, n *store.Node, method ask.Method, args, out any) error {
	m, err := s.dispatch.Owner(n, http.StatusNotFound)
	if err != nil {
		return err
	}
	if err := s.mayStill(r); err != nil {
		return err
	}
	q := ask.Request{Method: method, Node: n.UUID, NodeRevision: n.RackRevision, Driver: n.Driver}
	if args != nil {
		if q.Args, err = json.Marshal(args); err != nil {
			return fmt.Errorf("ask conductor %s %s about node %s: %w", m.Name, method, n.UUID, err)
		}
	}
	body, err := s.Ask.Ask(r.Context(), m, q)
	if e, answered := errors.AsType[*ask.Error](err); answered && e.Locked {
		return &dispatch.Refusal{Status: e.Status, Text: e.Message, Locked: n.UUID}
	}
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the answer of conductor %s to %s about node %s: %w", m.Name, method, n.UUID, err)
	}
	return nil
}

// order has a node's rackd do something to its machine at once. The node's updated_at moves
// first: if that fails nothing was done, and whatever the machine answers, it was asked.
func (s *Server) order(r *Request, n *store.Node, method ask.Method, args any) (Reply, error) {
	if err := s.touch(r.Context(), n); err != nil {
		return Reply{}, storeError(err)
	}
	if err := s.ask(r, n, method, args, nil); err != nil {
		return Reply{}, err
	}
	return noContent()
}

// touch moves the updated_at of a node on to whose machine something is done that its row does
// not show: Ironic locks the node for that, and clients look whether that time moves.
func (s *Server) touch(ctx context.Context, n *store.Node) error {
	return s.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.Touch(ctx, n.UUID) })
}

func (s *Server) getBootDevice(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var d ask.BootDevice
	if err := s.ask(r, n, ask.GetBootDevice, nil, &d); err != nil {
		return Reply{}, err
	}
	b := wire.AppendValue([]byte(`{"boot_device":`), orNull(d.Device))
	b = wire.AppendName(b, "persistent")
	if d.Persistent == nil {
		b = append(b, "null"...)
	} else {
		b = wire.AppendValue(b, *d.Persistent)
	}
	return ok(append(b, '}'))
}

func (s *Server) setBootDevice(r *Request) (Reply, error) {
	body, err := r.Arguments(wire.MaxBody, "boot_device", "boot_device", "persistent")
	if err != nil {
		return Reply{}, err
	}
	device, _ := body["boot_device"].(string)
	if !slices.Contains(bootDevices, device) {
		return Reply{}, wire.Invalid("Invalid boot device %.40s specified.", said(body["boot_device"])).Detailed("there are %s", strings.Join(bootDevices, ", "))
	}
	persistent := false
	if body["persistent"] != nil {
		if persistent, err = truth("persistent", body["persistent"]); err != nil {
			return Reply{}, err
		}
	}
	n, err := s.idleNode(r)
	if err != nil {
		return Reply{}, err
	}
	return s.order(r, n, ask.SetBootDevice, ask.BootDevice{Device: device, Persistent: &persistent})
}

func (s *Server) supportedBootDevices(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var devices []string
	if err := s.ask(r, n, ask.SupportedBootDevices, nil, &devices); err != nil {
		return Reply{}, err
	}
	return ok(append(wire.AppendValue([]byte(`{"supported_boot_devices":`), devices), '}'))
}

func (s *Server) injectNMI(r *Request) (Reply, error) {
	if _, err := r.Arguments(wire.MaxBody, ""); err != nil { // it has none
		return Reply{}, err
	}
	n, err := s.idleNode(r)
	if err != nil {
		return Reply{}, err
	}
	return s.order(r, n, ask.InjectNMI, nil)
}

// idleNode reads the node of the path and refuses one that a rackd works on: a BMC is written
// to by a node's work or, while it has none or that waits, by others, never by both. Work of the node's parent counts too.
func (s *Server) idleNode(r *Request) (*store.Node, error) {
	n, err := s.node(r, r.Param(0))
	if err == nil && dispatch.Busy(n) {
		return nil, dispatch.Locked(n)
	}
	if err == nil {
		err = s.free(r.Context(), n)
	}
	return n, err
}

// free refuses a node whose BMC may be at work for a step of its parent's. While it has work of its own no such step begins.
func (s *Server) free(ctx context.Context, n *store.Node) error {
	if n.ParentNode == "" || n.WorkID != "" {
		return nil
	}
	return storeError(s.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return dispatch.Engaged(ctx, tx, n) }))
}
