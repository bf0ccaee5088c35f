package fields

// put is the refusal of a PUT to what is below the node.
func put(path, body, words string) refusal {
	return refusal{method: "PUT", path: "/v1/nodes/{n}/" + path, body: body, status: 400, words: words}
}

// vendor is the row of the body of a vendor method, which is the method's own.
var vendor = by("central/api.vendorCall", "rackd/answer.callVendor").as("Data").with("What a method takes it says itself; one that there is not is refused.")

var actions = joined(each(vendor, "PATCH drivers/{driver}/vendor_passthru *", "PATCH drivers/{driver}/vendor_passthru/{method} *", "POST drivers/{driver}/vendor_passthru *",
	"POST drivers/{driver}/vendor_passthru/{method} *", "PUT drivers/{driver}/vendor_passthru *", "PUT drivers/{driver}/vendor_passthru/{method} *"),
	each(vendor.refusing(refusal{method: "POST", path: "/v1/nodes/{n}/vendor_passthru?method=nonesuch", body: `{}`, status: 400, words: "nonesuch"}),
		"PATCH nodes/{node}/vendor_passthru *", "PATCH nodes/{node}/vendor_passthru/{method} *", "POST nodes/{node}/vendor_passthru *",
		"POST nodes/{node}/vendor_passthru/{method} *", "PUT nodes/{node}/vendor_passthru *", "PUT nodes/{node}/vendor_passthru/{method} *"),
	table{
		"PUT nodes/{node}/maintenance reason":                      kept("A text for people."),
		"PUT nodes/{node}/management/boot_device boot_device":      by("rackd/driver/redfish.SetBootDevice").refusing(put("management/boot_device", `{"boot_device":"tape"}`, "tape")),
		"PUT nodes/{node}/management/boot_device persistent":       by("rackd/driver/redfish.SetBootDevice"),
		"PUT nodes/{node}/management/indicators/{indicator} state": by("central/api.setIndicator", "rackd/driver/redfish.SetIndicator").refusing(put("management/indicators/led@system", `{"state":"purple"}`, "purple")),
		"PUT nodes/{node}/states/boot_mode target":                 by("rackd/conductor/flow.setBootMode").as("mode").refusing(put("states/boot_mode", `{"target":"cp/m"}`, "cp/m")),
		"PUT nodes/{node}/states/secure_boot target":               by("rackd/conductor/flow.setSecureBoot").as("on"),
		"PUT nodes/{node}/states/console enabled":                  by("central/api.setConsole", "rackd/conductor/flow.setConsole").as("SetConsole"),
		"PUT nodes/{node}/states/power target":                     by("rackd/conductor/flow.powerFlow").refusing(put("states/power", `{"target":"half"}`, "half")),
		"PUT nodes/{node}/states/power timeout":                    by("rackd/conductor/flow.hardTimeout", "rackd/conductor/flow.SoftTimeout").with("At most a day: 86,400 seconds.").refusing(put("states/power", `{"target":"power on","timeout":86401}`, "timeout is 86400 seconds at most")),
		"PUT nodes/{node}/traits traits":                           by("central/allocation.suits", "central/dispatch.instanceTraits").refusing(put("traits", `{"traits":["lower"]}`, "lower")),
		"POST nodes/{node}/vmedia device_type":                     by("rackd/driver/redfish.AttachMedia").as("mediaType").refusing(refusal{method: "POST", path: "/v1/nodes/{n}/vmedia", body: `{"device_type":"tape","image_url":"http://127.0.0.1:1/i"}`, status: 400, words: "'tape' is not one of"}),
		"POST nodes/{node}/vmedia image_url":                       by("rackd/driver/redfish.AttachMedia").as("url").refusing(refusal{method: "POST", path: "/v1/nodes/{n}/vmedia", body: `{"device_type":"cdrom","image_url":"file:///i"}`, status: 400, words: "Unsupported or missing URL scheme"}),
		"POST nodes/{node}/vmedia image_download_source":           by("central/api.readMedia", "central/api.attachMedia").with("The BMC loads the image from its URL whatever is said: `http`. The history says that `local` has no effect.").refusing(refusal{method: "POST", path: "/v1/nodes/{n}/vmedia", body: `{"device_type":"cdrom","image_url":"http://127.0.0.1:1/i","image_download_source":"swift"}`, status: 400, words: "swift is not supported"}),
		"POST nodes/{node}/vifs *":                                 by("central/api.readAttachment").as("besides").with("Not kept; the node's history names it."),
		"POST nodes/{node}/vifs id":                                kept("No rack acts on a VIF: the node's history says so, and `validate` (network)."),
		"POST nodes/{node}/vifs port_uuid":                         by("central/api.choose").as("port"),
		"POST nodes/{node}/vifs portgroup_uuid":                    by("central/api.choose").as("portgroup"),
	})

var ports = table{
	"ports *":                               {},
	"ports address":                         by("rackd/view.NodeByMAC", "rackd/conductor.called").as("NodeByMAC"),
	"ports available_for_dynamic_portgroup": kept("There are no dynamic port groups that a port could be taken for."),
	"ports category":                        kept("A word for operators; there is no trait-based networking."),
	"ports description":                     kept("A text for people; lists of ports can be filtered by it."),
	"ports extra":                           kept("Kept for clients by definition."),
	"ports is_smartnic": kept("No rack acts on it: the node's history says so when it is set, and `validate` (network).").
		saying(saying{"smart", "network", "no rack acts on it: is_smartnic of port"}),
	"ports local_link_connection": kept("No rack configures a switch, as with Ironic's network interface flat. Inspections write it.").
		refusing(refusal{method: "POST", path: "/v1/ports", body: `{"node_uuid":"{n}","address":"52:54:00:00:00:09","local_link_connection":{"colour":"red"}}`, status: 400, words: "colour"}),
	"ports name":             kept("A name for people."),
	"ports node_ident":       by("central/api.createPort"),
	"ports node_uuid":        by("central/api.createPort", "central/api.updatePort"),
	"ports physical_network": by("central/api.sockets", "central/api.checkPhysicalNetwork"),
	"ports portgroup_uuid":   by("central/api.sockets", "central/api.checkPort"),
	"ports pxe_enabled":      by("rackd/driver/networkboot.Validate", "central/api.sockets"),
	"ports uuid":             by("central/api.createPort"),
	"ports vendor":           kept("A word for operators; there is no trait-based networking."),
}

const groupKept = "No rack configures a switch for a port group: the node's history says so, and `validate` (network)."

var portgroups = table{
	"portgroups *":                          {},
	"portgroups address":                    kept(groupKept),
	"portgroups category":                   kept("A word for operators; there is no trait-based networking."),
	"portgroups extra":                      kept("Kept for clients by definition."),
	"portgroups mode":                       kept(groupKept),
	"portgroups name":                       by("central/api.portgroupOf").as("ident"),
	"portgroups node_uuid":                  by("central/api.checkPortgroup").as("Node").saying(saying{"group", "network", "no rack acts on it: its port groups"}),
	"portgroups physical_network":           by("central/api.sockets"),
	"portgroups properties":                 kept(groupKept),
	"portgroups standalone_ports_supported": by("central/api.sockets", "central/api.checkPort"),
	"portgroups uuid":                       by("central/api.portgroupCollection"),
}

const volumeUse = "Used with the storage interfaces `external` and `cinder`."

var volumes = table{
	"connectors *":            {},
	"connectors connector_id": by("rackd/driver/volume.initiator").as("ID").with(volumeUse),
	"connectors extra":        kept("Kept for clients by definition."),
	"connectors node_uuid":    by("central/api.volumeConnectors").as("Node"),
	"connectors type":         by("rackd/driver/volume.initiator", "rackd/driver/volume.validateCinder").as("Type").with(volumeUse + " `iqn` is the machine's own name; the others are checked as Ironic's `cinder` does, and tell nobody anything."),
	"connectors uuid":         by("central/api.volumeConnectors"),
	"targets *":               {},
	"targets boot_index":      by("rackd/driver/volume.Boots", "rackd/driver/volume.Read").as("BootIndex").with(volumeUse + " The machine boots from 0."),
	"targets extra":           kept("Kept for clients by definition."),
	"targets node_uuid":       by("central/api.volumeTargets").as("Node").saying(saying{"volume", "storage", "no rack acts on it: its volumes"}),
	"targets properties":      by("rackd/driver/volume.diskOf", "rackd/driver/volume.chap").with(volumeUse + " `target_iqn`, `target_portal`, `target_lun`, their plurals, `auth_method`, `auth_username`, `auth_password`, `mutual_auth_username`, `mutual_auth_password`; others are kept. A value that no machine can use is refused by `validate` (storage)."),
	"targets uuid":            by("central/api.volumeTargets"),
	"targets volume_id":       by("rackd/driver/volume.validateCinder").as("VolumeID").with("`cinder` wants one; `external` keeps it for clients."),
	"targets volume_type":     by("rackd/driver/volume.diskOf").as("Type").with(volumeUse + " `iscsi`; `fibre_channel` and all else is refused by `validate` (storage)."),
}

var others = table{
	"chassis *":                   {},
	"chassis description":         kept("A text for people."),
	"chassis extra":               kept("Kept for clients by definition."),
	"chassis uuid":                by("central/api.checkPlace").as("ChassisUUID"),
	"allocations *":               {},
	"allocations candidate_nodes": by("central/allocation.suits").as("Candidates"),
	"allocations extra":           kept("Kept for clients by definition."),
	"allocations name":            by("central/api.allocationName"),
	"allocations owner":           by("central/allocation.suits"),
	"allocations resource_class":  by("central/allocation.suits"),
	"allocations traits":          by("central/allocation.suits"),
	"allocations uuid":            by("central/allocation.take"),
	"deploy_templates *":          {},
	"deploy_templates extra":      kept("Kept for clients by definition."),
	"deploy_templates name":       by("central/dispatch.withTemplates").as("instanceTraits"),
	"deploy_templates steps": by("central/dispatch.withTemplates").refusing(refusal{method: "POST", path: "/v1/deploy_templates",
		body: `{"name":"CUSTOM_A","steps":[{"interface":"raid","step":"s","args":{},"priority":1,"colour":1}]}`, status: 400, words: "colour"}),
	"deploy_templates uuid":    by("central/api.deployTemplates"),
	"runbooks *":               {},
	"runbooks description":     kept("A text for people."),
	"runbooks disable_ramdisk": by("central/api.useRunbook"),
	"runbooks extra":           kept("Kept for clients by definition."),
	"runbooks name":            by("central/api.suits"),
	"runbooks owner":           by("central/api.runbookTarget"),
	"runbooks public":          by("central/api.namedRunbook", "central/api.mayPatchRunbook"),
	"runbooks steps": by("central/api.useRunbook").refusing(refusal{method: "POST", path: "/v1/runbooks",
		body: `{"name":"CUSTOM_B","steps":[{"interface":"raid","step":"s","args":{},"order":1,"colour":1}]}`, status: 400, words: "colour"}),
	"runbooks uuid":                        by("central/api.useRunbook"),
	"PUT runbooks/{runbook}/traits traits": by("central/api.suits"),
	"inspection_rules *":                   {},
	"inspection_rules actions":             by("central/inspection.apply", "central/inspection.Parse").refusing(refusal{method: "POST", path: "/v1/inspection_rules", body: `{"actions":[{"op":"dance","args":{}}]}`, status: 400, words: "dance"}),
	"inspection_rules conditions":          by("central/inspection.apply", "central/inspection.Parse").refusing(refusal{method: "POST", path: "/v1/inspection_rules", body: `{"actions":[{"op":"fail","args":{"msg":"x"}}],"conditions":[{"op":"dance","args":{}}]}`, status: 400, words: "dance"}),
	"inspection_rules description":         kept("A text for people."),
	"inspection_rules phase":               by("central/api.checkInspectionRule").refusing(refusal{method: "POST", path: "/v1/inspection_rules", body: `{"phase":"never","actions":[{"op":"fail","args":{"msg":"x"}}]}`, status: 400, words: "never"}),
	"inspection_rules priority":            by("central/store.InspectionRules").as("selectRulesInOrder"),
	"inspection_rules sensitive":           by("central/inspection.visible"),
	"inspection_rules uuid":                by("central/api.inspectionRuleCollection"),
}

func init() {
	ports["ports *"] = unknown("/v1/ports", `{"node_uuid":"{n}","address":"52:54:00:00:00:09","colour":"red"}`)
	portgroups["portgroups *"] = unknown("/v1/portgroups", `{"node_uuid":"{n}","colour":"red"}`)
	volumes["connectors *"] = unknown("/v1/volume/connectors", `{"node_uuid":"{n}","type":"iqn","connector_id":"x","colour":"red"}`)
	volumes["targets *"] = unknown("/v1/volume/targets", `{"node_uuid":"{n}","volume_type":"iscsi","boot_index":7,"volume_id":"x","colour":"red"}`)
	others["chassis *"] = unknown("/v1/chassis", `{"colour":"red"}`)
	others["allocations *"] = unknown("/v1/allocations", `{"resource_class":"x","colour":"red"}`)
	others["deploy_templates *"] = unknown("/v1/deploy_templates", `{"name":"CUSTOM_A","steps":[{"interface":"raid","step":"s","args":{},"priority":1}],"colour":"red"}`)
	others["runbooks *"] = unknown("/v1/runbooks", `{"name":"CUSTOM_B","steps":[{"interface":"raid","step":"s","args":{},"order":1}],"colour":"red"}`)
	others["inspection_rules *"] = unknown("/v1/inspection_rules", `{"actions":[{"op":"fail","args":{"msg":"x"}}],"colour":"red"}`)
}

// beat is the rows of a heartbeat.
func beat(path string) table {
	installer := by("rackd/conductor/runner.Report").as("Status").with("Installers that are no agents. A deploy by anaconda goes on by what they say; where none is waited for, the rack refuses it.").
		refusing(refusal{method: "POST", path: "/v1/heartbeat/{n}", body: `{"callback_url":"http://127.0.0.1:1","agent_token":"t","agent_status":"dancing"}`, status: 400, words: "Agent status is invalid"})
	return table{
		path + " callback_url":         by("rackd/conductor.Heartbeat"),
		path + " agent_version":        by("rackd/conductor.callable", "rackd/conductor/runner.pin"),
		path + " agent_token":          by("rackd/conductor.Heartbeat"),
		path + " agent_verify_ca":      by("rackd/conductor.callable", "rackd/conductor/runner.pin"),
		path + " agent_status":         installer,
		path + " agent_status_message": installer,
	}
}

const eventKept = "Checked, and written to central's log: no network interface here waits for an event."

var ramdisks = joined(beat("POST heartbeat"), beat("POST heartbeat/{node}"),
	each(kept(eventKept), "POST events events[].binding:host_id", "POST events events[].binding:vnic_type", "POST events events[].device_id",
		"POST events events[].mac_address", "POST events events[].port_id", "POST events events[].status"), table{
		"POST heartbeat node_ident":                      by("central/api.beatsFor"),
		"POST events events":                             kept(eventKept).refusing(refusal{method: "POST", path: "/v1/events", body: `{"events":[],"colour":1}`, status: 400, words: "colour"}),
		"POST events events[].event":                     kept(eventKept).refusing(refusal{method: "POST", path: "/v1/events", body: `{"events":[{"event":"disk.full"}]}`, status: 400, words: "disk.full"}),
		"POST continue_inspection *":                     by("central/api.readInspection", "central/inspection.subject").as("inventory").with("Kept whole as the node's inventory; hooks and rules read it."),
		"POST drivers/{driver}/vendor_passthru/lookup *": by("central/api.readLegacyLookup").as("inventory").with("What ramdisks of before 1.22 send."),
		"POST nodes/{node}/vendor_passthru/heartbeat *":  by("central/api.legacyHeartbeat").as("callback_url").with("What ramdisks of before 1.22 send."),
	})

// filtering is the rows of arguments that a function reads.
func filtering(by row, of string, names ...string) table {
	t := table{}
	for _, name := range names {
		t["?"+name+" of "+of] = by
	}
	return t
}

var queries = joined(
	filtering(by("central/api.nodeQuery"), "lists of nodes", "associated", "chassis_uuid", "conductor", "conductor_group", "description_contains", "driver", "fault", "include_children",
		"instance_name", "instance_uuid", "lessee", "maintenance", "owner", "parent_node", "project", "provision_state", "resource_class", "retired", "shard", "sharded"),
	filtering(by("central/api.portQuery"), "lists of ports", "address", "conductor_groups", "description_contains", "node", "node_uuid", "portgroup", "shard"),
	filtering(by("central/api.portgroupPage"), "lists of portgroups", "address", "conductor_groups", "node", "shard"),
	filtering(by("central/api.allocationPage"), "lists of allocations", "node", "owner", "resource_class", "state"),
	filtering(by("central/api.auditQuery"), "lists of audit", "action", "node", "object", "request_id", "result", "since", "until", "user"),
	filtering(by("central/api.streamNotifications"), "GET notifications", "event_type", "last_event_id", "level", "node"),
	filtering(by("central/api.lookup"), "GET lookup", "addresses", "node_uuid"),
	filtering(by("central/api.validateNodeByQuery"), "GET nodes/validate", "node", "node_uuid"),
	filtering(by("central/api.machineNamed"), "GET drivers/{driver}/vendor_passthru/ipxe_config", "node_uuid", "port_address"),
	filtering(by("central/api.nodesOfQuery"), "lists of connectors", "node"),
	filtering(by("central/api.nodesOfQuery"), "lists of targets", "node"),
	table{
		"?limit":                                 by("central/api/wire.Page"),
		"?marker":                                by("central/api/wire.Page"),
		"?sort_key":                              by("central/api/wire.Page"),
		"?sort_dir":                              by("central/api/wire.Page"),
		"?fields":                                by("central/api.selectFields"),
		"?detail":                                by("central/api.selectFields").with("Together with fields it is refused."),
		"?node_uuid of POST continue_inspection": by("central/api.continueInspection"),
		"?reset_interfaces of PATCH nodes/{node}":                      by("central/api.updateNode", "central/api.change").as("reset").refusing(refusal{method: "PATCH", path: "/v1/nodes/{n}?reset_interfaces=true", body: `[{"op":"add","path":"/extra/a","value":1}]`, status: 400, words: "reset_interfaces parameter can only be used when changing"}),
		"?state of PUT nodes/{node}/management/indicators/{indicator}": by("central/api.setIndicator"),
		"?phase of lists of inspection_rules":                          by("central/api.inspectionRuleCollection"),
		"?project of lists of runbooks":                                by("central/api.runbookCollection"),
		"?type of lists of drivers":                                    by("central/api.listDrivers"),
		"?watch of GET nodes/{node}":                                   by("central/api.watchNode"),
		"?watch of lists of nodes":                                     by("central/api.watchNodes"),
	})
