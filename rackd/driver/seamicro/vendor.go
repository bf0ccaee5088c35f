package seamicro

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Vendor is the vendor interface, with Ironic's methods.
type Vendor struct{ *Driver }

const argVLAN, argVolume, argSize = "vlan_id", "volume_id", "volume_size"

// NamedSteps is empty.
func (Vendor) NamedSteps(*node.Document) []driver.Step { return nil }

// DriverMethods is empty.
func (Vendor) DriverMethods() []driver.DriverMethod { return nil }

// VendorMethods lists the methods. A volume that is made has a new name, so that its method is never repeated.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	method := func(name, description string) driver.Method {
		return driver.Method{Name: name, HTTPMethods: []string{http.MethodPost}, Description: description, Async: true}
	}
	return []driver.VendorMethod{
		{Method: method("set_node_vlan_id", "Set an untagged VLAN ID for NIC 0 of node. Required argument: 'vlan_id' - ID of untagged VLAN."), Check: checkVLAN, Call: v.setVLAN},
		{Method: method("attach_volume", "Attach volume to node. Arguments: 1. 'volume_id' - ID of pre-provisioned volume. This is optional. If not specified, a volume is created in "+
			"SeaMicro storage pool. 2. 'volume_size' - size of new volume (if volume_id is not specified)."), Check: checkVolume, Call: v.attach, Once: true},
	}
}

// text reads an argument that Ironic takes as a number or as text.
func text(args map[string]any, name string) string {
	switch v := args[name].(type) {
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

func refuse(n *node.Document, format string, args ...any) error {
	return fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
}

// only refuses arguments of other names.
func only(n *node.Document, args map[string]any, names ...string) error {
	for name := range args {
		if !slices.Contains(names, name) {
			return refuse(n, "unknown argument %q: there is %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

func checkVLAN(n *node.Document, args map[string]any) error {
	id := text(args, argVLAN)
	if id == "" {
		return refuse(n, "No vlan id provided")
	}
	if v, err := strconv.Atoi(id); err != nil || v < 1 || v > 4094 {
		return refuse(n, "vlan_id is %q: give a number from 1 to 4094", id)
	}
	return only(n, args, argVLAN)
}

// checkVolume refuses volumes outside of the pools that are Ironic's by their name.
func checkVolume(n *node.Document, args map[string]any) error {
	switch id, size := text(args, argVolume), text(args, argSize); {
	case id == "" && size == "":
		return refuse(n, "No volume size provided for creating volume")
	case id == "":
		if v, err := strconv.Atoi(size); err != nil || v < 1 {
			return refuse(n, "volume_size is %q: give a number of GB", size)
		}
	case !ours(id):
		return refuse(n, "Invalid volume id specified")
	}
	return only(n, args, argVolume, argSize)
}

// ours reports whether a volume or a pool is of a pool for Ironic: SLOT/ironic-NAME. It keeps paths of other resources out.
func ours(id string) bool {
	parts := strings.Split(id, "/")
	return len(parts) >= 2 && strings.Contains(strings.ToLower(parts[1]), "ironic-") && !slices.ContainsFunc(parts, func(p string) bool {
		return p == "" || strings.Trim(p, ".") == "" || strings.ContainsAny(p, "?#%\\ ")
	})
}

func (v Vendor) setVLAN(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	if err := checkVLAN(n, args); err != nil {
		return nil, err
	}
	id := text(args, argVLAN)
	return nil, v.with(ctx, n, "set the VLAN to "+id, func(c chassis) error {
		is, err := c.vlan(ctx)
		if err != nil || is == id {
			return err
		}
		at := c.self() + "/nic/0/untaggedVlan"
		if is != "" {
			if err := c.put(ctx, f, at, "", map[string]any{"remove": is}); err != nil {
				return err
			}
		}
		if err := c.put(ctx, f, at, "", map[string]any{"add": id}); err != nil {
			return err
		}
		if is, err = c.vlan(ctx); err == nil && is != id {
			err = &bmc.Failure{Said: fmt.Sprintf("that all is well, and NIC 0 has the VLAN %q", is)}
		}
		return err
	})
}

// vlan reads the untagged VLAN of NIC 0, empty for none.
func (c chassis) vlan(ctx context.Context) (string, error) {
	var s server
	if err := c.read(ctx, c.self(), &s); err != nil {
		return "", err
	}
	nic, found := s.NIC["0"]
	if !found {
		return "", &bmc.Failure{Class: bmc.Unsupported, Said: "that the server has no NIC 0"}
	}
	return nic.Untagged, nil
}

func (v Vendor) attach(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	if err := checkVolume(n, args); err != nil {
		return nil, err
	}
	return nil, v.with(ctx, n, "attach a volume", func(c chassis) (err error) {
		id := text(args, argVolume)
		if id == "" {
			if id, err = c.newVolume(ctx, f, text(args, argSize)); err != nil {
				return err
			}
		}
		if err := c.read(ctx, "/storage/volumes/"+id, &map[string]any{}); err != nil {
			return err
		}
		var s server
		if err := c.read(ctx, c.self(), &s); err != nil || s.VDisk["0"] == id {
			return err
		}
		at := c.self() + "/vdisk/0"
		if s.VDisk == nil || s.VDisk["0"] != "" {
			if err := c.remove(ctx, f, at); err != nil {
				return err
			}
		}
		return c.put(ctx, f, at, "", map[string]any{"value": id})
	})
}

// newVolume makes a volume in that pool of Ironic's which has most room, and returns its ID.
func (c chassis) newVolume(ctx context.Context, f driver.Fence, size string) (string, error) {
	var pools map[string]struct {
		Free float64 `json:"freeSize"`
	}
	if err := c.read(ctx, "/storage/pools", &pools); err != nil {
		return "", err
	}
	pool := ""
	for id, p := range pools {
		if ours(id) && (pool == "" || p.Free > pools[pool].Free || p.Free == pools[pool].Free && id < pool) {
			pool = id
		}
	}
	if pool == "" {
		return "", &bmc.Failure{Class: bmc.Invalid, Said: "a list of storage pools without one for Ironic. No storage pools found for ironic"}
	}
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // it never fails
	id := pool + "/" + hex.EncodeToString(raw)
	return id, c.put(ctx, f, "/storage/volumes/"+id, "", map[string]any{"action": "create", "volume-size": size})
}
