package fields

import "github.com/ironyard/ironyard/protocol/provision"

// asked is the refusal of a request for a provision state.
func asked(in provision.State, body, words string) refusal {
	return refusal{in: in, method: "PUT", path: "/v1/nodes/{n}/states/provision", body: body, status: 400, words: words}
}

// The verbs, with a state in which each is accepted, and what it is told.
var verbs = map[string]struct {
	in    provision.State
	takes []string
}{
	"active":   {provision.Available, []string{"configdrive", "deploy_steps"}},
	"deploy":   {provision.Available, []string{"configdrive", "deploy_steps"}},
	"rebuild":  {provision.Active, []string{"configdrive", "deploy_steps"}},
	"deleted":  {provision.Active, nil},
	"undeploy": {provision.Active, nil},
	"manage":   {provision.Available, nil},
	"provide":  {provision.Manageable, nil},
	"inspect":  {provision.Manageable, nil},
	"abort":    {provision.CleanWait, nil},
	"clean":    {provision.Manageable, []string{"clean_steps", "disable_ramdisk", "runbook"}},
	"adopt":    {provision.Manageable, nil},
	"rescue":   {provision.Active, []string{"rescue_password"}},
	"unrescue": {provision.Rescue, nil},
	"unhold":   {provision.CleanHold, nil},
	"service":  {provision.Active, []string{"service_steps", "disable_ramdisk", "runbook"}},
}

// arguments of the request, with a value, and how verbs that do not take one refuse it.
var arguments = map[string]struct{ value, words string }{
	"configdrive":     {`"SVlEUklWRQ=="`, "Adding a config drive is only supported when setting provision state to active, rebuild"},
	"clean_steps":     {`[{"interface":"deploy","step":"erase_devices"}]`, `\"clean_steps\" is only valid when setting target provision state to clean`},
	"service_steps":   {`[{"interface":"power","step":"reboot"}]`, `\"service_steps\" is only valid when setting target provision state to service`},
	"deploy_steps":    {`[{"interface":"power","step":"reboot","args":{},"priority":5}]`, `\"deploy_steps\" is only valid when setting target provision state to active or rebuild`},
	"rescue_password": {`"open"`, `\"rescue_password\" is only valid when setting target provision state to rescue`},
	"disable_ramdisk": {`true`, "disable_ramdisk is supported only with manual cleaning or servicing"},
	"runbook":         {`"CUSTOM_FIELDS"`, `\"runbook\" is only valid when setting target provision state to clean or service`},
}

// taking are the functions that take an argument.
var taking = map[string]string{"configdrive": "central/api.readProvision", "clean_steps": "central/api.readSteps", "service_steps": "central/api.readSteps",
	"deploy_steps": "central/api.readSteps", "rescue_password": "central/api.readRescue", "disable_ramdisk": "central/api.readDisableRamdisk", "runbook": "central/api.readRunbook"}

// needed is what a verb cannot do without, for requests that are refused for something else.
var needed = map[string]string{"clean": `,"clean_steps":[{"interface":"deploy","step":"erase_devices"}]`, "service": `,"service_steps":[{"interface":"power","step":"reboot"}]`, "rescue": `,"rescue_password":"p"`}

// verbRows are which verb takes which argument. All that it does not take is refused.
func verbRows() table {
	rows := table{}
	for verb, v := range verbs {
		for argument, a := range arguments {
			field := "verb " + verb + " " + argument
			takes := false
			for _, name := range v.takes {
				takes = takes || name == argument
			}
			if takes {
				rows[field] = by(taking[argument]).with("taken")
				continue
			}
			body := `{"target":"` + verb + `","` + argument + `":` + a.value
			if argument != "runbook" || verb == "rescue" { // steps beside a runbook are refused for being there
				body += needed[verb]
			}
			rows[field] = row{}.refusing(asked(v.in, body+"}", a.words))
		}
	}
	return rows
}

const step, at = "PUT nodes/{node}/states/provision ", "[]."

var provisioning = joined(verbRows(), stepRows("clean_steps"), stepRows("service_steps"), table{
	step + "target":          by("protocol/provision.LookupVerb").as("Verbs").refusing(asked(provision.Available, `{"target":"dance"}`, `The requested action \"dance\" can not be performed`)),
	step + "configdrive":     by("central/dispatch.withDrive", "rackd/driver/direct.offer").refusing(asked(provision.Available, `{"target":"active","configdrive":"ftp://h/d"}`, "Invalid configdrive")),
	step + "clean_steps":     by("rackd/conductor/flow.listedSteps").as("Steps").refusing(asked(provision.Manageable, `{"target":"clean"}`, "is required")),
	step + "service_steps":   by("rackd/conductor/flow.listedSteps").as("Steps").refusing(asked(provision.Active, `{"target":"service"}`, "is required")),
	step + "deploy_steps":    by("rackd/conductor/flow.plan").as("Steps"),
	step + "disable_ramdisk": by("rackd/conductor/flow.plan").refusing(asked(provision.Manageable, `{"target":"clean","disable_ramdisk":true,"clean_steps":[{"interface":"deploy","step":"erase_devices"}]}`, "requires booting a ramdisk")),
	step + "rescue_password": by("central/dispatch.accept").refusing(asked(provision.Active, `{"target":"rescue"}`, `A non-empty \"rescue_password\" is required`)),
	step + "runbook":         by("central/api.useRunbook").as("Steps").refusing(asked(provision.Manageable, `{"target":"clean","runbook":"CUSTOM_FIELDS","clean_steps":[{"interface":"power","step":"reboot"}]}`, "runbook cannot be used with clean_steps")),

	step + "deploy_steps" + at + "interface":                  by("rackd/plan.resolve").as("Interface"),
	step + "deploy_steps" + at + "step":                       by("rackd/plan.resolve").as("Step"),
	step + "deploy_steps" + at + "args":                       by("rackd/plan.arguments"),
	step + "deploy_steps" + at + "priority":                   by("rackd/plan.sorted"),
	step + "deploy_steps" + at + "order":                      row{}.refusing(deployStep(`"order":1`, "order")),
	step + "deploy_steps" + at + "execute_on_child_nodes":     row{}.refusing(deployStep(`"execute_on_child_nodes":true`, "execute_on_child_nodes")),
	step + "deploy_steps" + at + "limit_child_node_execution": row{}.refusing(deployStep(`"limit_child_node_execution":[]`, "limit_child_node_execution")),
})

// deployStep is the refusal of a deploy step with something that it does not have.
func deployStep(with, name string) refusal {
	return asked(provision.Available, `{"target":"active","deploy_steps":[{"interface":"power","step":"reboot","args":{},"priority":1,`+with+`}]}`,
		"Additional properties are not allowed ('"+name+"' was unexpected)")
}

// stepRows are the rows of the members of a list's steps.
func stepRows(list string) table {
	verb, in := "clean", provision.Manageable
	if list == "service_steps" {
		verb, in = "service", provision.Active
	}
	refused := func(steps, words string) refusal {
		return asked(in, `{"target":"`+verb+`","`+list+`":[`+steps+`]}`, words)
	}
	const child = `"limit_child_node_execution":["11111111-2222-4333-8444-555555555555"]`
	return table{
		step + list + at + "interface": by("rackd/plan.find").refusing(refused(`{"interface":"network","step":"x"}`, "'network' is not one of")),
		step + list + at + "step":      by("rackd/plan.Listed").as("Step").refusing(refused(`{"interface":"raid","step":"paint"}`, "raid.paint")),
		step + list + at + "args":      by("rackd/plan.arguments").refusing(refused(`{"interface":"power","step":"reboot","args":{"colour":1}}`, "unexpected arguments: colour")),
		step + list + at + "priority":  row{}.refusing(refused(`{"interface":"power","step":"reboot","priority":1}`, "Additional properties are not allowed ('priority' was unexpected)")),
		step + list + at + "order": by("central/api.orderOf").with("It must be that of the list.").
			refusing(refused(`{"interface":"power","step":"reboot","order":2},{"interface":"power","step":"power_on","order":1}`, "the steps of a request run as they are listed")),
		step + list + at + "execute_on_child_nodes": by("central/dispatch.family").as("OnChildren"),
		step + list + at + "limit_child_node_execution": by("central/dispatch.family").as("Children").
			refusing(refused(`{"interface":"power","step":"reboot",`+child+`}`, "'limit_child_node_execution' is given without 'execute_on_child_nodes'")),
	}
}

var stepArguments = table{
	"step bios.apply_configuration settings":                                    by("rackd/driver/redfish.NamedSteps", "rackd/driver/fake.applyConfiguration").as("settings"),
	"step management.set_bmc_clock target_datetime":                             by("rackd/driver/redfish.clockArgs"),
	"step management.set_bmc_clock datetime_local_offset":                       by("rackd/driver/redfish.clockArgs"),
	"step firmware.update settings":                                             by("rackd/driver/redfish.update", "rackd/driver/asrockrack.update").as("settings"),
	"step management.enrol_secure_boot_certificates PK":                         by("rackd/driver/redfish.certificatesOf"),
	"step management.enrol_secure_boot_certificates KEK":                        by("rackd/driver/redfish.certificatesOf"),
	"step management.enrol_secure_boot_certificates db":                         by("rackd/driver/redfish.certificatesOf"),
	"step management.enrol_secure_boot_certificates dbx":                        by("rackd/driver/redfish.certificatesOf"),
	"step management.activate_license ilo_license_key":                          by("rackd/driver/ilo.activateLicense"),
	"step management.add_https_certificate cert_file":                           by("rackd/driver/ilo.certificateOf"),
	"step management.clear_ca_certificates certificate_files":                   by("rackd/driver/ilo.fingerprintsOf"),
	"step management.create_csr csr_params":                                     by("rackd/driver/ilo.subjectOf"),
	"step management.erase_devices erase_pattern":                               by("rackd/driver/ilo.patternsOf"),
	"step management.flash_firmware_sum checksum":                               by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.flash_firmware_sum components":                             by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.flash_firmware_sum url":                                    by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.update_firmware_sum checksum":                              by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.update_firmware_sum components":                            by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.update_firmware_sum url":                                   by("rackd/driver/ilo.refusedSteps").with("The step is refused."),
	"step management.reset_ilo_credential ilo_password":                         by("rackd/driver/ilo.newPassword"),
	"step management.security_parameters_update security_parameters":            by("rackd/driver/ilo.parametersOf"),
	"step management.update_auth_failure_logging_threshold ignore":              by("rackd/driver/ilo.numbered"),
	"step management.update_auth_failure_logging_threshold logging_threshold":   by("rackd/driver/ilo.securitySteps"),
	"step management.update_minimum_password_length ignore":                     by("rackd/driver/ilo.numbered"),
	"step management.update_minimum_password_length password_length":            by("rackd/driver/ilo.securitySteps"),
	"step management.export_configuration export_configuration_location":        by("rackd/driver/idrac.export"),
	"step management.import_configuration import_configuration_location":        by("rackd/driver/idrac.importing"),
	"step management.import_export_configuration export_configuration_location": by("rackd/driver/idrac.export"),
	"step management.import_export_configuration import_configuration_location": by("rackd/driver/idrac.importing"),
	"step management.update_firmware firmware_images":                           by("rackd/driver/ilo.imagesOf", "rackd/driver/redfish.updateByImages"),
	"step management.update_firmware firmware_update_mode":                      by("rackd/driver/ilo.imagesOf"),
	"step raid.apply_configuration raid_config":                                 by("rackd/driver/redfish.NamedSteps", "rackd/driver/fake.applyConfiguration"),
	"step raid.apply_configuration create_root_volume":                          by("rackd/driver/redfish.chosen"),
	"step raid.apply_configuration create_nonroot_volumes":                      by("rackd/driver/redfish.chosen"),
	"step raid.apply_configuration delete_existing":                             by("rackd/driver/redfish.NamedSteps"),
	"step raid.create_configuration create_root_volume":                         by("rackd/driver/redfish.chosen"),
	"step raid.create_configuration create_nonroot_volumes":                     by("rackd/driver/redfish.chosen"),
	"step raid.create_configuration delete_existing":                            by("rackd/driver/redfish.NamedSteps"),
	"step management.configure_intel_speedselect intel_speedselect_config":      by("rackd/driver/ipmi.profile"),
	"step management.configure_intel_speedselect socket_count":                  by("rackd/driver/ipmi.profile"),
	"step vendor.send_raw raw_bytes":                                            by("rackd/driver/ipmi.rawBytes"),
}

var raid = table{
	"PUT nodes/{node}/states/raid logical_disks":              by("protocol/hardware.CheckRAID", "rackd/driver/redfish.wanted"),
	"PUT nodes/{node}/states/raid logical_disks[].*":          by("protocol/hardware.checkDiskForm").as("RAIDProperties").refusing(disks(`{"raid_level":"1","size_gb":1,"colour":"red"}`, "Additional properties are not allowed ('colour' was unexpected)")),
	"PUT nodes/{node}/states/raid logical_disks[].raid_level": by("rackd/driver/redfish.layout"),
	"PUT nodes/{node}/states/raid logical_disks[].size_gb":    by("rackd/driver/redfish.layout"),
	"logical_disks raid_level":                                by("rackd/driver/redfish.layout").refusing(disks(`{"raid_level":"7","size_gb":1}`, "'7' is not one of")),
	"logical_disks size_gb":                                   by("rackd/driver/redfish.layout").refusing(disks(`{"raid_level":"1","size_gb":-1}`, "less than the minimum of 0")),
	"logical_disks controller":                                by("rackd/driver/redfish.layout").with("`software` is refused: software RAID is not made by a BMC."),
	"logical_disks disk_type":                                 by("rackd/driver/redfish.fits").refusing(disks(`{"raid_level":"1","size_gb":1,"disk_type":"tape"}`, "'tape' is not one of")),
	"logical_disks interface_type":                            by("rackd/driver/redfish.fits").refusing(disks(`{"raid_level":"1","size_gb":1,"interface_type":"usb"}`, "'usb' is not one of")),
	"logical_disks is_root_volume":                            by("rackd/driver/redfish.chosen"),
	"logical_disks number_of_physical_disks":                  by("rackd/driver/redfish.layout"),
	"logical_disks physical_disks":                            by("rackd/driver/redfish.layout", "rackd/driver/redfish.CheckRAID"),
	"logical_disks share_physical_disks":                      by("rackd/driver/redfish.layout"),
	"logical_disks volume_name":                               by("rackd/driver/redfish.layout"),
}

// disks is the refusal of a RAID configuration of one disk.
func disks(disk, words string) refusal {
	return refusal{method: "PUT", path: "/v1/nodes/{n}/states/raid", body: `{"logical_disks":[` + disk + `]}`, status: 400, words: words}
}
