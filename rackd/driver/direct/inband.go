package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// orders are the agent's commands for the steps of a flow.
var orders = map[driver.Flows]struct{ list, execute string }{
	driver.InClean:   {agentapi.CmdGetCleanSteps, agentapi.CmdExecCleanStep},
	driver.InDeploy:  {agentapi.CmdGetDeploySteps, agentapi.CmdExecDeployStep},
	driver.InService: {agentapi.CmdGetServiceSteps, agentapi.CmdExecServiceStep},
}

// Up boots the ramdisk and asks its agent what it offers.
func (i Interface) Up(_ *node.Document, f driver.Flows) []driver.Step {
	s := step(map[driver.Flows]string{driver.InClean: "prepare_cleaning", driver.InService: "prepare_service"}[f], 0, driver.Reattachable, i.upFor(f))
	s.Abortable, s.Boots, s.Discovers = true, true, true
	return []driver.Step{s}
}

// upFor boots the ramdisk, then asks its agent for its steps of f.
func (i Interface) upFor(f driver.Flows) func(context.Context, *driver.Task) (driver.Outcome, error) {
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if f != driver.InClean && t.Facts[driver.FactBoot] != driver.BootRamdisk {
			// The instance may have secure boot on, and the firmware knows no key that has signed the ramdisk.
			if err := driver.SetSecureBoot(ctx, t, false); err != nil {
				return driver.Outcome{}, err
			}
		}
		out, err := i.set.Bringup.Ramdisk(ctx, t)
		if err != nil && f == driver.InService && t.Facts[driver.FactBoot] != driver.BootRamdisk {
			return out, errors.Join(err, driver.SetSecureBoot(ctx, t, true)) // the instance runs on
		}
		if _, waiting := out.Waiting(); err != nil || waiting {
			return out, err
		}
		return out, i.discover(ctx, t, f)
	}
}

// Down leaves the ramdisk: the machine is off after a cleaning and runs its instance
// again after a service.
func (i Interface) Down(_ *node.Document, f driver.Flows) []driver.Step {
	if f != driver.InService {
		return []driver.Step{step("tear_down_cleaning", 0, driver.Repeatable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if err := i.set.Bringup.Off(ctx, t); err != nil {
				return driver.Outcome{}, err
			}
			return driver.Done(), driver.TakeBackRamdisk(ctx, t)
		})}
	}
	return []driver.Step{step("tear_down_service", 0, driver.Reattachable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if err := i.set.Bringup.Instance(ctx, t, true, i.offForInstance); err != nil {
			return driver.Outcome{}, err
		}
		i.runs(t)
		return driver.Done(), nil
	})}
}

// offForInstance ends the ramdisk of a service. The instance that starts next has the secure boot that it asks for.
func (i Interface) offForInstance(ctx context.Context, t *driver.Task) error {
	if err := i.set.Bringup.Off(ctx, t); err != nil {
		return err
	}
	return driver.SetSecureBoot(ctx, t, true)
}

// discover asks the agent for its steps of f and keeps them.
func (i Interface) discover(ctx context.Context, t *driver.Task, f driver.Flows) error {
	list := orders[f].list
	cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/"+list, list, params(t.Node, nil, nil))
	if err != nil {
		return fmt.Errorf("node %s: ask the agent for its %s steps: %w", t.Node.Label(), f, err)
	}
	steps, err := parseSteps(cmd.Result, f)
	if err != nil {
		return fmt.Errorf("node %s: the agent's %s steps: %w", t.Node.Label(), f, err)
	}
	if f == driver.InClean && !slices.ContainsFunc(steps, func(o offered) bool { return o.Priority > 0 }) {
		t.Record.Phase("agent", "none of its clean steps runs without being asked for: an automated cleaning erases nothing")
	}
	raw, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	t.Facts[factOffered+f.String()] = string(raw)
	i.remember(t, f, steps)
	return nil
}

// Offered returns the steps that discover has found.
func (i Interface) Offered(facts map[string]string, f driver.Flows) ([]driver.Step, bool, error) {
	raw, ok := facts[factOffered+f.String()]
	if !ok {
		return nil, false, nil
	}
	var list []offered
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil, false, fmt.Errorf("the agent's %s steps in the checkpoint cannot be read: %w", f, err)
	}
	steps := make([]driver.Step, len(list))
	for at, o := range list {
		steps[at] = i.inBand(o, f)
	}
	return steps, true, nil
}

// inBand is a step that the agent runs.
func (i Interface) inBand(o offered, f driver.Flows) driver.Step {
	s := driver.Step{Interface: o.Interface, Name: o.Step, Priority: o.Priority, Kind: driver.Reattachable, Retries: retries, Pause: pause,
		In: f, InBand: true, Abortable: o.Abortable, Takes: map[string]driver.Argument{}, Check: o.check}
	for _, name := range slices.Sorted(maps.Keys(o.Takes)) {
		s.Takes[name] = driver.Argument{Description: o.Takes[name].Description, Required: o.Takes[name].Required}
	}
	s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) { return i.execute(ctx, t, o, f) }
	return s
}

// knownDisks is what the node's last inspection found of disks, for the agent to compare with what it
// finds. It says nothing once this work has touched the machine's RAID.
func knownDisks(t *driver.Task) (known []agentapi.KnownDisk, err error) {
	if len(t.Node.Disks) == 0 || volumesChanged(t) {
		return nil, nil
	}
	if err := json.Unmarshal(t.Node.Disks, &known); err != nil {
		return nil, fmt.Errorf("node %s: the disks of its last inspection cannot be read: %w; inspect it again", t.Node.Label(), err)
	}
	return known, nil
}

// volumesChanged reports whether this work has touched the machine's RAID. The agent is told, so that it misses no volume that was deleted.
func volumesChanged(t *driver.Task) bool { return t.Facts[driver.FactRAID] != "" }

// fieldDrive of instance_info says to racks no more than that the node keeps a config drive (driver.Task has it).
const fieldDrive = "configdrive"

// params describe the node to a step: no driver_info, which holds the BMC's
// password.
func params(n *node.Document, known []agentapi.KnownDisk, wanted map[string]any) agentapi.StepParams {
	info := map[string]any{}
	maps.Copy(info, n.InstanceInfo)
	delete(info, fieldDrive)
	p := agentapi.StepParams{Ports: []any{}, Step: wanted, Node: map[string]any{
		"uuid": n.UUID, "name": n.Name, "properties": n.Properties, "instance_info": info,
		"driver_internal_info": map[string]any{}, "provision_state": string(n.State),
	}}
	if known != nil { // an empty list says that the machine has no disk
		p.Node[agentapi.StepKnownDisks] = known
	}
	for _, port := range n.Ports {
		p.Ports = append(p.Ports, port)
	}
	return p
}
