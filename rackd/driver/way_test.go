package driver

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

// Another way to the BMC is told from other credentials, and from what the machine boots.
func TestWayToBMC(t *testing.T) {
	way := func(info map[string]any) string { return WayToBMC(&node.Document{DriverInfo: info}) }
	was := way(map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": 623.0, "ipmi_username": "a", "ipmi_password": "b"})
	for name, c := range map[string]struct {
		info map[string]any
		same bool
	}{
		"another password":     {map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": 623.0, "ipmi_username": "a", "ipmi_password": "c"}, true},
		"another user":         {map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": "623", "ipmi_username": "x", "ipmi_password": "b", "ipmi_cipher_suite": "3"}, true},
		"another kernel":       {map[string]any{"ipmi_address": " 10.0.0.1", "ipmi_port": 623.0, "deploy_kernel": "http://a/k", "deploy_iso": "http://a/i"}, true},
		"another address":      {map[string]any{"ipmi_address": "10.0.0.2", "ipmi_port": 623.0}, false},
		"another port":         {map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": 6230.0}, false},
		"another controller":   {map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": 623.0, "ipmi_target_address": "0x82"}, false},
		"a field of no driver": {map[string]any{"ipmi_address": "10.0.0.1", "ipmi_port": 623.0, "rack_unit": "7"}, false},
	} {
		if same := way(c.info) == was; same != c.same {
			t.Errorf("%s: the same way is %v", name, same)
		}
	}
	for _, field := range []string{"redfish_address", "redfish_system_id", "irmc_address", "irmc_port", "drac_path", "ilo_address", "client_port", "cimc_address", "asrockrack_address", "amt_address",
		"ucs_address", "ucs_service_profile", "seamicro_api_endpoint", "seamicro_server_id", "msftocs_base_url", "msftocs_blade_id", "libvirt_uri", "libvirt_domain",
		"virtualbox_host", "virtualbox_vmname", "rpc_url", "rpc_host", "snmp_address", "snmp_outlet", "snmp_driver", "iboot_address", "iboot_relay_id", "wol_host", "ssh_address", "ssh_virt_type"} {
		if !LeadsToBMC(field) {
			t.Errorf("%s leads to a BMC", field)
		}
	}
}
