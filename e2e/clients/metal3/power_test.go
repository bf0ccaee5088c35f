package metal3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// softTimeout is how long a system may take to end, in seconds.
const softTimeout = 180

// setPower asks for a power state; unsupported says that the hardware has no such.
func (h *host) setPower(n *nodes.Node, target nodes.TargetPowerState) (result turn, unsupported bool, err error) {
	if n.TargetProvisionState != "" {
		return again, false, nil
	}
	opts := nodes.PowerStateOpts{Target: target}
	if target == nodes.SoftPowerOff {
		opts.Timeout = softTimeout
	}
	err = nodes.ChangePowerState(h.t.Context(), h.o.client, n.UUID, opts).ExtractErr()
	switch {
	case err == nil, gophercloud.ResponseCodeIs(err, http.StatusConflict):
		return again, false, nil
	case gophercloud.ResponseCodeIs(err, http.StatusBadRequest):
		return turn{}, target == nodes.SoftPowerOff, err
	}
	return turn{}, false, err
}

func (h *host) powerOn(force bool) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.get()
		if err != nil || n.PowerState == string(nodes.PowerOn) {
			return turn{}, err
		}
		if n.TargetPowerState == string(nodes.PowerOn) {
			return again, nil
		}
		if n.LastError != "" && !force {
			return turn{failed: n.LastError}, nil
		}
		result, _, err := h.setPower(n, nodes.PowerOn)
		return result, err
	}
}

func (h *host) powerOff(soft, force bool) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		if result, err := h.interrupt(n); err != nil || result.again {
			return result, err
		}
		if n.PowerState == string(nodes.PowerOff) {
			return turn{}, nil
		}
		if n.TargetPowerState == string(nodes.PowerOff) || n.TargetPowerState == string(nodes.SoftPowerOff) {
			return again, nil
		}
		if n.LastError != "" && !force && !strings.Contains(n.LastError, "aborted") {
			return turn{failed: n.LastError}, nil
		}
		if soft && !force {
			result, unsupported, err := h.setPower(n, nodes.SoftPowerOff)
			if !unsupported {
				return result, err
			}
		}
		result, _, err := h.setPower(n, nodes.PowerOff)
		return result, err
	}
}

// interrupt ends what would keep a host that is deleted from being switched off.
func (h *host) interrupt(n *nodes.Node) (turn, error) {
	switch nodes.ProvisionState(n.ProvisionState) {
	case nodes.InspectWait:
		return h.ask(n, nodes.TargetAbort)
	case nodes.Inspecting, nodes.Cleaning:
		return again, nil
	case nodes.InspectFail:
		if n.TargetProvisionState != "" {
			return h.ask(n, nodes.TargetManage)
		}
	case nodes.CleanWait:
		if n.TargetProvisionState == string(nodes.TargetClean) || n.TargetProvisionState == string(nodes.Manageable) || !h.clean {
			return h.ask(n, nodes.TargetAbort)
		}
		return again, nil
	}
	return turn{}, nil
}

func TestPower(t *testing.T) {
	h := ready(t, "powered", "52:54:00:3a:00:40", fake())
	h.until("provision", h.provision(disk))
	h.until("power off softly", h.powerOff(true, false))
	h.until("power on", h.powerOn(false))
	h.until("power off", h.powerOff(false, false))
	// The machine is seen to be off a moment before the request has ended.
	h.until("end the request", func() (turn, error) {
		n, err := h.get()
		return turn{again: n == nil || n.TargetPowerState != ""}, err
	})
	if n := h.now(); n.LastError != "" || n.ProvisionState != string(nodes.Active) {
		t.Error(h.describe())
	}
	h.until("power on", h.powerOn(true))
}

// A power change that fails is told, and forced.
func TestPowerFailure(t *testing.T) {
	a := fake()
	h := ready(t, "stuck", "52:54:00:3a:00:41", a)
	h.access.info = map[string]any{"fake_set_power_fail": "the relay sticks"}
	h.until("update", h.register(true))
	if text := h.fails("power on", h.powerOn(false)); !strings.Contains(text, "the relay sticks") {
		t.Errorf("failed with %q", text)
	}
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	h.until("power on by force", h.powerOn(true))
	if n := h.now(); n.LastError != "" {
		t.Errorf("last_error %q after it worked", n.LastError)
	}
}

// A host that is being inspected is switched off when it is deleted.
func TestPowerOffWhileInspected(t *testing.T) {
	a := fake()
	a.info = map[string]any{"fake_inspect_delay": 3600}
	h := newOperator(t).host(t, "hurried", "52:54:00:3a:00:42", a)
	h.until("register", h.register(false))
	h.until("power on", h.powerOn(false))
	h.until("begin to inspect", func() (turn, error) {
		n, err := h.get()
		if err != nil || n.ProvisionState == string(nodes.InspectWait) {
			return turn{}, err
		}
		_, err = h.inspect(&nodes.InventoryData{}, false, false)()
		return again, err
	})
	h.until("power off", h.powerOff(true, true))
	h.until("delete", h.remove)
}

// A host that may never be off is rebooted instead.
func TestReboot(t *testing.T) {
	h := ready(t, "distant", "52:54:00:3a:00:43", fake())
	h.until("provision", h.provision(disk))
	p := &patch{}
	p.want("/disable_power_off", false, true, true)
	if _, _, err := h.update(h.now(), p); err != nil {
		t.Fatal(err)
	}
	for _, target := range []nodes.TargetPowerState{nodes.SoftRebooting, nodes.Rebooting} {
		h.until("reboot", func() (turn, error) {
			err := nodes.ChangePowerState(t.Context(), h.o.client, h.node, nodes.PowerStateOpts{Target: target}).ExtractErr()
			return turn{again: gophercloud.ResponseCodeIs(err, http.StatusConflict)}, err
		})
		h.until("be on", func() (turn, error) {
			n, err := h.get()
			return turn{again: n == nil || n.TargetPowerState != "" || n.PowerState != string(nodes.PowerOn)}, err
		})
	}
}
