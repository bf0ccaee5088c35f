package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// version is that of the hardware manager, which is what ironic-python-agent calls the part that offers steps.
const version = "1"

// step describes a step as Ironic's conductor expects it.
type step struct {
	Step            string `json:"step"`
	Priority        int    `json:"priority"`
	Interface       string `json:"interface"`
	RebootRequested bool   `json:"reboot_requested"`
	Abortable       bool   `json:"abortable"`
	// Repeatable: an agent that has started again in the middle of the step may begin it again.
	Repeatable bool `json:"ironyard_repeatable"`
	// Takes are the arguments, by name.
	Takes map[string]argument `json:"argsinfo,omitempty"`
	// secrets are arguments that no answer repeats.
	secrets []string
	run     func(context.Context, Deps, agentapi.StepParams, command.Call) (any, error)
}

type argument struct {
	Description string `json:"description"`
	Required    bool   `json:"required"`
	// Kind is one of agentapi's: a rack refuses values of others before the first step runs.
	Kind agentapi.ArgumentKind `json:"ironyard_kind,omitempty"`
}

// image are the arguments of steps that write one.
var image = map[string]argument{
	"image_info":  {"What to write and where from, as standby.prepare_image takes it.", true, agentapi.ArgumentObject},
	"configdrive": {"The config drive: base64 of a gzipped image.", false, agentapi.ArgumentText},
}

var deploySteps = []step{
	{Step: "write_image", Interface: "deploy", Repeatable: true, Takes: image, run: writeImage},
	{Step: "erase_devices_metadata", Interface: "deploy", Repeatable: true, run: eraseMetadata},
	exportVolume,
}

var cleanSteps = []step{
	{Step: "erase_devices_metadata", Priority: 99, Interface: "deploy", Abortable: true, Repeatable: true, run: eraseMetadata},
	{Step: "erase_devices", Priority: 10, Interface: "deploy", Abortable: true, Repeatable: true, run: erase},
	exportVolume,
}

var serviceSteps = []step{
	{Step: "write_image", Interface: "deploy", Repeatable: true, Takes: image, run: writeImage},
	exportVolume,
}

func getServiceSteps(d Deps) command.Spec {
	return list(agentapi.CmdGetServiceSteps, "service_steps", serviceSteps)
}

func executeServiceStep(d Deps) command.Spec {
	return execute(d, agentapi.CmdExecServiceStep, "service", serviceSteps)
}

func getDeploySteps(d Deps) command.Spec {
	return list(agentapi.CmdGetDeploySteps, "deploy_steps", ofDeploys(d))
}

func getCleanSteps(d Deps) command.Spec {
	return list(agentapi.CmdGetCleanSteps, "clean_steps", cleanSteps)
}

func executeDeployStep(d Deps) command.Spec {
	return execute(d, agentapi.CmdExecDeployStep, "deploy", ofDeploys(d))
}

func executeCleanStep(d Deps) command.Spec {
	return execute(d, agentapi.CmdExecCleanStep, "clean", cleanSteps)
}

func list(name, key string, steps []step) command.Spec {
	return command.Spec{Name: name, Run: func(context.Context, command.Call) (any, error) {
		return map[string]any{
			key:                        map[string][]step{agentapi.StepManager: steps},
			"hardware_manager_version": map[string]string{agentapi.StepManager: version},
		}, nil
	}}
}

func execute(d Deps, name, kind string, steps []step) command.Spec {
	return command.Spec{Name: name, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p agentapi.StepParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		wanted, _ := p.Step["step"].(string)
		for _, s := range steps {
			if s.Step != wanted {
				continue
			}
			result, err := s.run(ctx, d, p, c)
			if err != nil {
				return nil, err
			}
			return map[string]any{kind + "_result": result, kind + "_step": s.shown(p.Step)}, nil
		}
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("this agent has no %s step %q", kind, wanted)}
	}}
}

// shown is an order to run the step, without its secrets.
func (s step) shown(order map[string]any) map[string]any {
	args, given := order["args"].(map[string]any)
	if !given || len(s.secrets) == 0 {
		return order
	}
	order, args = maps.Clone(order), maps.Clone(args)
	for _, name := range s.secrets {
		delete(args, name)
	}
	order["args"] = args
	return order
}

// writeImage is prepare_image as a step: its arguments are the command's params.
func writeImage(ctx context.Context, d Deps, p agentapi.StepParams, c command.Call) (any, error) {
	raw, err := json.Marshal(p.Step["args"])
	if err != nil {
		return nil, err
	}
	var params agentapi.PrepareImageParams
	if err := decode(raw, &params); err != nil {
		return nil, err
	}
	params.ImageInfo.SkipBlockDevices = skipped(p)
	params.ImageInfo.RootByInstance = true // a cleaning does not know the step's arguments
	if len(params.ImageInfo.RootDeviceHints) == 0 {
		if params.ImageInfo.RootDeviceHints, params.ImageInfo.RootByInstance, err = wanted(p); err != nil {
			return nil, err
		}
	}
	if params.ImageInfo.KnownDisks, err = known(p); err != nil {
		return nil, err
	}
	params.ImageInfo.VolumesChanged = volumesChanged(p)
	return d.Deployer.Prepare(ctx, params, c.Report)
}

func eraseMetadata(ctx context.Context, d Deps, p agentapi.StepParams, _ command.Call) (any, error) {
	if preserves(p) {
		return nil, &deploy.ParamError{Reason: "instance_info has preserve_ephemeral, and this deploy has the step erase_devices_metadata, which takes the partition that is to stay. Nothing was erased: leave out one of the two"}
	}
	s, err := rules(p)
	if err != nil {
		return nil, err
	}
	return nil, d.Deployer.EraseMetadata(ctx, s)
}

func erase(ctx context.Context, d Deps, p agentapi.StepParams, c command.Call) (any, error) {
	s, err := rules(p)
	if err != nil {
		return nil, err
	}
	return nil, d.Deployer.Erase(ctx, s, c.Report)
}

// rules are what the node's properties and its last inspection say of its disks.
func rules(p agentapi.StepParams) (s hints.Rules, err error) {
	s.VolumesChanged = volumesChanged(p)
	if s.Known, err = known(p); err != nil {
		return s, err
	}
	if s.Kept, err = hints.ParseKept(skipped(p)); err != nil {
		return s, &deploy.ParamError{Reason: err.Error()}
	}
	root, byInstance, err := wanted(p)
	if err != nil {
		return s, err
	}
	if s.Root, err = hints.Parse(root); err != nil {
		return s, &deploy.ParamError{Reason: err.Error()}
	}
	s.Root.ByInstance = byInstance
	return s, nil
}

// wanted are the hints of the node for its root device.
func wanted(p agentapi.StepParams) (raw map[string]any, byInstance bool, err error) {
	instance, _ := p.Node["instance_info"].(map[string]any)
	properties, _ := p.Node["properties"].(map[string]any)
	if raw, byInstance, err = hints.RootDevice(instance, properties); err != nil {
		return nil, false, &deploy.ParamError{Reason: err.Error()}
	}
	return raw, byInstance, nil
}

// preserves reports whether this is a deploy that is to keep a partition of the one before.
func preserves(p agentapi.StepParams) bool {
	state, _ := p.Node["provision_state"].(string)
	if strings.HasPrefix(state, "clean") { // what is left in the fields is of an instance that is gone
		return false
	}
	instance, _ := p.Node["instance_info"].(map[string]any)
	switch v := instance["preserve_ephemeral"].(type) {
	case bool:
		return v
	case string:
		return slices.Contains([]string{"1", "t", "true", "on", "y", "yes"}, strings.ToLower(strings.TrimSpace(v)))
	case float64:
		return v == 1
	}
	return false
}

// known is what the node's last inspection found of disks.
func known(p agentapi.StepParams) (disks []agentapi.KnownDisk, err error) {
	told, ok := p.Node[agentapi.StepKnownDisks]
	if !ok {
		return nil, nil
	}
	raw, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	return disks, decode(raw, &disks)
}

// volumesChanged reports whether the work has changed the machine's RAID.
func volumesChanged(p agentapi.StepParams) bool {
	changed, _ := p.Node[agentapi.StepVolumesChanged].(bool)
	return changed
}

// skipped are the hints of the node for the disks that are never written to.
func skipped(p agentapi.StepParams) any {
	properties, _ := p.Node["properties"].(map[string]any)
	return properties["skip_block_devices"]
}
