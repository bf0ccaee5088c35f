package metal3

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// ports lists the nodes that have ports with an address, or a node's own.
func (h *host) ports(opts ports.ListOpts) ([]ports.Port, error) {
	opts.Fields = []string{"node_uuid"}
	page, err := ports.List(h.o.client, opts).AllPages(h.t.Context())
	if err != nil {
		return nil, err
	}
	return ports.ExtractPorts(page)
}

func (h *host) createPort(node string) error {
	enabled := true
	_, err := ports.Create(h.t.Context(), h.o.client, ports.CreateOpts{NodeUUID: node, Address: h.mac, PXEEnabled: &enabled}).Extract()
	return err
}

// find looks for a node of an earlier life: by UUID, name and MAC address.
func (h *host) find() (*nodes.Node, error) {
	if n, err := h.get(); err != errUnregistered {
		return n, err
	}
	_, plain, _ := strings.Cut(h.name, "~")
	for _, name := range []string{h.name, plain} {
		n, err := nodes.Get(h.t.Context(), h.o.client, name).Extract()
		if err == nil || !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return n, err
		}
	}
	taken, err := h.ports(ports.ListOpts{Address: h.mac})
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	n, err := nodes.Get(h.t.Context(), h.o.client, taken[0].NodeUUID).Extract()
	if err == nil && n.Name != "" {
		return nil, fmt.Errorf("MAC address %s belongs to node %s", h.mac, n.Name)
	}
	return n, err
}

func (h *host) enrol() (*nodes.Node, turn, error) {
	off := false
	n, err := nodes.Create(h.t.Context(), h.o.client, nodes.CreateOpts{Name: h.name, Driver: h.access.driver, DriverInfo: h.access.info,
		BootInterface: h.access.boot, FirmwareInterface: h.access.firmware, RAIDInterface: h.access.raid, DeployInterface: h.access.deploy,
		InspectInterface: inspector(h.access), DisablePowerOff: &off,
		Properties: map[string]any{"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"}}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return nil, again, nil
	}
	if err != nil {
		return nil, turn{}, err
	}
	return n, turn{}, h.createPort(n.UUID)
}

// inspector is the operator's choice; fake machines have no agent.
func inspector(a access) string {
	if a.driver == "fake-hardware" {
		return "fake"
	}
	return "agent"
}

// register makes the node or brings it up to date, and has its credentials verified.
func (h *host) register(newCredentials bool) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.find()
		if err != nil {
			return turn{}, err
		}
		p := &patch{}
		if n == nil {
			var result turn
			if n, result, err = h.enrol(); n == nil || err != nil {
				return result, err
			}
			h.node = n.UUID
		} else {
			h.node = n.UUID
			p.want("/name", n.Name, true, h.name)
			if own, err := h.ports(ports.ListOpts{NodeUUID: n.UUID}); err != nil {
				return turn{}, err
			} else if len(own) == 0 {
				if err := h.createPort(n.UUID); err != nil {
					return turn{}, err
				}
			}
			if newCredentials {
				p.want("/driver_info", n.DriverInfo, true, h.access.info)
			}
			p.want("/disable_power_off", n.DisablePowerOff, true, false)
			p.section("/properties", n.Properties, map[string]any{"cpu_arch": "x86_64"})
		}
		n, result, err := h.update(n, p)
		if n == nil || err != nil {
			return result, err
		}
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.Enroll:
			if n.LastError != "" && !newCredentials {
				return turn{failed: n.LastError}, nil
			}
			newCredentials = false
			if n.TargetProvisionState == string(nodes.TargetManage) {
				return again, nil
			}
			return h.ask(n, nodes.TargetManage)
		case nodes.Verifying:
			return again, nil
		case nodes.Cleaning, nodes.CleanWait, nodes.Deploying, nodes.DeployWait, nodes.Inspecting:
			return turn{}, nil
		}
		return h.configure(n)
	}
}

// configure sets what is not of a phase: the ramdisk, cleaning, capabilities.
func (h *host) configure(n *nodes.Node) (turn, error) {
	p := &patch{}
	p.section("/driver_info", n.DriverInfo, map[string]any{"deploy_kernel": h.o.kernel + "/kernel", "deploy_ramdisk": h.o.kernel + "/initramfs",
		"deploy_iso": nil, "kernel_append_params": nil})
	var cleans any
	if n.AutomatedClean != nil {
		cleans = *n.AutomatedClean
	}
	p.want("/automated_clean", cleans, true, h.clean)
	p.section("/properties", n.Properties, map[string]any{"capabilities": capabilities(n), "cpu_arch": "x86_64"})
	_, result, err := h.update(n, p)
	return result, err
}

// capabilities keeps what inspection found and says UEFI.
func capabilities(n *nodes.Node) string {
	var keep []string
	have, _ := n.Properties["capabilities"].(string)
	for c := range strings.SplitSeq(have, ",") {
		if c != "" && !strings.HasPrefix(c, "boot_mode:") && !strings.HasPrefix(c, "secure_boot:") {
			keep = append(keep, c)
		}
	}
	return strings.Join(append(keep, "boot_mode:uefi"), ",")
}

func TestRegister(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "one", "52:54:00:3a:00:01", fake())
	h.until("register", h.register(false))
	n := h.now()
	if n.ProvisionState != "manageable" || n.LastError != "" || n.InspectInterface != "fake" || n.AutomatedClean == nil || *n.AutomatedClean {
		t.Errorf("registered: %s, last_error %q, inspect interface %q, automated_clean %v", n.ProvisionState, n.LastError, n.InspectInterface, n.AutomatedClean)
	}
	if n.DriverInfo["deploy_ramdisk"] != o.kernel+"/initramfs" {
		t.Errorf("driver_info %v", n.DriverInfo)
	}

	before := n.UpdatedAt
	h.until("register what is registered", h.register(false))
	if after := h.now().UpdatedAt; !after.Equal(before) {
		t.Errorf("a pass with nothing to change wrote the node: updated_at %v, then %v", before, after)
	}

	h.node = "" // the operator's memory is lost
	h.until("register anew", h.register(false))
	if h.node != n.UUID {
		t.Errorf("found node %s, want %s", h.node, n.UUID)
	}

	other := o.host(t, "other", h.mac, fake())
	if _, err := other.register(false)(); err == nil || !strings.Contains(err.Error(), h.name) {
		t.Errorf("another host with the same MAC address: %v", err)
	}
	if _, err := nodes.Get(t.Context(), o.client, other.name).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("that host has a node: %v", err)
	}
}

// A node that somebody else has made, nameless and without driver_info, is taken over
// by its MAC address.
func TestRegisterFoundByAddress(t *testing.T) {
	o := newOperator(t)
	made, err := nodes.Create(t.Context(), o.client, nodes.CreateOpts{Driver: "fake-hardware"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	h := o.host(t, "found", "52:54:00:3a:00:02", fake())
	if err := h.createPort(made.UUID); err != nil {
		t.Fatal(err)
	}
	h.until("register", h.register(false))
	if n := h.now(); n.UUID != made.UUID || n.Name != h.name {
		t.Errorf("node %s with name %q, want %s", n.UUID, n.Name, made.UUID)
	}
}

// Credentials that are refused are told; new ones are tried.
func TestRegisterCredentialsChanged(t *testing.T) {
	o := newOperator(t)
	a := fake()
	a.info = map[string]any{"fake_power_state_fail": "no such user", "fake_password": "old"}
	h := o.host(t, "locked", "52:54:00:3a:00:03", a)
	if text := h.fails("register", h.register(false)); !strings.Contains(text, "no such user") {
		t.Errorf("failed with %q", text)
	}
	if text := h.fails("register again", h.register(false)); !strings.Contains(text, "no such user") {
		t.Errorf("failed again with %q", text)
	}
	h.access.info = map[string]any{"fake_password": "new"}
	h.until("register with new credentials", h.register(true))
	if n := h.now(); n.ProvisionState != "manageable" || n.LastError != "" || n.DriverInfo["fake_power_state_fail"] != nil {
		t.Errorf("with new credentials: %s, last_error %q, driver_info %v", n.ProvisionState, n.LastError, n.DriverInfo)
	}
}

func TestRegisterWrongDriver(t *testing.T) {
	o := newOperator(t)
	a := fake()
	a.driver = "no-such-driver"
	h := o.host(t, "wrong", "52:54:00:3a:00:04", a)
	_, err := h.register(false)()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) || !strings.Contains(err.Error(), "no-such-driver") {
		t.Errorf("registered with %v", err)
	}
}
