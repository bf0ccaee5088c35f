package metal3

import (
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// service brings settings about on a host with an instance, once.
func (h *host) service(s settings, restart bool) func() (turn, error) {
	wanted := true
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.ServiceFail:
			if !restart {
				return turn{failed: n.LastError}, nil
			}
			if n.Maintenance {
				return h.maintenance(n, false)
			}
			wanted = true
		case nodes.Active:
		case nodes.Servicing, nodes.ServiceWait:
			return again, nil
		default:
			return turn{failed: "unexpected state " + n.ProvisionState}, nil
		}
		if !wanted {
			return turn{}, nil
		}
		ok, result, err := h.change(n, nodes.ProvisionStateOpts{Target: nodes.TargetService, ServiceSteps: s.serviceSteps()})
		if ok {
			wanted, restart = false, false
		}
		return result, err
	}
}

func TestService(t *testing.T) {
	h := ready(t, "serviced", "52:54:00:3a:00:50", fake())
	h.until("provision", h.provision(disk))
	before := h.components()["bios"].CurrentVersion
	h.until("service", h.service(settings{bios: map[string]any{"ProcVirtualization": "Disabled"}, firmware: map[string]string{"bios": "http://192.0.2.1/bios-7.7.bin"}}, false))
	if n := h.now(); n.ProvisionState != string(nodes.Active) || n.LastError != "" || n.Maintenance {
		t.Error(h.describe())
	}
	if after := h.components()["bios"].CurrentVersion; after == before {
		t.Errorf("the BIOS is still at %s", after)
	}
}

// A service that fails is tried again, or given up: the host is active again.
func TestServiceFailure(t *testing.T) {
	h := ready(t, "unserviced", "52:54:00:3a:00:51", fake())
	h.until("provision", h.provision(disk))
	h.access.info = map[string]any{"fake_update_fail": "not signed"}
	h.until("update", h.register(true))
	s := settings{firmware: map[string]string{"bios": "http://192.0.2.1/bios-7.7.bin"}}
	if text := h.fails("service", h.service(s, false)); !strings.Contains(text, "not signed") {
		t.Errorf("failed with %q", text)
	}
	h.until("give up", func() (turn, error) {
		n, err := h.get()
		switch {
		case err != nil || n.ProvisionState == string(nodes.Active):
			return turn{}, err
		case n.ProvisionState != string(nodes.ServiceFail):
			return again, nil
		case n.Maintenance:
			return h.maintenance(n, false)
		}
		return h.ask(n, nodes.TargetAbort)
	})
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	h.until("service again", h.service(s, true))
}

// busy lists the hosts that count against the operator's limit.
func (o *operator) busy(t *testing.T) (names []string) {
	t.Helper()
	page, err := nodes.List(o.client, nodes.ListOpts{Fields: []string{"uuid,name,provision_state,boot_interface"}}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := nodes.ExtractNodes(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.Cleaning, nodes.CleanWait, nodes.Inspecting, nodes.InspectWait, nodes.Deploying, nodes.DeployWait, nodes.Deleting:
			if n.BootInterface == "" {
				t.Errorf("node %s is listed without its boot interface", n.Name)
			}
			names = append(names, n.Name)
		}
	}
	return names
}

func TestCapacity(t *testing.T) {
	a := fake()
	a.info = map[string]any{"fake_write_image_delay": 3600}
	h := ready(t, "busy", "52:54:00:3a:00:52", a)
	if slices.Contains(h.o.busy(t), h.name) {
		t.Error("a host that does nothing is busy")
	}
	h.until("begin to provision", func() (turn, error) {
		n, err := h.get()
		if err != nil || n.ProvisionState == string(nodes.DeployWait) {
			return turn{}, err
		}
		_, err = h.provision(disk)()
		return again, err
	})
	if !slices.Contains(h.o.busy(t), h.name) {
		t.Error("a host that is being provisioned is not busy")
	}
}
