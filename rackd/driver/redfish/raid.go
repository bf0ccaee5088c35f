package redfish

import (
	"context"
	"maps"
	"slices"

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
	step := func(name string, takes map[string]driver.Argument) driver.Step {
		s := driver.Step{Interface: "raid", Name: name, Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true, Takes: takes}
		s.Check = func(n *node.Document, args map[string]any) error { _, _, err := r.Chosen(n, name, args); return err }
		s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			disks, empty, err := r.Chosen(t.Node, name, t.Args)
			if err != nil {
				return driver.Outcome{}, err
			}
			return r.bring(ctx, t, disks, empty)
		}
		return s
	}
	return []driver.Step{step("create_configuration", which), step("apply_configuration", apply), step("delete_configuration", nil)}
}

// targets are those of the steps; that of delete_configuration is nil.
var targets = map[string]target{
	"create_configuration": func(n *node.Document, _ map[string]any) (any, string) {
		return n.TargetRAID, "target_raid_config: set it first (PUT states/raid)"
	},
	"apply_configuration": func(_ *node.Document, args map[string]any) (any, string) {
		return args["raid_config"], "RAID configuration in the argument raid_config"
	},
}

// Chosen returns the logical disks that a step of that name is to make, each a map, and whether it deletes those that there are first.
// It refuses arguments and configurations that are wrong.
func (r RAID) Chosen(n *node.Document, step string, args map[string]any) (disks []any, empty bool, err error) {
	target := targets[step]
	disks, err = r.wanted(n, args, target)
	return disks, target == nil || args["delete_existing"] == true, err
}

// target returns the RAID configuration that a step is to make, and what the node lacks where it is none.
type target func(n *node.Document, args map[string]any) (config any, lacks string)

// wanted are the disks that a step is to make; none where target is nil. A step that lacks its configuration is refused: it
// must not be taken for one that deletes.
func (r RAID) wanted(n *node.Document, args map[string]any, target target) ([]any, error) {
	if target == nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if _, isFlag := args[name].(bool); !isFlag && args[name] != nil && name != "raid_config" {
			return nil, invalid(n, "the argument %s is %.40v: give true or false", name, args[name])
		}
	}
	given, lacks := target(n, args)
	config, _ := given.(map[string]any)
	if len(config) == 0 {
		return nil, invalid(n, "there is no %s", lacks)
	}
	if err := r.CheckRAID(n, config); err != nil {
		return nil, err
	}
	return chosen(config["logical_disks"].([]any), args), nil
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
