package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/ring"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

const driverName = "fake-hardware"

// drawNodes returns UUIDs of which the ring gives each rackd exactly n, the same in
// every run.
func drawNodes(rackds []string, n int) (all []string) {
	var members []ring.Member
	for _, name := range rackds {
		members = append(members, ring.Member{Name: name, Group: group, Drivers: []string{driverName}})
	}
	r := ring.New(members)
	random := rand.NewChaCha8([32]byte{1})
	for count := map[string]int{}; len(all) < n*len(rackds); {
		id := uuid.Must(uuid.NewRandomFromReader(random)).String()
		if owner, _ := r.Owner(id, driverName, group); count[owner.Name] < n {
			count[owner.Name]++
			all = append(all, id)
		}
	}
	return all
}

// generation is that of every node and its work: one request follows another without
// the node being written each time.
const generation = 1

// stepSeconds is how long the steps of busy nodes last: longer than any measurement.
const stepSeconds = 6 * 3600

// address is that of a port of node i.
func address(i, port int) string {
	return fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", i>>16&0xff, i>>8&0xff, i&0xff, port)
}

// document is node i as central would write it for a server with a Redfish BMC. What
// runs it is fake hardware, whose slow steps need no machine.
func document(key *seal.Key, id string, i int) *node.Document {
	interfaces := map[string]string{}
	for _, kind := range node.InterfaceKinds {
		interfaces[kind] = "fake"
	}
	image := fmt.Sprintf("https://images.example.org/releases/2026.1/server-%d.qcow2", i%20)
	return &node.Document{UUID: id, Name: fmt.Sprintf("rack-%03d-unit-%02d", i/40, i%40), Group: group, Driver: driverName,
		Generation: generation, Revision: 7, Interfaces: interfaces, InstanceUUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(id)).String(),
		DriverInfo: key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: id}, map[string]any{"redfish_address": fmt.Sprintf("https://10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff),
			"redfish_system_id": "/redfish/v1/Systems/System.Embedded.1", "redfish_username": "provisioner",
			"redfish_password": fmt.Sprintf("a-password-of-%08x", i*2654435761), "redfish_verify_ca": false, "force_persistent_boot_device": "Never",
			"deploy_kernel": "file:///srv/ramdisk/kernel", "deploy_ramdisk": "file:///srv/ramdisk/initramfs",
			"fake_write_image_delay": stepSeconds, "fake_erase_devices_delay": stepSeconds, "fake_inspect_delay": stepSeconds}),
		Properties: map[string]any{"cpus": 64, "cpu_arch": "x86_64", "memory_mb": 524288, "local_gb": 960, "vendor": "Example Inc.",
			"capabilities": "boot_mode:uefi,secure_boot:true,disk_label:gpt", "root_device": map[string]any{"wwn": fmt.Sprintf("0x5000c500%08x", i)}},
		InstanceInfo: map[string]any{"image_source": image, "image_os_hash_algo": "sha256", "image_disk_format": "qcow2", "image_type": "whole-disk",
			"image_os_hash_value": fmt.Sprintf("%064x", i%20), "image_checksum": fmt.Sprintf("%032x", i%20), "root_gb": 960,
			"display_name": fmt.Sprintf("worker-%05d", i), "capabilities": map[string]any{"boot_option": "local", "secure_boot": "true"}},
		Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"},
		Ports: []node.Port{{UUID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(id)).String(), Address: address(i, 0), PXEEnabled: true},
			{UUID: uuid.NewSHA1(uuid.NameSpaceDNS, []byte(id)).String(), Address: address(i, 1)}},
		State: provision.Active}
}

// request is the work that central would create for node i: a deploy, a cleaning or an
// inspection, each of which has one long step.
func request(id string, i int) work.Document {
	d := work.Document{ID: uuid.NewString(), Node: id, Group: group, Generation: generation, Requested: time.Now().UTC(), RequestID: "req-" + uuid.NewString()}
	switch i % 3 {
	case 0:
		d.Verb, d.Entry, d.EntryTarget = work.Deploy, provision.Deploying, provision.Active
	case 1:
		d.Verb, d.Entry, d.EntryTarget = work.Provide, provision.Cleaning, provision.Available
	default:
		d.Verb, d.Entry, d.EntryTarget = work.Inspect, provision.Inspecting, provision.Manageable
	}
	return d
}

// underWay reports whether work is in the middle of its long step.
func underWay(d *work.Document) bool {
	return d.Open() && d.Checkpoint.Phase == work.Started && d.Checkpoint.Handle != nil
}
