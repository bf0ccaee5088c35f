package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// manager and version are what ironic-python-agent calls a hardware manager: who
// offers the steps.
const (
	manager = "IronyardAgent"
	version = "1"
)

// step describes a step as Ironic's conductor expects it.
type step struct {
	Step            string `json:"step"`
	Priority        int    `json:"priority"`
	Interface       string `json:"interface"`
	RebootRequested bool   `json:"reboot_requested"`
	Abortable       bool   `json:"abortable"`
	run             func(context.Context, Deps, agentapi.StepParams, command.Call) (any, error)
}

var deploySteps = []step{
	{Step: "write_image", Interface: "deploy", run: writeImage},
	{Step: "erase_devices_metadata", Interface: "deploy", run: eraseMetadata},
}

var cleanSteps = []step{
	{Step: "erase_devices_metadata", Priority: 99, Interface: "deploy", Abortable: true, run: eraseMetadata},
	{Step: "erase_devices", Priority: 10, Interface: "deploy", Abortable: true, run: erase},
}

func getDeploySteps(d Deps) command.Spec {
	return list(agentapi.CmdGetDeploySteps, "deploy_steps", deploySteps)
}

func getCleanSteps(d Deps) command.Spec {
	return list(agentapi.CmdGetCleanSteps, "clean_steps", cleanSteps)
}

func executeDeployStep(d Deps) command.Spec {
	return execute(d, agentapi.CmdExecDeployStep, "deploy", deploySteps)
}

func executeCleanStep(d Deps) command.Spec {
	return execute(d, agentapi.CmdExecCleanStep, "clean", cleanSteps)
}

func list(name, key string, steps []step) command.Spec {
	return command.Spec{Name: name, Run: func(context.Context, command.Call) (any, error) {
		return map[string]any{
			key:                        map[string][]step{manager: steps},
			"hardware_manager_version": map[string]string{manager: version},
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
			return map[string]any{kind + "_result": result, kind + "_step": p.Step}, nil
		}
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("this agent has no %s step %q", kind, wanted)}
	}}
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
	return d.Deployer.Prepare(ctx, params, c.Report)
}

func eraseMetadata(ctx context.Context, d Deps, _ agentapi.StepParams, _ command.Call) (any, error) {
	return nil, d.Deployer.EraseMetadata(ctx)
}

func erase(ctx context.Context, d Deps, _ agentapi.StepParams, c command.Call) (any, error) {
	return nil, d.Deployer.Erase(ctx, c.Report)
}
