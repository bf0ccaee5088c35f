// Package commands holds the commands that a rackd can give the agent: each in a
// file of its own, and one line in All.
//
// It may import protocol/agentapi, agent/command and the packages that do the
// work. A command decodes its parameters, does one thing, and returns something
// that becomes JSON.
package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Power ends the machine's run; neither returns on a real machine unless it fails.
type Power interface {
	Reboot(ctx context.Context) error
	PowerOff(ctx context.Context) error
}

// Deps is what the commands work with.
type Deps struct {
	Log      *slog.Logger
	Deployer *deploy.Deployer
	Power    Power
	// Inventory waits until the machine shows its disks.
	Inventory func(context.Context) (agentapi.Inventory, error)
	Logs      func() []byte
	// Rescue is nil outside the ramdisk, where no user may log in.
	Rescue Rescue
}

// All lists the commands there are.
func All(d Deps) []command.Spec {
	specs := []command.Spec{
		prepareImage(d),
		runImage(d),
		powerOff(d),
		syncDisks(d),
		getPartitionUUIDs(d),
		installBootloader(d),
		getDeploySteps(d),
		executeDeployStep(d),
		getCleanSteps(d),
		executeCleanStep(d),
		getServiceSteps(d),
		executeServiceStep(d),
		getHardwareInfo(d),
		collectSystemLogs(d),
		finalizeRescue(d),
		startISCSI(d),
		finishISCSI(d),
		stopISCSI(d),
	}
	for i, s := range specs {
		if !leavesTarget[s.Name] {
			specs[i] = alone(d, s)
		}
	}
	return specs
}

// decode reads parameters; none at all count as an empty object.
func decode(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &deploy.ParamError{Reason: "the command's params cannot be read: " + err.Error()}
	}
	return nil
}
