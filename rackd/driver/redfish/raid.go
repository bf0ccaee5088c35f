package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// RAID is the RAID interface of machines whose BMC speaks Redfish: volumes of its storage
// controllers.
type RAID struct{ *Driver }

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

// building is the handle of a step.
type building struct {
	Emptied bool   `json:"emptied,omitempty"` // what there was is deleted, if it was to be
	At      int    `json:"at"`                // of the logical disks
	Job     string `json:"job,omitempty"`     // that deletes a volume or makes disk At
	// Had are the volumes before disk At was asked for: whoever takes over sees by them
	// whether it has been made.
	Had []string `json:"had,omitempty"`
	// Asked: the request for disk At may have left.
	Asked bool `json:"asked,omitempty"`
}

// bring deletes volumes, if that is asked for, and makes those of config.
func (r RAID) bring(ctx context.Context, t *driver.Task, config map[string]any) (driver.Outcome, error) {
	var disks []any
	if config != nil {
		if err := r.CheckRAID(t.Node, config); err != nil {
			return driver.Outcome{}, err
		}
		disks = chosen(config["logical_disks"].([]any), t.Args)
	}
	var h building
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the RAID configuration cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	h.Emptied = h.Emptied || config != nil && t.Args["delete_existing"] != true
	for !h.Emptied || h.At < len(disks) {
		if h.Job != "" {
			// What waits for a restart is made as far as anybody can tell now.
			if is, err := r.job(ctx, t, "change the volumes", h.Job); err != nil {
				return driver.Outcome{}, err
			} else if is == running {
				return driver.Wait(jobPoll), nil
			}
			h.Job = ""
			if h.Emptied {
				h.At, h.Asked = h.At+1, false
			}
			continue
		}
		var err error
		if !h.Emptied {
			h.Emptied, h.Job, err = r.deleteOne(ctx, t)
		} else {
			err = r.makeOne(ctx, t, disks[h.At].(map[string]any), &h)
		}
		if err != nil {
			return driver.Outcome{}, err
		}
		if h.Job != "" {
			return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
		}
	}
	made := map[string]any{}
	if len(disks) > 0 {
		made = map[string]any{"logical_disks": disks, "last_updated": time.Now().UTC().Format(time.DateTime)}
	}
	t.Record.Observe(hardware.Observation{RAID: made})
	return driver.Done(), nil
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

// deleteOne deletes a volume; none says that there is none left.
func (r RAID) deleteOne(ctx context.Context, t *driver.Task) (none bool, job string, err error) {
	err = r.pool.with(ctx, t.Fence, t.Node, "delete a volume", func(b *bmc, a account, c *gofish.APIClient) error {
		all, err := controllers(b, a, c)
		if err != nil {
			return err
		}
		for _, s := range all {
			for _, v := range s.volumes {
				if v.raw() {
					continue
				}
				job, err = order(c, http.MethodDelete, v.Path, nil)
				return err
			}
		}
		none = true
		return nil
	})
	return none, job, err
}

// makeOne asks for disk h.At. With neither job nor error the disk is made.
func (r RAID) makeOne(ctx context.Context, t *driver.Task, disk map[string]any, h *building) error {
	return r.pool.with(ctx, t.Fence, t.Node, fmt.Sprintf("make logical disk %d", h.At+1), func(b *bmc, a account, c *gofish.APIClient) error {
		all, err := controllers(b, a, c)
		if err != nil {
			return err
		}
		var there []string
		for _, s := range all {
			for _, v := range s.volumes {
				there = append(there, v.Path)
			}
		}
		if h.Asked && slices.ContainsFunc(there, func(v string) bool { return !slices.Contains(h.Had, v) }) {
			h.At, h.Asked = h.At+1, false // by whoever asked before
			return nil
		}
		at, body, err := layout(all, disk)
		if err != nil {
			return err
		}
		h.Had, h.Asked = there, true
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		if h.Job, err = order(c, http.MethodPost, at, body); err == nil && h.Job == "" {
			h.At, h.Asked = h.At+1, false
		}
		return err
	})
}
