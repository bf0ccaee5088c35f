package metal3

import (
	"maps"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// whole lists the ports of the host's node with all that the operator looks at, by address.
func (h *host) whole() map[string]ports.Port {
	h.t.Helper()
	page, err := ports.List(h.o.client, ports.ListOpts{NodeUUID: h.node, Fields: []string{"uuid,address,pxe_enabled,local_link_connection,extra"}}).AllPages(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	list, err := ports.ExtractPorts(page)
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[string]ports.Port{}
	for _, p := range list {
		all[p.Address] = p
	}
	return all
}

// A host that is registered anew brings the ports that an earlier inspection found, with the
// switches that they lead to and how these are to be set; and the ramdisk's network.
func TestPortsOfSwitches(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "switched", "52:54:00:3a:00:80", fake())
	h.until("register", h.register(false))
	const second = "52:54:00:3a:00:81"
	link := map[string]any{"switch_id": "00:11:22:33:44:55", "port_id": "Ethernet1/7", "switch_info": "leaf-1"}
	off := false
	if _, err := ports.Create(t.Context(), o.client, ports.CreateOpts{NodeUUID: h.node, Address: second, PXEEnabled: &off,
		LocalLinkConnection: link}).Extract(); err != nil {
		t.Fatal(err)
	}
	p := h.whole()[second]
	if p.PXEEnabled || !maps.Equal(p.LocalLinkConnection, link) {
		t.Errorf("the second port is %+v", p)
	}
	setting := map[string]any{"mode": "trunk", "native_vlan": 7, "allowed_vlans": []int{8, 9}, "mtu": 9000}
	for _, change := range []ports.UpdateOpts{
		{ports.UpdateOperation{Op: ports.AddOp, Path: "/extra/switchport", Value: setting}},
		{ports.UpdateOperation{Op: ports.ReplaceOp, Path: "/local_link_connection", Value: map[string]any{"switch_id": link["switch_id"], "port_id": "Ethernet1/8"}}},
	} {
		if _, err := ports.Update(t.Context(), o.client, p.UUID, change).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	p = h.whole()[second]
	got, _ := p.Extra["switchport"].(map[string]any)
	vlans, _ := got["allowed_vlans"].([]any)
	if got["mode"] != "trunk" || got["native_vlan"] != 7.0 || got["mtu"] != 9000.0 || len(vlans) != 2 || vlans[1] != 9.0 || p.LocalLinkConnection["port_id"] != "Ethernet1/8" {
		t.Errorf("the second port is %+v", p)
	}
	if _, err := ports.Update(t.Context(), o.client, p.UUID, ports.UpdateOpts{ports.UpdateOperation{Op: ports.RemoveOp, Path: "/extra/switchport"}}).Extract(); err != nil {
		t.Fatal(err)
	}
	if p = h.whole()[second]; len(p.Extra) != 0 {
		t.Errorf("extra is still %v", p.Extra)
	}

	network := map[string]any{"links": []any{map[string]any{"id": "eno1", "type": "phy", "ethernet_mac_address": h.mac}},
		"networks": []any{map[string]any{"id": "admin", "type": "ipv4", "link": "eno1", "ip_address": "192.0.2.10", "netmask": "255.255.255.0", "network_id": "admin", "routes": []any{}}},
		"services": []any{map[string]any{"type": "dns", "address": "192.0.2.1"}}}
	n := h.now()
	for range 2 { // the second time there is nothing to change
		patch := &patch{}
		patch.want("/network_data", n.NetworkData, true, network)
		var err error
		if n, _, err = h.update(n, patch); err != nil {
			t.Fatal(err)
		}
		if len(patch.ops) > 0 {
			continue
		}
		if list, _ := n.NetworkData["networks"].([]any); len(list) != 1 || n.ProvisionState != string(nodes.Manageable) {
			t.Errorf("network data %v in %s", n.NetworkData, n.ProvisionState)
		}
		return
	}
	t.Errorf("what was set is shown otherwise: %v, want %v", n.NetworkData, network)
}
