package metal3

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// settings is what a user wants of a host's hardware.
type settings struct {
	volumes  []nodes.LogicalDisk
	bios     map[string]any
	firmware map[string]string // component to URL
}

func (s settings) cleanSteps() (steps []nodes.CleanStep) {
	if len(s.volumes) > 0 {
		steps = append(steps, nodes.CleanStep{Interface: nodes.InterfaceRAID, Step: "delete_configuration"},
			nodes.CleanStep{Interface: nodes.InterfaceRAID, Step: "create_configuration"})
	}
	for _, step := range s.serviceSteps() {
		steps = append(steps, nodes.CleanStep(step))
	}
	return steps
}

func (s settings) serviceSteps() (steps []nodes.ServiceStep) {
	if len(s.bios) > 0 {
		var list []map[string]any
		for name, value := range s.bios {
			list = append(list, map[string]any{"name": name, "value": value})
		}
		steps = append(steps, nodes.ServiceStep{Interface: nodes.InterfaceBIOS, Step: "apply_configuration", Args: map[string]any{"settings": list}})
	}
	if len(s.firmware) > 0 {
		var list []map[string]string
		for component, url := range s.firmware {
			list = append(list, map[string]string{"component": component, "url": url})
		}
		steps = append(steps, nodes.ServiceStep{Interface: "firmware", Step: "update", Args: map[string]any{"settings": list}})
	}
	return steps
}

// prepare brings the hardware's settings about by manual cleaning, once.
func (h *host) prepare(s settings, restart bool) func() (turn, error) {
	unprepared := true
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.Available:
			if unprepared && len(s.cleanSteps()) > 0 {
				return h.ask(n, nodes.TargetManage)
			}
			return turn{}, nil
		case nodes.Manageable:
			if !unprepared || len(s.cleanSteps()) == 0 {
				return turn{}, nil
			}
			if len(s.volumes) > 0 {
				p := &patch{}
				p.want("/raid_interface", n.RAIDInterface, true, h.access.raid)
				var result turn
				if n, result, err = h.update(n, p); n == nil || err != nil {
					return result, err
				}
				if err := nodes.SetRAIDConfig(h.t.Context(), h.o.client, n.UUID, nodes.RAIDConfigOpts{LogicalDisks: s.volumes}).ExtractErr(); err != nil {
					return turn{}, err
				}
			}
			ok, result, err := h.change(n, nodes.ProvisionStateOpts{Target: nodes.TargetClean, CleanSteps: s.cleanSteps()})
			unprepared = unprepared && !ok
			return result, err
		case nodes.CleanFail:
			if !restart {
				return turn{failed: n.LastError}, nil
			}
			if n.Maintenance {
				return h.maintenance(n, false)
			}
			unprepared = true
			return h.ask(n, nodes.TargetManage)
		case nodes.Cleaning, nodes.CleanWait:
			return again, nil
		}
		return turn{failed: "unexpected state " + n.ProvisionState}, nil
	}
}

// biosSettings reads the settings as the operator does for its own resource.
func (h *host) biosSettings() map[string]string {
	h.t.Helper()
	list, err := nodes.ListBIOSSettings(h.t.Context(), h.o.client, h.node, nodes.ListBIOSSettingsOpts{Detail: true}).Extract()
	if err != nil {
		h.t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range list {
		values[s.Name] = s.Value
		if s.AttributeType == "" {
			h.t.Errorf("setting %s has no attribute_type in detail: %+v", s.Name, s)
		}
	}
	return values
}

// components reads the firmware's versions.
func (h *host) components() map[string]nodes.FirmwareComponent {
	h.t.Helper()
	list, err := nodes.ListFirmware(h.t.Context(), h.o.client, h.node).Extract()
	if err != nil {
		h.t.Fatal(err)
	}
	versions := map[string]nodes.FirmwareComponent{}
	for _, c := range list {
		versions[c.Component] = c
	}
	return versions
}

func TestPrepare(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "prepared", "52:54:00:3a:00:20", fake())
	h.until("register", h.register(false))
	before, versions := h.biosSettings(), h.components()
	if len(before) == 0 || versions["bios"].CurrentVersion == "" || versions["bmc"].InitialVersion == "" {
		t.Fatalf("BIOS settings %v, firmware %+v", before, versions)
	}
	size, root := 50, true
	s := settings{volumes: []nodes.LogicalDisk{{SizeGB: &size, RAIDLevel: nodes.RAID1, VolumeName: "root", IsRootVolume: &root}},
		firmware: map[string]string{"bmc": "http://192.0.2.1/bmc-9.9.bin"}, bios: map[string]any{}}
	var name string
	for name = range before {
		if before[name] == "Enabled" || before[name] == "Disabled" {
			break
		}
	}
	want := "Enabled"
	if before[name] == want {
		want = "Disabled"
	}
	s.bios[name] = want
	h.until("prepare", h.prepare(s, false))
	n := h.now()
	if n.ProvisionState != string(nodes.Manageable) || n.LastError != "" {
		t.Errorf("prepared: %s", h.describe())
	}
	if got := h.biosSettings()[name]; got != want {
		t.Errorf("BIOS setting %s is %q, want %q", name, got, want)
	}
	if c := h.components()["bmc"]; c.CurrentVersion == versions["bmc"].CurrentVersion || c.LastVersionFlashed == "" || c.UpdatedAt == nil {
		t.Errorf("firmware of the BMC: %+v, was %+v", c, versions["bmc"])
	}
	if disks, _ := n.RAIDConfig["logical_disks"].([]any); len(disks) != 1 {
		t.Errorf("raid_config %v", n.RAIDConfig)
	}
	h.until("provide", h.provide)
	h.until("prepare what is available", h.prepare(s, false))
}

// A failed preparation is told, and tried again out of maintenance.
func TestPrepareFailure(t *testing.T) {
	o := newOperator(t)
	a := fake()
	a.info = map[string]any{"fake_apply_configuration_fail": "write protected"}
	h := o.host(t, "protected", "52:54:00:3a:00:21", a)
	h.until("register", h.register(false))
	s := settings{bios: map[string]any{"ProcVirtualization": "Disabled"}}
	if text := h.fails("prepare", h.prepare(s, false)); !strings.Contains(text, "write protected") {
		t.Errorf("failed with %q", text)
	}
	if n := h.now(); n.ProvisionState != string(nodes.CleanFail) || !n.Maintenance || n.Fault != "clean failure" {
		t.Errorf("after the failure: %s, fault %q", h.describe(), n.Fault)
	}
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	h.until("prepare again", h.prepare(s, true))
	if n := h.now(); n.ProvisionState != string(nodes.Manageable) || n.Maintenance {
		t.Errorf("prepared: %s", h.describe())
	}
}

// provide makes a prepared host available.
func (h *host) provide() (turn, error) {
	n, err := h.get()
	switch {
	case err != nil || n.ProvisionState == string(nodes.Available):
		return turn{}, err
	case n.ProvisionState == string(nodes.Manageable):
		return h.ask(n, nodes.TargetProvide)
	}
	return again, nil
}

// A step that no interface has is refused before the node changes.
func TestPrepareUnknownComponent(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "unknown", "52:54:00:3a:00:22", fake())
	h.until("register", h.register(false))
	_, _, err := h.change(h.now(), nodes.ProvisionStateOpts{Target: nodes.TargetClean,
		CleanSteps: []nodes.CleanStep{{Interface: "toaster", Step: "brown"}}})
	if !gophercloud.ResponseCodeIs(err, 400) {
		t.Errorf("cleaned with %v", err)
	}
	if n := h.now(); n.ProvisionState != string(nodes.Manageable) {
		t.Errorf("the node is in %s", n.ProvisionState)
	}
}
