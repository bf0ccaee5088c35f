package metal3

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// A BMC that does not answer is told with its address, and the node waits in enroll for the operator to
// give it another.
func TestRegisterUnreachable(t *testing.T) {
	o := newOperator(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	a := redfish(t, "ipxe")
	there := a.info["redfish_address"]
	a.info["redfish_address"] = "https://" + nobody
	h := o.host(t, "bmc-away", "52:54:00:3a:00:90", a)
	if text := h.fails("register", h.register(false)); !strings.Contains(text, nobody) {
		t.Errorf("failed with %q, which does not name %s", text, nobody)
	}
	if n := h.now(); n.ProvisionState != string(nodes.Enroll) || n.TargetProvisionState != "" || n.PowerState != "" || n.Maintenance || n.Fault != "" || n.Reservation != "" {
		t.Errorf("after that: %s, fault %q, reservation %q", h.describe(), n.Fault, n.Reservation)
	}
	h.access.info["redfish_address"] = there
	h.until("register at another address", h.register(true))
	if n := h.now(); n.ProvisionState != string(nodes.Manageable) || n.LastError != "" || n.PowerState == "" {
		t.Error(h.describe())
	}
}

// Two hosts with one MAC address that are registered at the same time both look for it before either has it: the
// second one's port is refused, its node stays without, and gets the port when the address is free.
func TestRegisterAddressTaken(t *testing.T) {
	o := newOperator(t)
	first := o.host(t, "first", "52:54:00:3a:00:91", fake())
	second := o.host(t, "second", first.mac, fake())
	first.until("register", first.register(false))
	n, _, err := second.enrol()
	if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || !strings.Contains(err.Error(), first.mac) {
		t.Fatalf("the same address again: %v", err)
	}
	second.node = n.UUID
	if own, err := second.ports(ports.ListOpts{NodeUUID: n.UUID}); err != nil || len(own) != 0 {
		t.Errorf("ports of the second node: %v, %v", own, err)
	}
	if taken, err := second.ports(ports.ListOpts{Address: second.mac}); err != nil || len(taken) != 1 || taken[0].NodeUUID != first.node {
		t.Errorf("ports with the address: %+v, %v; want one of node %s", taken, err, first.node)
	}
	first.until("delete", first.remove)
	second.until("register", second.register(false))
	if own, err := second.ports(ports.ListOpts{NodeUUID: n.UUID}); err != nil || len(own) != 1 || second.node != n.UUID {
		t.Errorf("ports of node %s: %v, %v; it was %s", second.node, own, err, n.UUID)
	}
}
