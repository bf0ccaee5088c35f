package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/drivers"
)

// What a node's fields say and no interface of it reads is said, and nothing else.
func TestUnread(t *testing.T) {
	set, err := drivers.Open(drivers.Options{Enabled: []string{"redfish", "fake-hardware"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close(t.Context()) })
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprintf("key_%03d_%s", i, strings.Repeat("x", 500))] = 1
	}
	for name, c := range map[string]struct {
		n                  node.Document
		management, deploy string // of what is said; empty: nothing
	}{
		"what a usual deploy has": {n: node.Document{Driver: "redfish",
			DriverInfo: map[string]any{"redfish_address": "https://bmc", "redfish_username": "u", "deploy_kernel": "http://h/k", "deploy_ramdisk": "http://h/r", "force_persistent_boot_device": "Default"},
			InstanceInfo: map[string]any{"image_source": "http://h/i", "image_checksum": "c", "root_gb": "10", "swap_mb": "0", "vcpus": "1", "display_name": "d", "traits": []any{}, "capabilities": `{"boot_option": "local"}`,
				"configdrive": "kept", "nova_host_id": "h", "project_id": "p"},
			Properties: map[string]any{"cpus": 4, "memory_mb": 1, "local_gb": 1, "cpu_arch": "x86_64", "capabilities": "profile:x", "root_device": map[string]any{"size": 5}, "vendor": "v"}}},
		"another driver's, another boot interface's, a slip": {n: node.Document{Driver: "redfish",
			DriverInfo: map[string]any{"ipmi_username": "u", "deploy_iso": "http://h/i", "redfish_adress": "x", "provisioning_network": nil}},
			management: "driver_info deploy_iso, ipmi_username, redfish_adress"},
		"the boot interface that reads it": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-virtual-media"},
			DriverInfo: map[string]any{"deploy_iso": "http://h/i", "deploy_kernel": "http://h/k", "deploy_ramdisk": "http://h/r", "kernel_append_params": "a", "force_persistent_boot_device": "Always"}},
			management: "kept, and not used: driver_info deploy_kernel, deploy_ramdisk (the node's deploy_iso has its own)"},
		"media of its own, for rescues too": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-virtual-media"},
			DriverInfo: map[string]any{"deploy_iso": "http://h/i", "rescue_iso": "http://h/r", "kernel_append_params": "a"}},
			management: "driver_info kernel_append_params (the node's deploy_iso has its own; a second medium (config_via_removable) would bring them)"},
		"media of its own, with parameters": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-virtual-media"},
			DriverInfo: map[string]any{"deploy_iso": "http://h/i", "rescue_iso": "http://h/r", "kernel_append_params": "a", "config_via_removable": "true"}}},
		"media that rackd makes": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-virtual-media"},
			DriverInfo: map[string]any{"deploy_kernel": "http://h/k", "deploy_ramdisk": "http://h/r", "kernel_append_params": "a"}}},
		"central's": {n: node.Document{Driver: "redfish", DriverInfo: map[string]any{"ipmi_address": "10.0.0.1"}}},
		"an instance that asks for more": {n: node.Document{Driver: "redfish",
			InstanceInfo: map[string]any{"image_https_proxy": "http://p", "capabilities": map[string]any{"profile": "big", "cpu_vt": "true", "boot_mode": "uefi"}},
			Properties:   map[string]any{"capabilities": "cpu_vt:true", "root_devices": map[string]any{"size": 5}}},
			deploy: "instance_info image_https_proxy; the capability profile; properties root_devices"},
		"capabilities that are none": {n: node.Document{Driver: "redfish", Properties: map[string]any{"capabilities": "profile:x,boot_mode=bios"}}, deploy: "name:value, boot_mode=bios"},
		"an image that is booted, with a config drive": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "ipxe", "deploy": "ramdisk"},
			InstanceInfo: map[string]any{"boot_iso": "http://h/i", "configdrive": "kept", "image_source": "http://h/i"}}, deploy: "instance_info configdrive"},
		"one that firmware loads, with a config drive": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-https", "deploy": "ramdisk"},
			InstanceInfo: map[string]any{"boot_iso": "http://h/i", "configdrive": "kept"}}, deploy: "instance_info configdrive"},
		"one from a drive, with a config drive": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"boot": "redfish-virtual-media", "deploy": "ramdisk"},
			InstanceInfo: map[string]any{"boot_iso": "http://h/i", "configdrive": "kept"}}},
		"a custom deploy, with a config drive": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"deploy": "custom-agent"},
			InstanceInfo: map[string]any{"configdrive": "kept", "image_source": "http://h/i", "image_checksum": "ab", "root_device": map[string]any{"serial": "x"}, "swap_mb": 512, "kernel": "http://h/k"}},
			deploy: "instance_info image_checksum, image_source, kernel, root_device, swap_mb"},
		"a partition image that boots from its disk": {n: node.Document{Driver: "redfish",
			InstanceInfo: map[string]any{"kernel": "http://h/k", "ramdisk": "http://h/r", "root_gb": 1, "image_https_proxy": "http://p"}},
			deploy: "kept, and not used: instance_info kernel, ramdisk (a partition image boots from its disk; the capability boot_option:netboot has it boot these). " +
				"kept, and no interface of this node reads it: instance_info image_https_proxy"},
		"a partition image that autodetect deploys": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"deploy": "autodetect"},
			InstanceInfo: map[string]any{"kernel": "http://h/k", "root_gb": 1}}, deploy: "instance_info kernel (a partition image boots from its disk; the capability boot_option:netboot has it boot these)"},
		"a ramdisk that autodetect deploys": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"deploy": "autodetect"},
			InstanceInfo: map[string]any{"boot_iso": "http://h/i", "ironic_ramdisk_deploy": "1", "root_gb": 1, "image_type": "whole-disk", "swap_mb": 512, "root_device": map[string]any{"serial": "x"}, "bootc_tpm2_luks": true, "image_https_proxy": "http://p"}},
			deploy: "kept, and not used: instance_info bootc_tpm2_luks, root_device, swap_mb (another deploy interface reads it than the one that the instance's fields choose). " +
				"kept, and no interface of this node reads it: instance_info image_https_proxy"},
		"a volume": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"storage": "external"}, Targets: []node.Target{{UUID: "t", Type: "iscsi"}},
			InstanceInfo: map[string]any{"image_checksum": "c", "root_gb": 1, "root_device": map[string]any{"serial": "x"}}},
			deploy: "kept, and not used: instance_info image_checksum, root_device (the instance boots from a volume, and no image is written)"},
		"a partition image by the network": {n: node.Document{Driver: "redfish", InstanceInfo: map[string]any{"kernel": "http://h/k", "ramdisk": "http://h/r", "root_gb": 1,
			"ramdisk_kernel_arguments": "quiet", "capabilities": "boot_option:netboot"}}},
		"a kernel that boots": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"deploy": "ramdisk"},
			InstanceInfo: map[string]any{"kernel": "http://h/k", "ramdisk": "http://h/r"}}},
		"an installer's kernel": {n: node.Document{Driver: "redfish", Interfaces: map[string]string{"deploy": "anaconda"},
			InstanceInfo: map[string]any{"kernel": "http://h/k", "ramdisk": "http://h/r", "stage2": "http://h/s", "image_source": "http://h/i"}}},
		"fake hardware": {n: node.Document{Driver: "fake-hardware", DriverInfo: map[string]any{"fake_write_image_delay": "1", "fake_deploy_validate_fail": "", "fake_delay": "1"}},
			management: "driver_info fake_delay"},
		"very many": {n: node.Document{Driver: "redfish", DriverInfo: many}, management: "and 990 more"},
	} {
		c.n.UUID = "u"
		hw, err := set.Resolve(&c.n)
		if err != nil {
			t.Fatal(err)
		}
		said := hw.Unread(&c.n)
		for kind, want := range map[string]string{"management": c.management, "deploy": c.deploy} {
			switch got := said[kind]; {
			case want == "" && got != "", !strings.HasSuffix(got, want), len(got) > 1000:
				t.Errorf("%s: of %s it says %q, want %q", name, kind, got, want)
			}
			delete(said, kind)
		}
		if len(said) > 0 {
			t.Errorf("%s: %v", name, said)
		}
	}
}
