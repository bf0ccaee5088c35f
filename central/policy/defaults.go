package policy

// The roles that rules speak of. Sources: Ironic's reference of default roles
// (doc/source/admin/secure-rbac.rst) and its sample policy.
const (
	systemAdmin   = "role:admin and system_scope:all"
	systemMember  = "(role:member and system_scope:all) or rule:service_role"
	systemService = "role:service and system_scope:all"
	systemReader  = "(role:reader and system_scope:all) or (role:service and system_scope:all) or rule:service_role"

	ofOwner         = "project_id:%(node.owner)s"
	ofLessee        = "project_id:%(node.lessee)s"
	ofOwnerOrLessee = "(" + ofOwner + " or " + ofLessee + ")"
	ownerAdmins     = "((role:admin or role:manager or role:service) and " + ofOwner + ")"
	ownerMembers    = "((role:member or role:service) and " + ofOwner + ")"
	ownerReaders    = "((role:reader or role:service) and " + ofOwner + ")"
	lesseeAdmins    = "((role:admin or role:manager) and " + ofLessee + ")"
	projectMembers  = "(role:member and " + ofOwnerOrLessee + ")"
	projectReaders  = "((role:reader and " + ofOwnerOrLessee + ") or (role:service and " + ofOwner + "))"

	ofAllocation = "project_id:%(allocation.owner)s"
	ofRunbook    = "project_id:%(runbook.owner)s"

	memberOfSystem = "(" + systemMember + ") or (" + systemService + ")"
)

// The levels of the rules, as Ironic composes them.
const (
	everybody                = ""
	nobody                   = "!"
	apiReader                = "role:reader or role:service"
	projectMember            = memberOfSystem + " or " + projectMembers
	projectReader            = "(" + systemReader + ") or " + projectReaders
	ownerMemberOrLesseeAdmin = memberOfSystem + " or " + ownerMembers + " or " + lesseeAdmins
	adminOrOwnerAdmin        = "(" + systemAdmin + ") or (" + systemService + ") or " + ownerAdmins
	memberOrOwnerAdmin       = memberOfSystem + " or " + ownerAdmins
	memberOrOwnerMember      = memberOfSystem + " or " + ownerMembers
	ownerReader              = "(" + systemReader + ") or " + ownerReaders
	memberOrAnyAdmin         = memberOfSystem + " or " + ownerAdmins + " or " + lesseeAdmins
	allocationMember         = "(" + systemMember + ") or (role:member and " + ofAllocation + ")"
	allocationReader         = "(" + systemReader + ") or (role:reader and " + ofAllocation + ")"
	allocationCreator        = "(" + systemMember + ") or role:member"
	runbookManager           = "(" + systemMember + ") or role:service or (role:manager and " + ofRunbook + ")"
	runbookReader            = "(" + systemReader + ") or role:service or (role:reader and " + ofRunbook + ")"
)

// levels says which rules have which default. Names are Ironic's, so that its policy
// files can be used as they are; what Ironic has not begins with "ironyard:".
var levels = map[string][]string{
	nobody:    {"show_password", "show_instance_secrets"},
	everybody: {"baremetal:node:ipa_heartbeat", "baremetal:driver:ipa_lookup", "baremetal:driver:ipa_continue_inspection"},
	apiReader: {"baremetal:node:list", "baremetal:port:list", "baremetal:portgroup:list", "baremetal:volume:list",
		"baremetal:allocation:list", "baremetal:runbook:list"},
	"role:admin or role:service":                       {"baremetal:node:create:self_owned_node"},
	"role:admin and " + ofOwner:                        {"baremetal:node:delete:self_owned_node"},
	"(" + systemAdmin + ") or (" + systemService + ")": {"baremetal:node:create", "ironyard:node:redirect_secrets"},
	systemAdmin: {"baremetal:node:delete", "baremetal:node:update:chassis_uuid", "baremetal:node:update_owner_provisioned",
		"baremetal:node:disable_cleaning", "baremetal:node:update:shard", "baremetal:node:update:disable_power_off",
		"baremetal:chassis:create", "baremetal:chassis:delete", "baremetal:node:vendor_passthru", "baremetal:driver:vendor_passthru",
		"baremetal:events:post", "baremetal:deploy_template:create", "baremetal:deploy_template:update", "baremetal:deploy_template:delete",
		"baremetal:inspection_rule:create", "baremetal:inspection_rule:update", "baremetal:inspection_rule:delete"},
	systemMember: {"baremetal:node:update:owner", "baremetal:node:update:conductor_group", "baremetal:node:update:parent_node",
		"baremetal:chassis:update", "baremetal:allocation:create_restricted", "baremetal:runbook:update:public", "baremetal:runbook:update:owner"},
	systemReader: {"baremetal:node:list_all", "baremetal:node:get:filter_threshold", "baremetal:port:list_all", "baremetal:portgroup:list_all",
		"baremetal:volume:list_all", "baremetal:allocation:list_all", "baremetal:runbook:list_all", "baremetal:shards:get", "baremetal:chassis:get",
		"baremetal:driver:get", "baremetal:driver:get_properties", "baremetal:driver:get_raid_logical_disk_properties",
		"baremetal:conductor:get", "baremetal:deploy_template:get", "baremetal:inspection_rule:get", "baremetal:inspection_rule:list_all",
		"ironyard:audit:get", "ironyard:notification:get"},
	projectReader: {"baremetal:node:get", "baremetal:node:get_states", "baremetal:node:get_indicator_state", "baremetal:node:vif:list",
		"baremetal:node:traits:list", "baremetal:node:bios:get", "baremetal:node:firmware:get", "baremetal:node:vmedia:get", "baremetal:port:get",
		"baremetal:portgroup:get", "baremetal:volume:get"},
	projectMember: {"baremetal:node:update", "baremetal:node:update_extra", "baremetal:node:set_power_state", "baremetal:node:set_boot_mode",
		"baremetal:node:set_secure_boot", "baremetal:node:vmedia:attach", "baremetal:node:vmedia:detach"},
	ownerReader: {"baremetal:node:get:last_error", "baremetal:node:get:reservation", "baremetal:node:get:driver_internal_info",
		"baremetal:node:get:driver_info", "baremetal:node:history:get", "baremetal:node:inventory:get"},
	memberOrOwnerMember: {"baremetal:node:update:driver_info", "baremetal:node:update:properties", "baremetal:node:update:instance_uuid",
		"baremetal:node:update:lessee", "baremetal:node:update:network_data", "baremetal:node:update:name", "baremetal:node:update:retired",
		"baremetal:node:set_indicator_state", "baremetal:node:set_raid_state", "baremetal:node:get_console", "baremetal:node:set_console_state"},
	memberOrOwnerAdmin: {"baremetal:node:update:driver_interfaces", "baremetal:node:get_boot_device", "baremetal:node:set_boot_device",
		"baremetal:node:inject_nmi", "baremetal:node:traits:set", "baremetal:node:traits:delete", "baremetal:port:update",
		"baremetal:portgroup:update"},
	ownerMemberOrLesseeAdmin: {"baremetal:node:update_instance_info", "baremetal:node:validate", "baremetal:node:set_maintenance",
		"baremetal:node:clear_maintenance", "baremetal:node:set_provision_state", "baremetal:node:set_provision_state:clean_steps",
		"baremetal:node:set_provision_state:service_steps", "baremetal:node:vif:attach", "baremetal:node:vif:detach",
		"baremetal:volume:update"},
	adminOrOwnerAdmin:                      {"baremetal:port:create", "baremetal:port:delete", "baremetal:portgroup:create", "baremetal:portgroup:delete"},
	memberOrAnyAdmin:                       {"baremetal:volume:create", "baremetal:volume:delete"},
	"(" + systemReader + ") or role:admin": {"baremetal:volume:view_target_properties"},
	allocationReader:                       {"baremetal:allocation:get"},
	allocationMember:                       {"baremetal:allocation:delete", "baremetal:allocation:update"},
	allocationCreator:                      {"baremetal:allocation:create"},
	runbookReader:                          {"baremetal:runbook:get"},
	runbookManager:                         {"baremetal:runbook:update", "baremetal:runbook:delete", "baremetal:runbook:use"},
	"(" + systemMember + ") or role:manager or role:service": {"baremetal:runbook:create"},

	"(rule:is_member and role:baremetal_admin) or (is_admin_project:True and role:admin)": {"baremetal:allocation:create_pre_rbac"},

	// Building blocks that policy files refer to.
	"role:service and project_name:%(config.service_project_name)s": {"service_role"},
	"role:admin or role:administrator":                              {"admin_api"},
	"is_public_api:True":                                            {"public_api"},
	ofOwner:                                                         {"is_node_owner"},
	ofLessee:                                                        {"is_node_lessee"},
	ofAllocation:                                                    {"is_allocation_owner"},
	"(project_domain_id:default or project_domain_id:None) and (project_name:demo or project_name:baremetal)": {"is_member"},
	"rule:is_member and (role:observer or role:baremetal_observer)":                                           {"is_observer"},
	"rule:admin_api or (rule:is_member and role:baremetal_admin)":                                             {"is_admin"},
}

// forEverybody are the rules of what ramdisks ask, who bring no token.
var forEverybody = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range levels[everybody] {
		all[name] = true
	}
	return all
}()

// defaults is every rule by its name.
var defaults = func() map[string]string {
	all := map[string]string{}
	for text, names := range levels {
		for _, name := range names {
			if _, twice := all[name]; twice {
				panic("policy: two defaults for " + name)
			}
			all[name] = text
		}
	}
	return all
}()
