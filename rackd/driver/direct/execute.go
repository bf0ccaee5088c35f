package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// execution is the handle of a step that the agent runs.
type execution struct {
	running
	// Succeeded: the agent has done it, and the machine is to boot the ramdisk again.
	Succeeded bool `json:"succeeded,omitempty"`
	// Boot is the handle of that boot.
	Boot json.RawMessage `json:"boot,omitempty"`
}

// execute has the agent run a step. A list may name a step twice, so when it began is
// part of the command's id. An agent that starts again in the middle of a step begins it again only
// where the step is known to bear that. Otherwise the flow goes on behind the step, as in Ironic: the step
// may have rebooted the machine itself, and a second firmware update may do harm.
func (i Interface) execute(ctx context.Context, t *driver.Task, o offered, f driver.Flows) (driver.Outcome, error) {
	h := execution{running: running{ID: fmt.Sprintf("%s/%s/%s.%s/%d", t.WorkID, f, o.Interface, o.Step, t.Entered.UnixMilli())}}
	if err := reload(t, &h); err != nil {
		return driver.Outcome{}, err
	}
	if h.Succeeded {
		return i.bootAfter(ctx, t, &h)
	}
	cmd, saw, err := follow(ctx, t, &h.running, i.stepOrder(ctx, t, o, f, &h))
	switch {
	case err != nil:
		return driver.Outcome{}, fmt.Errorf("%s step %s.%s: %w", f, o.Interface, o.Step, err)
	case saw == unfinished:
		return i.later(t), nil
	case saw == gone:
		t.Record.Phase(f.String()+" step not repeated", fmt.Sprintf("the agent has started again during %s.%s, which may not be safe to repeat: the flow continues after it, as Ironic's does", o.Interface, o.Step))
		return driver.Done(), nil
	}
	t.Record.Phase(f.String(), o.Interface+"."+o.Step)
	if o.Step == agentapi.StepExportVolume {
		t.Record.Phase("volume", exported(cmd.Result, f))
	}
	if !o.Reboot {
		return driver.Done(), nil
	}
	h.Succeeded = true // else a successor would wait for a command of an agent that is off
	if err := t.Record.SaveHandle(ctx, h); err != nil {
		return driver.Outcome{}, err
	}
	return i.bootAfter(ctx, t, &h)
}

// stepOrder is the agent's command for a step.
func (i Interface) stepOrder(ctx context.Context, t *driver.Task, o offered, f driver.Flows, h *execution) order {
	wanted := map[string]any{"interface": o.Interface, "step": o.Step, "priority": o.Priority}
	if len(t.Args) > 0 {
		wanted["args"] = t.Args
	}
	cmd := order{
		name: orders[f].execute,
		params: func() (any, error) {
			known, err := knownDisks(t)
			if err != nil {
				return nil, err
			}
			p := params(t.Node, known, wanted)
			if volumesChanged(t) {
				p.Node[agentapi.StepVolumesChanged] = true
			}
			if f == driver.InDeploy {
				sayBoot(t, p)
				err = giveDrive(ctx, t, p)
			}
			return p, err
		},
		save: func() error { return t.Record.SaveHandle(ctx, *h) },
	}
	if !o.repeats() {
		cmd.mark = func() error {
			_, err := t.Agent.Call(ctx, t.Fence, h.ID+"/mark", orders[f].list, params(t.Node, nil, nil))
			return err
		}
	}
	return cmd
}

// sayBoot says what a step that makes a boot entry has to know of the node and its machine.
func sayBoot(t *driver.Task, p agentapi.StepParams) {
	if _, fixed := t.Hardware.Management().(driver.FixedBootOrder); fixed {
		p.Node[agentapi.StepNetworkFirst] = true
	}
	if driver.UEFIAsked(t.Node) {
		p.Node[agentapi.StepUEFI] = true
	}
}

// giveDrive puts the instance's config drive where Ironic's agents look for it. Steps that write an image in their own way need it.
func giveDrive(ctx context.Context, t *driver.Task, p agentapi.StepParams) error {
	drive, err := t.ConfigDrive(ctx)
	if err != nil {
		return fmt.Errorf("node %s: get the config drive: %w", t.Node.Label(), err)
	}
	if drive == "" {
		return nil
	}
	info := maps.Clone(t.Node.InstanceInfo)
	if info == nil {
		info = map[string]any{}
	}
	info[fieldDrive] = drive
	p.Node["instance_info"] = info
	return nil
}

// bootAfter boots the ramdisk again after a step that asks for that, as Ironic does.
func (i Interface) bootAfter(ctx context.Context, t *driver.Task, h *execution) (driver.Outcome, error) {
	if h.Boot == nil && t.HandsOff() {
		return i.later(t), nil
	}
	booting := *t
	booting.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }}
	return i.set.Bringup.Ramdisk(ctx, &booting)
}
