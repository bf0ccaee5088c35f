package redfish

import (
	"context"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// RAID is the RAID interface of machines whose BMC speaks Redfish: volumes of its storage
// controllers.
type RAID struct {
	*Driver
	// Bringup restarts machines whose BMC changes volumes only then.
	Bringup bringup.Settings
}

// LogicalDiskProperties says what may be asked for.
func (RAID) LogicalDiskProperties() map[string]string { return hardware.RAIDProperties }

// CheckRAID refuses what Redfish cannot say.
func (RAID) CheckRAID(n *node.Document, config map[string]any) error {
	if err := hardware.CheckRAID(config); err != nil {
		return invalid(n, "RAID configuration: %v", err)
	}
	for i, item := range config["logical_disks"].([]any) {
		disk := item.(map[string]any)
		if disk["controller"] == "software" {
			return invalid(n, "logical disk %d: software RAID is not made by a BMC", i+1)
		}
		list, _ := disk["physical_disks"].([]any)
		for _, name := range list {
			if _, isName := name.(string); !isName {
				return invalid(n, "logical disk %d: name its physical_disks as the BMC does", i+1)
			}
		}
	}
	return nil
}

// NamedSteps lists the steps that make and delete volumes.
func (r RAID) NamedSteps(*node.Document) []driver.Step {
	which := map[string]driver.Argument{
		"create_root_volume":     {Description: "Whether to create the root volume. Default true."},
		"create_nonroot_volumes": {Description: "Whether to create the other volumes. Default true."},
		"delete_existing":        {Description: "Whether to delete the volumes that are there first. Default false."},
	}
	apply := map[string]driver.Argument{"raid_config": {Description: "The RAID configuration to apply.", Required: true}}
	for name, a := range which {
		apply[name] = a
	}
	step := func(name string, takes map[string]driver.Argument, target func(*driver.Task) map[string]any) driver.Step {
		return driver.Step{Interface: "raid", Name: name, Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true, Takes: takes,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) { return r.bring(ctx, t, target(t)) }}
	}
	return []driver.Step{
		step("create_configuration", which, func(t *driver.Task) map[string]any { return t.Node.TargetRAID }),
		step("apply_configuration", apply, func(t *driver.Task) map[string]any { c, _ := t.Args["raid_config"].(map[string]any); return c }),
		step("delete_configuration", nil, func(*driver.Task) map[string]any { return nil }),
	}
}

// chosen are the disks that a step is to make.
func chosen(all []any, args map[string]any) (disks []any) {
	for _, item := range all {
		arg := "create_nonroot_volumes"
		if item.(map[string]any)["is_root_volume"] == true {
			arg = "create_root_volume"
		}
		if args[arg] != false {
			disks = append(disks, item)
		}
	}
	return disks
}
