package metal3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// image is what a user wants to run on a host.
type image struct {
	url, checksum, algorithm, format string
	custom                           string // method of a custom deploy
}

func (i image) live() bool { return i.format == "live-iso" }

// info is what the image makes of instance_info; nil values are taken out.
func (i image) info() map[string]any {
	info := map[string]any{"capabilities": map[string]any{}, "root_device": map[string]any{"name": "s== /dev/sda"},
		"boot_iso": nil, "image_source": nil, "image_checksum": nil, "image_os_hash_algo": nil, "image_os_hash_value": nil}
	switch {
	case i.live():
		info["boot_iso"] = i.url
		return info
	case i.url == "":
		info["image_disk_format"] = nil
		return info
	case i.algorithm == "":
		info["image_checksum"] = i.checksum
	default:
		info["image_os_hash_algo"], info["image_os_hash_value"] = i.algorithm, i.checksum
	}
	info["image_source"], info["image_disk_format"] = i.url, i.format
	return info
}

// on reports whether the node was told of this image.
func (i image) on(n *nodes.Node) bool {
	for _, field := range []string{"boot_iso", "image_source", "image_checksum", "image_os_hash_algo", "image_os_hash_value"} {
		if n.InstanceInfo[field] != i.info()[field] {
			return false
		}
	}
	return true
}

func (h *host) drive(i image) any {
	if i.live() {
		return nodes.ConfigDrive{}
	}
	return nodes.ConfigDrive{UserData: "#cloud-config\n", NetworkData: map[string]any{"links": []any{}, "networks": []any{}, "services": []any{}},
		MetaData: map[string]any{"uuid": h.uid, "metal3-namespace": "metal3", "metal3-name": h.name, "local-hostname": h.name, "local_hostname": h.name, "name": h.name}}
}

// provision puts the image on the host.
func (h *host) provision(i image) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.DeployFail:
			if i.on(n) {
				return turn{failed: n.LastError}, nil
			}
			return h.startProvisioning(n, i)
		case nodes.Manageable:
			return h.ask(n, nodes.TargetProvide)
		case nodes.CleanFail:
			if n.Maintenance {
				return h.maintenance(n, false)
			}
			return h.ask(n, nodes.TargetManage)
		case nodes.Available:
			return h.startProvisioning(n, i)
		case nodes.Active:
			return turn{}, nil
		}
		return again, nil
	}
}

func (h *host) startProvisioning(n *nodes.Node, i image) (turn, error) {
	p := &patch{}
	p.want("/instance_uuid", n.InstanceUUID, true, h.uid)
	p.section("/instance_info", n.InstanceInfo, i.info())
	opts := nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: h.drive(i)}
	switch {
	case i.custom != "":
		p.want("/deploy_interface", n.DeployInterface, true, "custom-agent")
		opts.DeploySteps = []nodes.DeployStep{{Interface: nodes.InterfaceDeploy, Step: i.custom, Args: map[string]any{}, Priority: 80}}
	case i.live():
		p.want("/deploy_interface", n.DeployInterface, true, "ramdisk")
		p.section("/driver_info", n.DriverInfo, map[string]any{"force_persistent_boot_device": "Default"})
	default:
		if n.DeployInterface == "ramdisk" || n.DeployInterface == "custom-agent" {
			p.want("/deploy_interface", n.DeployInterface, true, nil)
		}
		p.section("/driver_info", n.DriverInfo, map[string]any{"force_persistent_boot_device": "Default"})
	}
	n, result, err := h.update(n, p)
	if n == nil || err != nil {
		return result, err
	}
	v, err := nodes.Validate(h.t.Context(), h.o.client, n.UUID).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return again, nil
	}
	if err != nil {
		return turn{}, err
	}
	if !v.Boot.Result || !v.Deploy.Result {
		return turn{failed: "validation: " + v.Boot.Reason + v.Deploy.Reason}, nil
	}
	_, result, err = h.change(n, opts)
	return result, err
}

// adopt takes a host over that runs its instance already.
func (h *host) adopt() (turn, error) {
	n, err := h.get()
	if err != nil {
		return turn{}, err
	}
	switch nodes.ProvisionState(n.ProvisionState) {
	case nodes.Manageable:
		return h.ask(n, nodes.TargetAdopt)
	case nodes.Adopting:
		return again, nil
	case nodes.AdoptFail:
		return turn{failed: n.LastError}, nil
	case nodes.Active:
		if n.Maintenance && n.Fault == "" {
			return h.maintenance(n, false)
		}
	}
	return turn{}, nil
}

// deprovision takes the instance off.
func (h *host) deprovision(restart bool) func() (turn, error) {
	return func() (turn, error) {
		n, err := h.get()
		if err != nil {
			return turn{}, err
		}
		switch nodes.ProvisionState(n.ProvisionState) {
		case nodes.Error:
			if !restart {
				return turn{failed: n.LastError}, nil
			}
			return h.ask(n, nodes.TargetDeleted)
		case nodes.CleanFail:
			if !restart {
				return turn{failed: n.LastError}, nil
			}
			if n.Maintenance {
				return h.maintenance(n, false)
			}
			return h.ask(n, nodes.TargetManage)
		case nodes.Manageable:
			return h.ask(n, nodes.TargetProvide)
		case nodes.Available:
			return turn{}, nil
		case nodes.Active, nodes.DeployFail, nodes.DeployWait:
			p := &patch{}
			p.want("/automated_clean", n.AutomatedClean != nil && *n.AutomatedClean, true, h.clean)
			if len(p.ops) > 0 {
				_, result, err := h.update(n, p)
				result.again = true
				return result, err
			}
			return h.ask(n, nodes.TargetDeleted)
		case nodes.Deleting, nodes.Cleaning, nodes.CleanWait, nodes.Deploying:
			return again, nil
		}
		return turn{failed: "unexpected state " + n.ProvisionState}, nil
	}
}

// remove deletes the host's node, whatever it is doing.
func (h *host) remove() (turn, error) {
	n, err := h.get()
	if err == errUnregistered {
		return turn{}, nil
	}
	if err != nil {
		return turn{}, err
	}
	switch nodes.ProvisionState(n.ProvisionState) {
	case nodes.Verifying:
		return again, nil
	case nodes.Enroll:
	case nodes.Available, nodes.Manageable:
		if n.InstanceUUID != "" {
			p := &patch{}
			p.want("/instance_uuid", n.InstanceUUID, true, nil)
			if n, result, err := h.update(n, p); n == nil || err != nil {
				return result, err
			}
		}
	default:
		if !n.Maintenance {
			return h.maintenance(n, true)
		}
	}
	err = nodes.Delete(h.t.Context(), h.o.client, n.UUID).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return turn{}, err
	}
	return again, nil
}

var (
	disk = image{url: "http://192.0.2.1/i.qcow2", checksum: strings.Repeat("a", 64), algorithm: "sha256", format: "qcow2"}
	iso  = image{url: "http://192.0.2.1/live.iso", format: "live-iso"}
	old  = image{url: "http://192.0.2.1/i.raw", checksum: strings.Repeat("b", 32), format: "raw"}
)

// ready returns a host that is registered, inspected and available.
func ready(t *testing.T, name, mac string, a access) *host {
	t.Helper()
	h := newOperator(t).host(t, name, mac, a)
	h.until("register", h.register(false))
	var found nodes.InventoryData
	h.until("inspect", h.inspect(&found, false, false))
	h.until("prepare", h.prepare(settings{}, false))
	h.until("provide", h.provide)
	return h
}

func TestProvision(t *testing.T) {
	h := ready(t, "provisioned", "52:54:00:3a:00:30", fake())
	for _, i := range []image{disk, old} {
		h.until("provision", h.provision(i))
		if n := h.now(); n.InstanceUUID != h.uid || n.PowerState != "power on" || !i.on(n) || n.LastError != "" || n.TargetProvisionState != "" {
			t.Errorf("provisioned: %s, instance %s, instance_info %v", h.describe(), n.InstanceUUID, n.InstanceInfo)
		}
		h.until("register what is provisioned", h.register(false))
		h.until("deprovision", h.deprovision(false))
		if n := h.now(); n.InstanceUUID != "" || len(n.InstanceInfo) != 0 || n.PowerState != "power off" {
			t.Errorf("deprovisioned: %s, instance %q, instance_info %v", h.describe(), n.InstanceUUID, n.InstanceInfo)
		}
	}
	h.until("delete", h.remove)
}

// A failure is told once; another image is tried, and cleaning, which fails too, again.
func TestProvisionFailures(t *testing.T) {
	a := fake()
	a.info = map[string]any{"fake_write_image_fail": "no room", "fake_erase_devices_fail": "worn out"}
	h := ready(t, "failing", "52:54:00:3a:00:31", a)
	if text := h.fails("provision", h.provision(disk)); !strings.Contains(text, "no room") {
		t.Errorf("failed with %q", text)
	}
	h.access.info = map[string]any{"fake_erase_devices_fail": "worn out"}
	h.until("update", h.register(true))
	h.until("provision another image", h.provision(old))
	h.clean = true
	if text := h.fails("deprovision", h.deprovision(false)); !strings.Contains(text, "worn out") {
		t.Errorf("failed with %q", text)
	}
	h.access.info = map[string]any{}
	h.until("update", h.register(true))
	h.until("deprovision again", h.deprovision(true))
}

// Validation says what is missing before anything is touched.
func TestProvisionInvalid(t *testing.T) {
	a := fake()
	a.info = map[string]any{"fake_deploy_validate_fail": "no checksum"}
	h := ready(t, "invalid", "52:54:00:3a:00:32", a)
	if text := h.fails("provision", h.provision(disk)); !strings.Contains(text, "no checksum") {
		t.Errorf("failed with %q", text)
	}
	if n := h.now(); n.ProvisionState != string(nodes.Available) {
		t.Error(h.describe())
	}
}

// A live image boots and a custom deploy runs its step; a disk image afterwards gets the
// default deploy interface back.
func TestProvisionOtherwise(t *testing.T) {
	h := ready(t, "otherwise", "52:54:00:3a:00:33", fake())
	for _, c := range []struct {
		image
		deploy string
	}{{iso, "ramdisk"}, {disk, "fake"}, {image{custom: "erase_devices_metadata"}, "custom-agent"}, {disk, "fake"}} {
		h.until("provision", h.provision(c.image))
		if n := h.now(); n.DeployInterface != c.deploy || !c.on(n) {
			t.Errorf("deploy interface %q, want %q; instance_info %v", n.DeployInterface, c.deploy, n.InstanceInfo)
		}
		h.until("deprovision", h.deprovision(false))
	}
}

// A host that runs already is adopted, and forgotten without a change to it.
func TestAdopt(t *testing.T) {
	o := newOperator(t)
	h := o.host(t, "adopted", "52:54:00:3a:00:34", fake())
	h.until("register", h.register(false))
	h.until("power on", h.powerOn(false))
	n := h.now()
	p := &patch{}
	p.want("/instance_uuid", n.InstanceUUID, true, h.uid)
	p.section("/instance_info", n.InstanceInfo, disk.info())
	if _, _, err := h.update(n, p); err != nil {
		t.Fatal(err)
	}
	h.until("adopt", h.adopt)
	if n := h.now(); n.ProvisionState != string(nodes.Active) || n.PowerState != "power on" || n.InstanceUUID != h.uid {
		t.Error(h.describe())
	}
	h.until("detach", h.remove)
}

// Whatever a host is doing, it can be deleted.
func TestDelete(t *testing.T) {
	a := fake()
	a.info = map[string]any{"fake_write_image_delay": 3600}
	h := ready(t, "unwanted", "52:54:00:3a:00:35", a)
	h.until("begin to provision", func() (turn, error) {
		n, err := h.get()
		if err != nil || n.ProvisionState == string(nodes.DeployWait) {
			return turn{}, err
		}
		_, err = h.provision(disk)()
		return again, err
	})
	h.until("delete", h.remove)
	if taken, err := h.ports(ports.ListOpts{Address: h.mac}); err != nil || len(taken) != 0 {
		t.Errorf("ports that are left: %v, %v", taken, err)
	}
	again := h.o.host(t, "unwanted", h.mac, fake())
	again.until("register anew", again.register(false))
	again.until("delete", again.remove)
}
