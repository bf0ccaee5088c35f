package policy

// splitFrom are the rules that were once part of another, by that one's name. Source: what Ironic 39 registers as
// the older names of its rules.
var splitFrom = map[string][]string{
	"baremetal:node:get": {"baremetal:node:get:filter_threshold", "baremetal:node:get:last_error", "baremetal:node:get:reservation",
		"baremetal:node:get:driver_internal_info", "baremetal:node:get:driver_info", "baremetal:node:history:get", "baremetal:node:inventory:get"},
	"baremetal:node:update": {"baremetal:node:update:driver_info", "baremetal:node:update:properties", "baremetal:node:update:chassis_uuid",
		"baremetal:node:update:instance_uuid", "baremetal:node:update:lessee", "baremetal:node:update:owner", "baremetal:node:update:driver_interfaces",
		"baremetal:node:update:network_data", "baremetal:node:update:conductor_group", "baremetal:node:update:name", "baremetal:node:update:retired"},
	"baremetal:node:set_maintenance": {"baremetal:node:set_boot_device"},
	"baremetal:node:set_power_state": {"baremetal:node:set_boot_mode", "baremetal:node:set_secure_boot"},
	"baremetal:portgroup:get":        {"baremetal:portgroup:list", "baremetal:portgroup:list_all"},
	"baremetal:volume:get":           {"baremetal:volume:list", "baremetal:volume:list_all"},
	"baremetal:volume:update":        {"baremetal:volume:view_target_properties"},
}

// inherit gives rules that a file does not name the expression that it has for the rule that they were once part of,
// as oslo.policy does: a file from before the split goes on meaning what it meant. given are the names in the file.
func (r *Rules) inherit(given map[string]int) {
	for old, parts := range splitFrom {
		if given[old] == 0 {
			continue
		}
		e := r.exprs[old]
		for _, part := range parts {
			if given[part] == 0 && !(e.op == opRule && e.match == part) {
				r.exprs[part] = e
			}
		}
	}
}
