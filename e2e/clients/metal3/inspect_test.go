package metal3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// inspect finds out what the host is made of. Fresh asks for a new inspection, which
// is asked for once; restart, for one after a failure.
func (h *host) inspect(found *nodes.InventoryData, fresh, restart bool) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		aborted := n.ProvisionState == string(nodes.InspectFail) && strings.Contains(n.LastError, "aborted")
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.Available:
			return h.ask(n, nodes.TargetManage)
		case nodes.Inspecting, nodes.InspectWait:
			return again, nil
		case nodes.InspectFail:
			if !restart && !aborted {
				return turn{failed: n.LastError}, nil
			}
			return h.startInspection(n, &restart)
		case nodes.Manageable:
			if fresh {
				return h.startInspection(n, &fresh)
			}
		default:
			return turn{failed: "unexpected state " + n.ProvisionState}, nil
		}
		data, err := nodes.GetInventory(h.t.Context(), h.o.client, n.UUID).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			var once bool
			return h.startInspection(n, &once)
		}
		if err != nil {
			return turn{}, err
		}
		*found = *data
		return turn{}, nil
	}
}

func (h *host) startInspection(n *nodes.Node, wish *bool) (turn, error) {
	p := &patch{}
	p.section("/properties", n.Properties, map[string]any{"capabilities": capabilities(n)})
	n, result, err := h.update(n, p)
	if n == nil || err != nil {
		return result, err
	}
	ok, result, err := h.change(n, nodes.ProvisionStateOpts{Target: nodes.TargetInspect})
	if ok {
		*wish = false
	}
	return result, err
}

func TestInspect(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "inspected", "52:54:00:3a:00:10", fake())
	h.until("register", h.register(false))
	var found nodes.InventoryData
	h.until("inspect", h.inspect(&found, false, false))
	inv := found.Inventory
	if inv.Memory.PhysicalMb == 0 || inv.CPU.Count == 0 || inv.CPU.Architecture == "" || len(inv.Disks) == 0 || inv.Disks[0].Size == 0 || inv.SystemVendor.Manufacturer == "" {
		t.Errorf("inventory %+v", inv)
	}
	if len(inv.Interfaces) != 1 || inv.Interfaces[0].MACAddress != h.mac {
		t.Errorf("interfaces %+v", inv.Interfaces)
	}
	// The operator reads whether a card boots from the network out of the plugin data.
	ironic, _, err := found.PluginData.GuessFormat()
	if err != nil || ironic == nil {
		t.Fatalf("plugin data %s: %v", found.PluginData.RawMessage, err)
	}
	if card := ironic.AllInterfaces[inv.Interfaces[0].Name]; !card.PXEEnabled || card.MACAddress != h.mac {
		t.Errorf("all_interfaces of the plugin data: %+v", ironic.AllInterfaces)
	}
	h.until("inspect again", h.inspect(&found, true, false))
}

func TestInspectFailure(t *testing.T) {
	o := newOperator(t)
	a := fake()
	a.info = map[string]any{"fake_inspect_fail": "nobody home"}
	h := o.host(t, "dark", "52:54:00:3a:00:11", a)
	h.until("register", h.register(false))
	var found nodes.InventoryData
	if text := h.fails("inspect", h.inspect(&found, false, false)); !strings.Contains(text, "nobody home") {
		t.Errorf("failed with %q", text)
	}
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	h.until("inspect again", h.inspect(&found, false, true))
}

// A new ramdisk ends an inspection that waits for the old one.
func TestInspectAborted(t *testing.T) {
	o := newOperator(t)
	a := fake()
	a.info = map[string]any{"fake_inspect_delay": 3600}
	h := o.host(t, "restarted", "52:54:00:3a:00:12", a)
	h.until("register", h.register(false))
	h.until("begin to inspect", func() (turn, error) {
		n, err := h.get()
		if err != nil || n.ProvisionState == string(nodes.InspectWait) {
			return turn{}, err
		}
		if n.ProvisionState == string(nodes.Manageable) {
			return h.ask(n, nodes.TargetInspect)
		}
		return again, nil
	})
	n := h.now()
	if ok, _, err := h.change(n, nodes.ProvisionStateOpts{Target: nodes.TargetAbort}); err != nil || !ok {
		t.Fatalf("abort: %v, %v", ok, err)
	}
	h.until("end it", func() (turn, error) {
		n, err := h.get()
		return turn{again: n == nil || n.ProvisionState != string(nodes.InspectFail)}, err
	})
	n = h.now()
	// The operator knows an inspection that it has ended itself by this word.
	if !strings.Contains(n.LastError, "aborted") {
		t.Errorf("last_error %q of an aborted inspection", n.LastError)
	}
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	var found nodes.InventoryData
	h.until("inspect", h.inspect(&found, false, false))
}
