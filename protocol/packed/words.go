package packed

// words are texts that have a number: what documents of nodes are usually made of. The first
// shortWords of them take one byte. Readers of another version know them by their numbers:
// none is ever removed or moved, new ones come at the end.
var words = [...]string{
	// Kinds of hardware interfaces, implementations and hardware types; fields of driver_info,
	// properties and instance_info, and what they usually say.
	"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power", "raid", "rescue", "storage", "vendor", "fake",
	"redfish", "redfish-virtual-media", "redfish-https", "ipxe", "http-ipxe", "direct", "ramdisk", "agent", "noop", "flat", "no-bios", "no-console",
	"no-firmware", "no-inspect", "no-raid", "no-rescue", "no-vendor", "fake-hardware", "pxe", "ipmitool", "ipmi", "redfish_address", "redfish_username",
	"redfish_password", "redfish_system_id", "redfish_verify_ca", "redfish_auth_type", "deploy_kernel", "deploy_ramdisk", "rescue_kernel",
	"rescue_ramdisk", "bootloader", "force_persistent_boot_device", "kernel_append_params", "ipmi_address", "ipmi_username", "ipmi_password",
	"ipmi_port", "ipmi_terminal_port", "cleaning_network", "provisioning_network", "rescuing_network", "inspection_network", "cpus", "cpu_arch",
	"memory_mb", "local_gb", "capabilities", "root_device", "size", "wwn", "serial", "model", "name", "rotational", "hctl", "by_path", "x86_64",
	"aarch64", "uefi", "boot_mode", "secure_boot", "boot_option", "local", "netboot", "true", "false", "None", "Never", "Always", "Default",
	"boot_mode:uefi", "boot_mode:bios", "boot_mode:uefi,secure_boot:true", "image_source", "image_checksum", "image_os_hash_algo",
	"image_os_hash_value", "image_disk_format", "image_type", "image_url", "image_container_format", "image_properties", "image_tags", "whole-disk",
	"partition", "sha256", "sha512", "md5", "qcow2", "raw", "root_gb", "swap_mb", "ephemeral_gb", "ephemeral_format", "kernel", "traits",
	"display_name", "configdrive", "root_device_hints", "vcpus", "nova_host_id", "project_id", "available", "active",

	// Provision states, faults, and what is rarer.
	"enroll", "verifying", "manageable", "error", "deploying", "wait call-back", "deploy failed", "deploy hold", "deleting", "cleaning", "clean wait",
	"clean failed", "clean hold", "inspecting", "inspect wait", "inspect failed", "adopting", "adopt failed", "rescuing", "rescue wait",
	"rescue failed", "unrescuing", "unrescue failed", "servicing", "service wait", "service failed", "service hold", "power failure", "clean failure",
	"rescue abort failure", "service failure", "baremetal", "disk_label", "gpt", "msdos", "boot_iso", "ramdisk_kernel_arguments", "user_id",
	"tenant_id", "flavor", "fixed_ips", "nova", "instance_type", "image_download_source", "http", "https", "swift", "iso", "vmdk", "vhd", "vhdx",
	"image_compression", "os_hash_algo", "os_hash_value", "disk_format", "container_format", "address", "snmp_version", "snmp_driver", "snmp_community",
	"snmp_auth_key", "snmp_priv_key", "console_port", "enabled", "logical_disks", "controller", "physical_disks", "raid_level", "size_gb",
	"is_root_volume", "disk_type", "interface_type", "number_of_physical_disks", "volume_name", "share_physical_disks", "MAX", "JBOD", "0", "1", "2",
	"5", "6", "1+0", "5+0", "6+0", "hdd", "ssd", "sas", "sata", "nvme", "software", "neutron", "cinder", "external", "custom-agent", "anaconda",
	"bootc", "socat", "ipmitool-socat", "ipmitool-shellinabox", "redfish-graphical", "idrac", "idrac-redfish", "idrac-wsman", "ilo", "ilo5",
	"ilo-virtual-media", "ilo-ipxe", "ilo-pxe", "ilo-uefi-https", "irmc", "irmc-virtual-media", "irmc-pxe", "snmp", "intel-ipmi", "manual-management",
	"size_gib", "vendor_id", "wwn_with_extension", "wwn_vendor_extension", "tran", "password", "username", "auth_type", "basic", "session", "auto",
	"vmedia_boot_iso", "image_no_proxy", "image_http_proxy", "image_https_proxy", "config_via_removable", "config_via_floppy", "agent_verify_ca",
	"cleaning_runbook", "ramdisk_id", "kernel_id", "stage2", "ks_template", "ks_cfg", "bootloader_by_arch", "deploy_kernel_by_arch",
	"deploy_ramdisk_by_arch", "kernel_by_arch", "ramdisk_by_arch", "cpu_model_name", "cpu_flags", "numa", "pxe_enabled", "switch_id", "port_id",
	"switch_info", "boot_option:local", "boot_mode:uefi,boot_option:local", "secure_boot:true", "disk_label:gpt",
	"file:///srv/ironyard/ironyard.kernel", "file:///srv/ironyard/ironyard.initramfs", "/redfish/v1/Systems/1", "/redfish/v1/Systems/System.Embedded.1",
	"root", "admin", "operator", "Administrator", "calvin",
}

// numbers are the words' places in the table.
var numbers = func() map[string]int {
	m := make(map[string]int, len(words))
	for i, w := range words {
		m[w] = i
	}
	return m
}()
