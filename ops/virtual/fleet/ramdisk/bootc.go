package ramdisk

import (
	"context"
	"encoding/json"

	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// bootcStep is the step of ironic-python-agent that installs a container.
const bootcStep = "execute_bootc_install"

// withBootc adds the step to those that an agent offers, as ironic-python-agent describes it.
func withBootc(told any) (any, error) {
	raw, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	var answer map[string]map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	required := func(what string) map[string]any { return map[string]any{"description": what, "required": true} }
	steps, _ := answer["deploy_steps"][agentapi.StepManager].([]any)
	answer["deploy_steps"][agentapi.StepManager] = append(steps, map[string]any{"step": bootcStep, "priority": 0, "interface": "deploy", "reboot_requested": false,
		"argsinfo": map[string]any{"image_source": required("The container."), "configdrive": required("The config drive."), "oci_pull_secret": required("The account.")}})
	return answer, nil
}

// bootc installs a container, which writes the disk by itself. Its address stands for what it holds.
func (r *run) bootc(ctx context.Context, by disk.By, args json.RawMessage) (any, error) {
	var p struct {
		Source string `json:"image_source"`
	}
	if err := decode(args, &p); err != nil {
		return nil, err
	}
	if p.Source == "" {
		return nil, &deploy.ParamError{Reason: "the step names no image_source"}
	}
	return nil, r.Disk.Write(ctx, by, p.Source, func() error { return r.Pace.Sleep(ctx, r.Pace.Write) })
}
