package api

import (
	"slices"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/schema"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/provision"
)

// What actions are told, and what is answered that no table of fields describes. Where
// a flag or a number is expected, a text that says one is taken, too.
var (
	powerBody     = schema.Members{"target": schema.OneOf(dispatch.PowerTargets...), "timeout": schema.Integer.Since(softPowerSince)}.Closed("target")
	provisionBody = schema.Members{
		"target":          schema.OneOf(provisionTargets()...),
		"configdrive":     schema.Of("string", "object", "null"),
		"clean_steps":     stepsMember.Since(15),
		"deploy_steps":    stepsMember.Since(deployStepsSince),
		"service_steps":   stepsMember.Since(87),
		"rescue_password": schema.Text.OrNull().Since(38),
		"disable_ramdisk": schema.Flag.OrNull().Since(disableRamdiskSince),
		"runbook":         schema.Text.OrNull().Since(runbookSince),
	}.Closed("target")
	stepsMember = schema.List(schema.Members{
		"interface": schema.Text, "step": schema.Text, "args": schema.Object.OrNull(), "priority": schema.Integer, "order": schema.Integer, "execute_on_child_nodes": schema.Flag,
		"limit_child_node_execution": schema.Texts,
	}.Closed("step")).OrNull()

	maintenanceBody = schema.Members{"reason": schema.Text.OrNull()}.Closed()
	bootDeviceBody  = schema.Members{"boot_device": schema.Text, "persistent": schema.Flag}.Closed("boot_device")
	bootModeBody    = schema.Members{"target": schema.OneOf(bootModes...)}.Closed("target")
	secureBootBody  = schema.Members{"target": schema.Flag}.Closed("target")
	consoleBody     = schema.Members{"enabled": schema.Flag}.Closed("enabled")
	nothing         = schema.Members{}.Closed()
	raidBody        = schema.Members{"logical_disks": schema.List(schema.Members{"size_gb": schema.Of("integer", "string"), "raid_level": schema.Text}.Open())}.Closed()
	indicatorBody   = schema.Members{"state": schema.Text}.Closed()
	attachMediaBody = schema.Members{"device_type": schema.OneOf(hardware.MediaTypes...), "image_url": schema.Text, "image_download_source": schema.OneOf(downloadSources...)}.Closed("device_type", "image_url")
	traitsBody      = schema.Members{"traits": schema.Texts}.Closed()
	attachVIFBody   = schema.Members{"id": schema.Text, "port_uuid": schema.Text.Since(vifChoiceSince), "portgroup_uuid": schema.Text.Since(vifChoiceSince)}.Open("id")
	heartbeatBody   = heartbeatMembers().Closed("callback_url")
	namedBeatBody   = namedBeatMembers().Closed("callback_url", "node_ident")
	eventsBody      = schema.Members{"events": schema.List(eventSchema())}.Closed("events")

	statesAnswer        = ofFields(nodeTable.Describe(), stateFields).Closed()
	validationAnswer    = schema.Map(schema.Members{"result": schema.Flag.OrNull(), "reason": schema.Text}.Closed("result"))
	bootDeviceAnswer    = schema.Members{"boot_device": schema.Text.OrNull(), "persistent": schema.Flag.OrNull()}.Closed("boot_device", "persistent")
	bootDevicesAnswer   = schema.Members{"supported_boot_devices": schema.Texts}.Closed("supported_boot_devices")
	consoleAnswer       = schema.Members{"console_enabled": schema.Flag, "console_info": schema.Object.OrNull()}.Closed("console_enabled", "console_info")
	propertiesAnswer    = schema.Map(schema.Text)
	indicatorAnswer     = schema.Members{"state": schema.Text}.Closed("state")
	indicatorsAnswer    = schema.Members{"indicators": schema.List(schema.Members{"name": schema.Text, "component": schema.Text, "readonly": schema.Flag, "states": schema.Texts, "links": linkList}.Closed())}.Closed("indicators")
	mediaAnswer         = schema.List(schema.Members{"media_types": schema.Texts, "inserted": schema.Flag, "image": schema.Text}.Closed())
	biosSettingAnswer   = schema.Map(schema.Component("bios"))
	vendorMethodsAnswer = schema.Map(schema.Members{"async": schema.Flag, "attach": schema.Flag, "description": schema.Text, "http_methods": schema.Texts, "require_exclusive_lock": schema.Flag}.Open())
	traitsAnswer        = schema.Members{"traits": schema.Texts}.Closed("traits")
	inventoryAnswer     = schema.Members{"inventory": schema.Object, "plugin_data": schema.Object}.Closed("inventory", "plugin_data")
	vifsAnswer          = schema.Members{"vifs": schema.List(schema.Members{"id": schema.Text}.Closed("id"))}.Closed("vifs")
	childrenAnswer      = schema.Members{"children": schema.Texts, "links": schema.Object}.Closed("children", "links")
	shardsAnswer        = schema.Members{"shards": schema.List(schema.Members{"name": schema.Text, "count": schema.Integer}.Closed("name", "count"))}.Closed("shards")
	volumesAnswer       = schema.Members{"links": linkList, "connectors": linkList, "targets": linkList}.Closed("links", "connectors", "targets")
	versionAnswer       = schema.Members{"id": schema.Text, "links": linkList}.Open("id", "links")
	lookedUpAnswer      = schema.Members{"node": schema.Object, "config": schema.Object}.Open("node", "config")

	linkList = schema.Component("Links")

	// A port's node is named one way or the other.
	portBody = bodySchema(append(portTable.Describe(), fields.Description{Name: "node_ident", Since: nodeIdentSince, Type: "string", Post: true})).
			Either("node_uuid", "node_ident")
)

// ofFields describes some of a table's fields.
func ofFields(list []fields.Description, names []string) schema.Members {
	of := schema.Members{}
	for _, f := range list {
		if slices.Contains(names, f.Name) {
			of[f.Name] = property(f)
		}
	}
	return of
}

// heartbeatMembers are what a heartbeat says.
func heartbeatMembers() schema.Members {
	of := schema.Members{}
	for name, since := range heartbeatFields {
		of[name] = schema.Text.OrNull().Since(since)
	}
	return of
}

// eventSchema describes an event of a network service.
func eventSchema() schema.Schema {
	of, required := schema.Members{}, []string(nil)
	for _, f := range eventFields {
		if of[f.name] = schema.Text.OrNull(); f.required {
			of[f.name], required = schema.Text, append(required, f.name)
		}
	}
	return of.Closed(required...)
}

// namedBeatMembers are what one says where the path names no node.
func namedBeatMembers() schema.Members {
	of := heartbeatMembers()
	of["node_ident"] = schema.Text
	return of
}

// provisionTargets are the targets that a request for another provision state may name.
func provisionTargets() (names []string) {
	for _, v := range provision.Verbs {
		names = append(names, v.Name)
	}
	return names
}
