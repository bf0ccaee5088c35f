package fields

import "strings"

// interfaces are the rows of a node's interfaces: the rackd uses the implementations that they name.
func interfaces(kinds ...string) table {
	t := table{}
	for _, kind := range kinds {
		t["nodes "+kind+"_interface"] = by("rackd/driver.Resolve", "central/api.fitInterfaces").as("Interfaces").
			refusing(refusal{method: "POST", path: "/v1/nodes", body: `{"driver":"redfish","` + kind + `_interface":"nonesuch"}`, status: 400,
				words: "Could not find the following interface in the 'ironic.hardware.interfaces." + kind + "' entrypoint: nonesuch"})
	}
	return t
}

var nodes = joined(interfaces("bios", "boot", "console", "deploy", "firmware", "inspect", "management", "power", "raid", "rescue", "vendor"), table{
	"nodes *": {note: "Unknown fields are refused."},
	"nodes network_interface": by("central/api.changeVIFs", "central/api.updatePort").as("network").
		with("`flat` keeps VIFs, `noop` keeps none. No rack configures a switch for either."),
	"nodes storage_interface": by("rackd/driver.Resolve").as("Interfaces").with("`noop` uses no volume. `external` and `cinder` boot from them; no program here calls Cinder."),
	"nodes automated_clean":   by("rackd/conductor/flow.cleaningSteps"),
	"nodes boot_mode":         kept("What the machine was last seen to boot by. The first look at its BMC replaces what a request says; PUT states/boot_mode changes the machine."),
	"nodes secure_boot":       kept("As boot_mode: what was seen last. PUT states/secure_boot changes the machine."),
	"nodes console_enabled": row{note: "False changes nothing."}.refusing(refusal{method: "POST", path: "/v1/nodes",
		body: `{"driver":"fake-hardware","console_enabled":true}`, status: 400, words: "console_enabled is true for a new node, and its console is off"}),
	"nodes chassis_uuid":    by("central/api.checkPlace", "central/api.nodesOfChassis"),
	"nodes conductor_group": by("central/dispatch.Owner", "central/relay.document"),
	"nodes description":     kept("A text for people; lists of nodes can be filtered by it."),
	"nodes disable_power_off": by("central/dispatch.Power", "rackd/driver.StaysOn", "rackd/driver/bringup.Off").refusing(refusal{
		set: `[{"op":"add","path":"/disable_power_off","value":true}]`, method: "PUT", path: "/v1/nodes/{n}/states/power", body: `{"target":"power off"}`, status: 409, words: "Failed to set node power state to power off"}),
	"nodes driver":        by("rackd/driver.Resolve", "central/dispatch.Owner", "central/api.modernise").with("Names of Ironic's classic drivers, such as `pxe_ipmitool`, become hardware types (`central/classic`).").refusing(refusal{method: "POST", path: "/v1/nodes", body: `{"driver":"ipmi"}`, status: 400, words: "No valid host was found"}),
	"nodes driver_info":   by("rackd/driver.unreadDriverInfo").with("Key by key below."),
	"nodes extra":         kept("Kept for clients by definition. Inspection rules may read it."),
	"nodes instance_info": by("rackd/driver.unreadInstanceInfo").with("Key by key below."),
	"nodes instance_name": kept("A name for people; lists of nodes can be filtered by it."),
	"nodes instance_uuid": by("central/allocation.suits", "central/api.checkDelete"),
	"nodes lessee":        by("central/api.nodeTarget", "central/api.hearsOf"),
	"nodes maintenance":   by("central/dispatch.Actionable", "rackd/conductor/runner.parks"),
	"nodes name":          by("central/api.checkName"),
	"nodes network_data": by("rackd/netboot/mediaweb.image", "rackd/driver/mediaboot.checkNetwork").with("For the ramdisk, where it boots from a medium that rackd makes.").
		saying(saying{`[{"op":"add","path":"/network_data","value":{"links":[],"networks":[],"services":[]}}]`, "network", "no interface of this node reads it: network_data"}).
		refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}", body: `[{"op":"add","path":"/network_data","value":{"links":[]}}]`, status: 400, words: "Invalid network_data: 'networks' is a required property"}),
	"nodes owner":       by("central/api.nodeTarget", "central/allocation.suits"),
	"nodes parent_node": by("central/dispatch.family", "central/api.checkAncestors"),
	"nodes properties":  by("rackd/driver.Unread").with("Key by key below."),
	"nodes protected": by("central/dispatch.forbidden", "central/api.checkDelete").refusing(refusal{in: "active",
		set: `[{"op":"replace","path":"/protected","value":true}]`, method: "PUT", path: "/v1/nodes/{n}/states/provision", body: `{"target":"deleted"}`, status: 403, words: "is protected and cannot be undeployed, rebuilt or deleted"}),
	"nodes protected_reason": kept("A text for people.").refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}", body: `[{"op":"replace","path":"/protected_reason","value":"x"}]`, status: 400, words: "protected_reason field can only be set when protected is True"}),
	"nodes resource_class":   by("central/allocation.suits", "rackd/rackramdisk.Of"),
	"nodes retired":          by("central/allocation.suits", "central/dispatch.forbidden", "rackd/conductor/runner.finish"),
	"nodes retired_reason":   kept("A text for people.").refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}", body: `[{"op":"replace","path":"/retired_reason","value":"x"}]`, status: 400, words: "retired_reason field can only be set when retired is True"}),
	"nodes shard":            by("central/api.nodeQuery"),
	"nodes uuid":             by("central/api.createNode"),
})

func init() {
	nodes["nodes *"] = unknown("/v1/nodes", `{"driver":"fake-hardware","colour":"red"}`)
}

// unknown is the row of the fields that a resource does not have.
func unknown(path, body string) row {
	return row{note: "Unknown fields are refused."}.refusing(refusal{method: "POST", path: path, body: body, status: 400, words: "Additional properties are not allowed ('colour' was unexpected)"})
}

// deploying is the refusal of a deploy by the interface direct of a node whose instance_info has something; all else is in order.
func deploying(info, words string) refusal {
	const image = `"image_source":"http://127.0.0.1:1/i.raw","image_checksum":"0000000000000000000000000000000000000000000000000000000000000000"`
	if info != "" {
		info = "," + info
	}
	return refusal{set: `[{"op":"add","path":"/deploy_interface","value":"direct"},{"op":"add","path":"/instance_info","value":{` + image + info + `}}]`,
		method: "PUT", path: "/v1/nodes/{n}/states/provision", body: `{"target":"active"}`, status: 400, words: words, short: "a deploy by `direct` with `" + strings.TrimPrefix(info, ",") + "`"}
}

var driverInfo = table{
	"driver_info *": by("rackd/driver.unreadDriverInfo").as("driver_info").with("Kept. `validate` (management) and the history of each flow name the keys that no interface of the node reads.").
		saying(saying{`[{"op":"add","path":"/driver_info/redfish_adress","value":"x"}]`, "management", "no interface of this node reads it: driver_info redfish_adress"}),
	"driver_info deploy_iso": by("rackd/driver/mediaboot.ready").
		saying(saying{`[{"op":"add","path":"/driver_info/deploy_iso","value":"http://127.0.0.1:1/i"}]`, "management", "driver_info deploy_iso"}),
	"driver_info deploy_kernel":                     by("rackd/driver/ownramdisk.fields"),
	"driver_info deploy_ramdisk":                    by("rackd/driver/ownramdisk.fields"),
	"driver_info external_http_url":                 by("rackd/driver/mediaboot.ownBase"),
	"driver_info bootloader":                        by("rackd/driver/mediaboot.Validate"),
	"driver_info config_via_removable":              by("rackd/driver/mediaboot.removable"),
	"driver_info config_via_floppy":                 by("rackd/driver/mediaboot.removable"),
	"driver_info rescue_iso":                        by("rackd/driver/mediaboot.ValidateRescue", "rackd/driver/mediaboot.ready"),
	"driver_info rescue_kernel":                     by("rackd/driver/ownramdisk.fields"),
	"driver_info rescue_ramdisk":                    by("rackd/driver/ownramdisk.fields"),
	"driver_info fake_<kind>_validate_fail":         by("rackd/driver/fake.Validate").as("_validate_fail"),
	"driver_info fake_<step or method>_delay":       by("rackd/driver/fake.delayOf").as("_delay"),
	"driver_info fake_<step or method>_fail":        by("rackd/driver/fake.failure").as("_fail"),
	"driver_info fake_<step or method>_unreachable": by("rackd/driver/fake.failure").as("_unreachable"),
	"driver_info fake_health":                       by("rackd/driver/fake.Health"),
	"driver_info fake_serial_number":                by("rackd/driver/fake.Identity"),
	"driver_info fake_system_uuid":                  by("rackd/driver/fake.Identity"),
	"driver_info force_persistent_boot_device":      by("rackd/driver/networkboot.persists", "rackd/driver/mediaboot.persists"),
	"driver_info ipmi_address":                      by("rackd/driver/ipmi.address"),
	"driver_info ipmi_bridging":                     by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_cipher_suite":                 by("rackd/driver/ipmi.suite"),
	"driver_info ipmi_disable_boot_timeout":         by("rackd/driver/ipmi.parse"),
	"driver_info ipmi_force_boot_device":            by("rackd/driver/ipmi.parse"),
	"driver_info ipmi_hex_kg_key":                   by("rackd/driver/ipmi.key"),
	"driver_info ipmi_local_address":                by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_password":                     by("rackd/driver/ipmi.parse"),
	"driver_info ipmi_port":                         by("rackd/driver/ipmi.parse"),
	"driver_info ipmi_priv_level":                   by("rackd/driver/ipmi.privilege"),
	"driver_info ipmi_protocol_version":             by("rackd/driver/ipmi.version"),
	"driver_info ipmi_target_address":               by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_target_channel":               by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_transit_address":              by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_transit_channel":              by("rackd/driver/ipmi.bridge"),
	"driver_info ipmi_terminal_port":                by("rackd/driver/ipmi.parse").with("Checked. A console has no port of its own ([consoles.md](consoles.md))."),
	"driver_info ipmi_username":                     by("rackd/driver/ipmi.parse"),
	"driver_info image_http_proxy":                  by("rackd/driver/imagefields.proxiesOf").as("fieldHTTPProxy"),
	"driver_info image_https_proxy":                 by("rackd/driver/imagefields.proxiesOf").as("fieldHTTPSProxy"),
	"driver_info image_no_proxy":                    by("rackd/driver/imagefields.proxiesOf").as("fieldNoProxy"),
	"driver_info image_pull_secret":                 by("rackd/driver/imagefields.ofDriverInfo").as("fieldPullSecret"),
	"driver_info image_server_auth_strategy":        by("rackd/driver/imagefields.ofDriverInfo").as("fieldStrategy"),
	"driver_info image_server_hosts":                by("rackd/driver/imagefields.ofDriverInfo").as("fieldHosts"),
	"driver_info image_server_password":             by("rackd/driver/imagefields.ofDriverInfo").as("fieldPassword"),
	"driver_info image_server_user":                 by("rackd/driver/imagefields.ofDriverInfo").as("fieldUser"),
	"driver_info ironyard_media_https":              by("rackd/driver/mediaboot.byHTTPS"),
	"driver_info ironyard_min_disk_bytes":           by("rackd/driver/direct.disk"),
	"driver_info kernel_append_params":              by("rackd/driver/ownramdisk.params"),
	"driver_info iboot_address":                     by("rackd/driver/iboot.parse"),
	"driver_info iboot_password":                    by("rackd/driver/iboot.parse"),
	"driver_info iboot_port":                        by("rackd/driver/iboot.parse"),
	"driver_info iboot_relay_id":                    by("rackd/driver/iboot.parse"),
	"driver_info iboot_username":                    by("rackd/driver/iboot.parse"),
	"driver_info libvirt_client_cert":               by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_domain":                    by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_host_key":                  by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_password":                  by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_private_key":               by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_uri":                       by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_username":                  by("rackd/driver/libvirt.parse"),
	"driver_info libvirt_verify_ca":                 by("rackd/driver/libvirt.parse"),
	"driver_info drac_address":                      by("rackd/driver/idrac.readDrac"),
	"driver_info drac_identity":                     by("rackd/driver/idrac.readDrac"),
	"driver_info drac_password":                     by("rackd/driver/idrac.readDrac"),
	"driver_info drac_path":                         kept("The path of WS-Man, which rackd does not speak. Nodes that were enrolled for it have the field."),
	"driver_info drac_port":                         by("rackd/driver/idrac.readDrac"),
	"driver_info drac_protocol":                     by("rackd/driver/idrac.readDrac"),
	"driver_info drac_username":                     by("rackd/driver/idrac.readDrac"),
	"driver_info drac_verify_ca":                    by("rackd/driver/idrac.readDrac"),
	"driver_info ca_file":                           by("rackd/driver/ilo.read"),
	"driver_info client_port":                       by("rackd/driver/ilo.read"),
	"driver_info client_timeout":                    by("rackd/driver/ilo.read"),
	"driver_info console_port":                      by("rackd/driver/ilo.read").with("Checked. A console has no port of its own ([consoles.md](consoles.md))."),
	"driver_info ilo_address":                       by("rackd/driver/ilo.read"),
	"driver_info ilo_change_password":               by("rackd/driver/ilo.newPassword"),
	"driver_info ilo_identity":                      by("rackd/driver/ilo.read"),
	"driver_info ilo_ipmi_port":                     by("rackd/driver/ilo.read", "rackd/driver/ilo.OverLAN"),
	"driver_info ilo_password":                      by("rackd/driver/ilo.read"),
	"driver_info ilo_ssh_host_key":                  by("rackd/driver/ilo.sshFields"),
	"driver_info ilo_ssh_shared_cli":                by("rackd/driver/ilo.sshFields"),
	"driver_info ilo_username":                      by("rackd/driver/ilo.read"),
	"driver_info ilo_verify_ca":                     by("rackd/driver/ilo.read"),
	"driver_info irmc_address":                      by("rackd/driver/irmc.read"),
	"driver_info irmc_auth_method":                  by("rackd/driver/irmc.read"),
	"driver_info irmc_client_timeout":               by("rackd/driver/irmc.read"),
	"driver_info irmc_identity":                     by("rackd/driver/irmc.read"),
	"driver_info irmc_ipmi_port":                    by("rackd/driver/irmc.read", "rackd/driver/irmc.OverLAN"),
	"driver_info irmc_password":                     by("rackd/driver/irmc.read"),
	"driver_info irmc_port":                         by("rackd/driver/irmc.read"),
	"driver_info irmc_sensor_method":                by("rackd/driver/irmc.sensorsBy"),
	"driver_info irmc_snmp_auth_password":           by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_auth_proto":              by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_community":               by("rackd/driver/irmc.readSNMP"),
	"driver_info irmc_snmp_port":                    by("rackd/driver/irmc.readSNMP"),
	"driver_info irmc_snmp_priv_password":           by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_priv_proto":              by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_security":                by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_user":                    by("rackd/driver/irmc.readUser"),
	"driver_info irmc_snmp_version":                 by("rackd/driver/irmc.readSNMP"),
	"driver_info irmc_username":                     by("rackd/driver/irmc.read"),
	"driver_info irmc_verify_ca":                    by("rackd/driver/irmc.read"),
	"driver_info redfish_address":                   by("rackd/driver/redfish.readOwn").with("Of any driver: an inspection is known by a field that is called so (`central/api.hasBMC`), as by `ipmi_address`."),
	"driver_info redfish_auth_type":                 by("rackd/driver/redfish.readOwn"),
	"driver_info redfish_identity":                  by("rackd/driver/redfish.readOwn"),
	"driver_info redfish_password":                  by("rackd/driver/redfish.readOwn"),
	"driver_info redfish_ssh_host_key":              by("rackd/driver/redfish.ownSSH"),
	"driver_info redfish_ssh_shared_cli":            by("rackd/driver/redfish.ownSSH"),
	"driver_info redfish_system_id":                 by("rackd/driver/redfish.readOwn"),
	"driver_info redfish_username":                  by("rackd/driver/redfish.readOwn"),
	"driver_info redfish_verify_ca":                 by("rackd/driver/redfish.readOwn"),
	"driver_info ucs_address":                       by("rackd/driver/ucs.fields"),
	"driver_info ucs_password":                      by("rackd/driver/ucs.fields"),
	"driver_info ucs_port":                          by("rackd/driver/ucs.fields"),
	"driver_info ucs_username":                      by("rackd/driver/ucs.fields"),
	"driver_info ucs_verify_ca":                     by("rackd/driver/ucs.fields"),
	"driver_info asrockrack_address":                by("rackd/driver/asrockrack.parse"),
	"driver_info asrockrack_password":               by("rackd/driver/asrockrack.parse"),
	"driver_info asrockrack_port":                   by("rackd/driver/asrockrack.parse"),
	"driver_info asrockrack_username":               by("rackd/driver/asrockrack.parse"),
	"driver_info asrockrack_verify_ca":              by("rackd/driver/asrockrack.parse"),
	"driver_info cimc_address":                      by("rackd/driver/cimc.fields"),
	"driver_info cimc_password":                     by("rackd/driver/cimc.fields"),
	"driver_info cimc_port":                         by("rackd/driver/cimc.fields"),
	"driver_info cimc_username":                     by("rackd/driver/cimc.fields"),
	"driver_info cimc_verify_ca":                    by("rackd/driver/cimc.fields"),
	"driver_info rpc_algorithm":                     by("rackd/driver/rpc.parse"),
	"driver_info rpc_host":                          by("rackd/driver/rpc.parse"),
	"driver_info rpc_secret":                        by("rackd/driver/rpc.parse"),
	"driver_info rpc_url":                           by("rackd/driver/rpc.parse"),
	"driver_info rpc_verify_ca":                     by("rackd/driver/rpc.parse"),
	"driver_info seamicro_api_endpoint":             by("rackd/driver/seamicro.parse"),
	"driver_info seamicro_api_version":              by("rackd/driver/seamicro.parse"),
	"driver_info seamicro_password":                 by("rackd/driver/seamicro.parse"),
	"driver_info seamicro_server_id":                by("rackd/driver/seamicro.parse"),
	"driver_info seamicro_username":                 by("rackd/driver/seamicro.parse"),
	"driver_info seamicro_verify_ca":                by("rackd/driver/seamicro.parse"),
	"driver_info msftocs_base_url":                  by("rackd/driver/msftocs.parse"),
	"driver_info msftocs_blade_id":                  by("rackd/driver/msftocs.parse"),
	"driver_info msftocs_password":                  by("rackd/driver/msftocs.parse"),
	"driver_info msftocs_username":                  by("rackd/driver/msftocs.parse"),
	"driver_info msftocs_verify_ca":                 by("rackd/driver/msftocs.parse"),
	"driver_info ansible_username":                  by("rackd/driver/ansible.Validate", "rackd/driver/ansible.write").as("fieldUser"),
	"driver_info ansible_key_file":                  by("rackd/driver/ansible.filesOf").as("fieldKey"),
	"driver_info ansible_playbooks_path":            by("rackd/driver/ansible.filesOf").as("fieldPath"),
	"driver_info ansible_deploy_playbook":           by("rackd/driver/ansible.filesOf").as("fieldPlaybook"),
	"driver_info ansible_python_interpreter":        by("rackd/driver/ansible.Validate", "rackd/driver/ansible.write").as("fieldInterpreter"),
	"driver_info ansible_shutdown_playbook":         by("rackd/driver/ansible.Validate").as("unused").with("Refused: the ramdisk's agent switches the machine off."),
	"driver_info ansible_clean_playbook":            by("rackd/driver/ansible.Validate").as("unused").with("Refused: the ramdisk's agent cleans."),
	"driver_info ansible_clean_steps_config":        by("rackd/driver/ansible.Validate").as("unused").with("Refused: the ramdisk's agent cleans."),
	"driver_info amt_address":                       by("rackd/driver/amt.parse"),
	"driver_info amt_password":                      by("rackd/driver/amt.parse"),
	"driver_info amt_port":                          by("rackd/driver/amt.parse"),
	"driver_info amt_protocol":                      by("rackd/driver/amt.parse"),
	"driver_info amt_username":                      by("rackd/driver/amt.parse"),
	"driver_info amt_verify_ca":                     by("rackd/driver/amt.parse"),
	"driver_info ssh_address":                       by("rackd/driver/ssh.parse"),
	"driver_info ssh_host_key":                      by("rackd/driver/ssh.parse"),
	"driver_info ssh_key_contents":                  by("rackd/driver/ssh.parse"),
	"driver_info ssh_key_filename":                  by("rackd/driver/ssh.parse"),
	"driver_info ssh_libvirt_uri":                   by("rackd/driver/ssh.parse"),
	"driver_info ssh_password":                      by("rackd/driver/ssh.parse"),
	"driver_info ssh_port":                          by("rackd/driver/ssh.parse"),
	"driver_info ssh_username":                      by("rackd/driver/ssh.parse"),
	"driver_info ssh_virt_type":                     by("rackd/driver/ssh.parse"),
	"driver_info virtualbox_host":                   by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_password":               by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_port":                   by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_protocol":               by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_username":               by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_verify_ca":              by("rackd/driver/vbox.parse"),
	"driver_info virtualbox_vmname":                 by("rackd/driver/vbox.parse"),
	"driver_info ucs_service_profile":               by("rackd/driver/ucs.parse"),
	"driver_info vbox_use_headless":                 by("rackd/driver/ssh.parse"),
	"driver_info snmp_address":                      by("rackd/driver/snmp.parse"),
	"driver_info snmp_auth_key":                     by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_auth_priv_password":           by("rackd/driver/ilo.readSNMP"),
	"driver_info snmp_auth_priv_protocol":           by("rackd/driver/ilo.readSNMP"),
	"driver_info snmp_auth_prot_password":           by("rackd/driver/ilo.readSNMP"),
	"driver_info snmp_auth_protocol":                by("rackd/driver/snmp.userSecurity", "rackd/driver/ilo.readSNMP"),
	"driver_info snmp_auth_user":                    by("rackd/driver/ilo.readSNMP"),
	"driver_info snmp_community":                    by("rackd/driver/snmp.communities"),
	"driver_info snmp_community_read":               by("rackd/driver/snmp.communities"),
	"driver_info snmp_community_write":              by("rackd/driver/snmp.communities"),
	"driver_info snmp_context_engine_id":            by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_context_name":                 by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_driver":                       by("rackd/driver/snmp.parse"),
	"driver_info snmp_outlet":                       by("rackd/driver/snmp.parse"),
	"driver_info snmp_port":                         by("rackd/driver/snmp.parse"),
	"driver_info snmp_priv_key":                     by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_priv_protocol":                by("rackd/driver/snmp.userSecurity").with("Ironic's `3des` is refused: the library has none."),
	"driver_info snmp_security":                     by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_user":                         by("rackd/driver/snmp.userSecurity"),
	"driver_info snmp_version":                      by("rackd/driver/snmp.parse"),
	"driver_info wol_host":                          by("rackd/driver/wol.parse"),
	"driver_info wol_password":                      by("rackd/driver/wol.parse"),
	"driver_info wol_port":                          by("rackd/driver/wol.parse"),
}

// laidOut is the row of what a partition image's disk is laid out by.
func laidOut(info string) row {
	return by("rackd/driver/direct.partitionsOf").with("For partition images. 0 and False ask for nothing.").refusing(deploying(info, "Cannot deploy whole disk image with swap or ephemeral size set"))
}

const (
	anaconda    = "it is for the deploy interface anaconda"
	chosenSizes = "What the client has chosen. It asks for nothing with a whole-disk image, in Ironic neither."
)

var instanceInfo = joined(each(kept(chosenSizes), "instance_info local_gb", "instance_info memory_mb", "instance_info vcpus",
	"instance_info nova_host_id", "instance_info user_id", "instance_info flavor", "instance_info fixed_ips", "instance_info image_properties", "instance_info image_tags",
	"instance_info image_container_format"), table{
	"instance_info *": by("rackd/driver.unreadInstanceInfo").as("instance_info").with("Kept. `validate` (deploy) and the history of each deploy name the keys that no interface of the node reads.").
		saying(saying{`[{"op":"add","path":"/instance_info","value":{"image_proxy":"http://p"}}]`, "deploy", "no interface of this node reads it: instance_info image_proxy"}),
	"instance_info boot_iso": by("rackd/driver/mediaboot.PrepareInstance", "rackd/driver/instancefiles.Validate").
		refusing(deploying(`"boot_iso":"http://127.0.0.1:1/i"`, "it is for the deploy interface ramdisk, which writes no disk")),
	"instance_info capabilities":        by("protocol/node.InstanceCapability").with("One by one below."),
	"instance_info configdrive":         by("central/dispatch.withDrive", "rackd/driver/direct.offer").with("With the deploy interface `ramdisk` and a boot interface of virtual media it is a second medium."),
	"instance_info display_name":        by("central/api.change"),
	"instance_info ephemeral_format":    laidOut(`"ephemeral_format":"ext4"`),
	"instance_info ephemeral_gb":        laidOut(`"ephemeral_gb":1`),
	"instance_info swap_mb":             laidOut(`"swap_mb":"512"`),
	"instance_info preserve_ephemeral":  laidOut(`"preserve_ephemeral":true`),
	"instance_info root_gb":             by("rackd/driver/direct.partitionsOf").with("For partition images. With a whole-disk image it asks for nothing, in Ironic neither.").refusing(deploying(`"image_type":"partition"`, "Missing are: ['instance_info.root_gb']")),
	"instance_info image_checksum":      by("rackd/driver/imagefields.checksum").with("A SHA-256 or SHA-512, or the URL of a file of such checksums."),
	"instance_info image_compression":   by("rackd/driver/imagefields.Source").refusing(deploying(`"image_compression":"bzip2"`, "give gzip, zstd, xz or none")),
	"instance_info image_disk_format":   by("rackd/driver/imagefields.Source").refusing(deploying(`"image_disk_format":"qed"`, "give raw, qcow2, vmdk, vhd, vhdx or vdi")),
	"instance_info image_os_hash_algo":  by("rackd/driver/imagefields.checksum").refusing(deploying(`"image_os_hash_algo":"md5","image_os_hash_value":"0"`, "give sha256 or sha512")),
	"instance_info image_os_hash_value": by("rackd/driver/imagefields.checksum"),
	"instance_info image_pull_secret":   by("rackd/driver/imagefields.authorization").as("fieldPullSecret").with("`user:password`, base64 of that, or a token."),
	"instance_info image_request_authorization_secret": by("rackd/driver/imagefields.authorization").as("fieldHeader").with("The value of the header `Authorization`.").
		refusing(deploying(`"image_request_authorization_secret":"Bearer a","image_pull_secret":"b"`, "give one")),
	"instance_info image_source":             by("rackd/driver/imagefields.Source"),
	"instance_info image_type":               by("rackd/driver/direct.imageOf").refusing(deploying(`"image_type":"tarball"`, "give whole-disk or partition")),
	"instance_info kernel":                   by("rackd/driver/instancefiles.Validate", "rackd/driver/direct.isPartition").with("The deploy interface `ramdisk` boots it. With `direct` and `iscsi` it says that the image is a partition image, unless `image_type` says it. With `boot_option` `netboot` that image boots it. Else the image boots from its disk, and `validate` (deploy) and the history say that the kernel is not used.").refusing(deploying(`"image_type":"whole-disk","kernel":"http://127.0.0.1:1/k"`, "image_type says that the image holds a whole disk")),
	"instance_info ramdisk":                  by("rackd/driver/instancefiles.Validate", "rackd/driver/direct.isPartition").with("As `kernel`.").refusing(deploying(`"image_type":"whole-disk","ramdisk":"http://127.0.0.1:1/k"`, "image_type says that the image holds a whole disk")),
	"instance_info bootc_authorized_keys":    by("rackd/driver/direct.install").as("InstanceInfo").with("The deploy interface `bootc` gives it to the agent, which lets these keys in."),
	"instance_info bootc_tpm2_luks":          by("rackd/driver/direct.install").as("InstanceInfo").with("The deploy interface `bootc` gives it to the agent, which encrypts the disk."),
	"instance_info ks_cfg":                   by("rackd/driver/installer.Validate", "rackd/driver/direct.unmet").refusing(deploying(`"ks_cfg":"x"`, anaconda)),
	"instance_info ks_template":              by("rackd/driver/installer.Fetch", "rackd/driver/direct.unmet").refusing(deploying(`"ks_template":"x"`, anaconda)),
	"instance_info stage2":                   by("rackd/driver/installer.Fetch", "rackd/driver/direct.unmet").refusing(deploying(`"stage2":"x"`, anaconda)),
	"instance_info deploy_boot_mode":         by("rackd/driver.ValidateInstance", "protocol/node.AskedBootMode").with("The former name of the capability `boot_mode`.").refusing(deploying(`"deploy_boot_mode":"cp/m"`, "give uefi or bios")),
	"instance_info ironic_ramdisk_deploy":    by("rackd/driver/instancefiles.Asked").as("Sentinel").with("Has the deploy interface `autodetect` boot the instance's kernel and ramdisk, or its image."),
	"instance_info ramdisk_kernel_arguments": by("rackd/driver/instancefiles.validateArguments", "rackd/driver/instancefiles.Order").as("Arguments").with("Of the instance's kernel, with the deploy interface `ramdisk` or a partition image by `netboot`."),
	"instance_info kernel_append_params": by("rackd/driver/ownramdisk.params").with("For the ramdisk's kernel.").
		saying(saying{`[{"op":"add","path":"/instance_info","value":{"kernel_append_params":"quiet"}}]`, "deploy", "instance_info kernel_append_params"}),
	"instance_info project_id":      by("central/store.project"),
	"instance_info rescue_password": by("central/dispatch.accept"),
	"instance_info root_device":     by("rackd/driver/direct.disk"),
	"instance_info traits":          by("central/dispatch.instanceTraits").with("Deploy templates are chosen by them."),
})

const description = "What the machine is. Schedulers read it, inspections write it."

var properties = joined(each(kept(description), "properties cpu_arch", "properties cpus", "properties manufacturer", "properties model",
	"properties product_name", "properties serial_number", "properties vendor"), table{
	"properties *": by("rackd/driver.Unread").as("properties").with("Kept. `validate` (deploy) and the history of each deploy name those that no interface reads and that do not say what the machine is.").
		saying(saying{`[{"op":"add","path":"/properties/root_devices","value":{"size":5}}]`, "deploy", "properties root_devices"}),
	"properties capabilities": by("protocol/node.Capability").with("One by one below."),
	"properties local_gb": kept(description).refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}", body: `[{"op":"add","path":"/properties/local_gb","value":"much"}]`,
		status: 400, words: "should be non-negative integers"}),
	"properties memory_mb": kept(description).refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}", body: `[{"op":"add","path":"/properties/memory_mb","value":-1}]`,
		status: 400, words: "should be non-negative integers"}),
	"properties root_device": by("rackd/driver/direct.disk", "central/inspection.rootDevice"),
	"properties skip_block_devices": by("rackd/driver/direct.disk").refusing(refusal{set: `[{"op":"add","path":"/deploy_interface","value":"direct"},{"op":"add","path":"/properties/skip_block_devices","value":[{"colour":"red"}]}]`,
		method: "PUT", path: "/v1/nodes/{n}/states/provision", body: `{"target":"active"}`, status: 400, words: "skip_block_devices"}),
})

// capable is the refusal of a deploy of an instance that asks for a capability.
func capable(pair, words string) refusal { return deploying(`"capabilities":{`+pair+`}`, words) }

var capabilities = table{
	"capabilities *": by("rackd/driver.unmatched", "protocol/node.Wanted").as("Wanted").with("Kept: schedulers compare an instance's with the node's. One that the instance asks for and the node does not have is named by `validate` (deploy) and in the history.").
		saying(saying{`[{"op":"add","path":"/instance_info","value":{"capabilities":{"profile":"big"}}}]`, "deploy", "the capability profile"}),
	"capabilities boot_mode":          by("protocol/node.AskedBootMode").refusing(capable(`"boot_mode":"cp/m"`, "give uefi or bios")),
	"capabilities boot_option":        by("rackd/driver.ValidateInstance").refusing(capable(`"boot_option":"netboot"`, "answers no machine that asks the network"), capable(`"boot_option":"kickstart"`, "this deploy interface boots local")),
	"capabilities disk_label":         by("rackd/driver/direct.partitionsOf").with("For partition images.").refusing(capable(`"disk_label":"gpt"`, "a whole-disk image brings its own partition table")),
	"capabilities secure_boot":        by("rackd/driver.SetSecureBoot", "rackd/driver.SecureBootAsked").as("SecureBootAsked").refusing(capable(`"secure_boot":"true","boot_mode":"bios"`, "secure boot needs UEFI")),
	"capabilities trusted_boot":       by("rackd/driver.ValidateInstance").refusing(capable(`"trusted_boot":"true"`, "no driver supports it")),
	"capabilities fibre_channel_boot": by("rackd/driver/volume.validateCinder").with("Ironic's check with the storage interface `cinder`; no Fibre Channel volume is booted."),
	"capabilities iscsi_boot":         by("rackd/driver/volume.validateCinder").with("The storage interface `cinder` asks for it; inspections by `redfish`, `idrac` and of iLOs set it."),
}
