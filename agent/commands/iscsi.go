package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// startISCSI waits for the machine's disks, so that it takes its time; ironic-python-agent's answers with its end.
func startISCSI(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdStartISCSI, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p agentapi.StartISCSIParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		return d.Deployer.Export(ctx, p, c.From)
	}}
}

func finishISCSI(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdFinishISCSI, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p agentapi.FinishISCSIParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		return d.Deployer.Finish(ctx, p)
	}}
}

func stopISCSI(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdStopISCSI, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p agentapi.StopISCSIParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		return "no disk is exported", d.Deployer.StopExport(ctx, p.Disk)
	}}
}

// leavesTarget are the commands during which an iSCSI target may stay. All others may write to disks or end the ramdisk.
var leavesTarget = map[string]bool{
	agentapi.CmdStartISCSI: true, agentapi.CmdFinishISCSI: true, agentapi.CmdStopISCSI: true, agentapi.CmdGetDeploySteps: true, agentapi.CmdGetCleanSteps: true,
	agentapi.CmdGetServiceSteps: true, agentapi.CmdGetInventory: true, agentapi.CmdCollectLogs: true,
}

// alone ends a target before a command.
func alone(d Deps, s command.Spec) command.Spec {
	run := s.Run
	s.Run = func(ctx context.Context, c command.Call) (any, error) {
		if err := d.Deployer.StopExport(ctx, ""); err != nil {
			return nil, err
		}
		return run(ctx, c)
	}
	return s
}
