package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type raid struct{ base }

func (raid) LogicalDiskProperties() map[string]string { return hardware.RAIDProperties }

func (r raid) CheckRAID(n *node.Document, config map[string]any) error {
	if err := hardware.CheckRAID(config); err != nil {
		return fmt.Errorf("node %s: RAID configuration: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	return nil
}

// createConfiguration makes the volumes of the node's target_raid_config. Without one
// there is nothing to make, as with Ironic's fake interface.
func (r raid) createConfiguration(_ context.Context, t *driver.Task) error {
	if len(t.Node.TargetRAID) == 0 {
		return nil
	}
	return r.create(t, t.Node.TargetRAID)
}

// applyConfiguration makes the volumes of the step's argument.
func (r raid) applyConfiguration(_ context.Context, t *driver.Task) error {
	config, _ := t.Args["raid_config"].(map[string]any)
	return r.create(t, config)
}

// checkVolumes refuses the arguments that applyConfiguration refuses.
func checkVolumes(n *node.Document, args map[string]any) error {
	config, _ := args["raid_config"].(map[string]any)
	return raid{}.wanted(n, config)
}

// wanted says what is wrong with a configuration to make.
func (r raid) wanted(n *node.Document, config map[string]any) error {
	if len(config) == 0 {
		return fmt.Errorf("node %s: the step's argument raid_config is no RAID configuration: %w", n.Label(), driver.ErrInvalid)
	}
	return r.CheckRAID(n, config)
}

func (r raid) create(t *driver.Task, config map[string]any) error {
	if err := r.wanted(t.Node, config); err != nil {
		return err
	}
	made := []any{}
	for _, item := range config["logical_disks"].([]any) {
		arg := "create_nonroot_volumes"
		if item.(map[string]any)["is_root_volume"] == true {
			arg = "create_root_volume"
		}
		if t.Args[arg] != false {
			made = append(made, item)
		}
	}
	r.observe(t, hardware.Observation{RAID: map[string]any{"logical_disks": made, "last_updated": time.Now().UTC().Format(time.DateTime)}})
	return nil
}

func (r raid) deleteConfiguration(_ context.Context, t *driver.Task) error {
	r.observe(t, hardware.Observation{RAID: map[string]any{}})
	return nil
}
