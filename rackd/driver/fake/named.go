package fake

import (
	"context"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// settings is the argument of steps that configure something.
func settings(what string) map[string]driver.Argument {
	return map[string]driver.Argument{"settings": {Description: what, Required: true}}
}

// named are the steps that an operator may ask for, by kind. Those of the deploy
// interface need the ramdisk, as they do on real machines.
var named = map[string][]driver.Step{
	"bios": {
		{Name: "apply_configuration", Takes: settings("A list of BIOS settings, each an object with name and value."),
			Check: func(n *node.Document, args map[string]any) error { _, err := wanted(n, args["settings"]); return err }},
		{Name: "factory_reset"},
		{Name: "cache_bios_settings"},
	},
	"raid": {
		{Name: "create_configuration", Takes: map[string]driver.Argument{
			"create_root_volume":     {Description: "Whether to create the root volume. Default true."},
			"create_nonroot_volumes": {Description: "Whether to create the other volumes. Default true."},
			"delete_existing":        {Description: "Whether to delete the volumes that are there first. Default false."},
		}},
		{Name: "delete_configuration"},
		{Name: "apply_configuration", Check: checkVolumes, Takes: map[string]driver.Argument{
			"raid_config":            {Description: "The RAID configuration to apply.", Required: true},
			"create_root_volume":     {Description: "Whether to create the root volume. Default true."},
			"create_nonroot_volumes": {Description: "Whether to create the other volumes. Default true."},
			"delete_existing":        {Description: "Whether to delete the volumes that are there first. Default true."},
		}},
	},
	"firmware": {{Name: "update", Takes: settings("A list of firmware updates, each an object with component and url."),
		Check: func(n *node.Document, args map[string]any) error { _, err := images(n, args["settings"]); return err }}},
	"management": {{Name: "reset_bmc"}, {Name: "verify_clock", In: driver.InVerify, Priority: 1}},
	"vendor":     {{Name: "log_passthrough"}, {Name: triggerServiceWait, In: driver.InService, Abortable: true}},
	"deploy": {
		{Name: "erase_devices", In: driver.InClean, Priority: 10, Abortable: true},
		{Name: "erase_devices_metadata", In: driver.InClean | driver.InDeploy, Abortable: true},
	},
}

// NamedSteps lists the steps that requests may name.
func (b base) NamedSteps(*node.Document) []driver.Step {
	steps := slices.Clone(named[b.kind])
	for i, s := range steps {
		full := b.step(s.Name, s.Priority, b.effect(s.Name))
		if s.Name == triggerServiceWait {
			full.Run = waits
		}
		full.In, full.Takes, full.Check, full.Abortable, full.NoRamdisk = s.In, s.Takes, s.Check, s.Abortable, b.kind != "deploy"
		steps[i] = full
	}
	return steps
}

// triggerServiceWait leaves the node in "service wait" until an operator aborts it or the state's deadline passes.
const triggerServiceWait = "trigger_servicewait"

func waits(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Wait(0), nil }
