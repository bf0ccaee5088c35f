package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func getPartitionUUIDs(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdPartitionUUIDs, Run: func(context.Context, command.Call) (any, error) {
		return d.Deployer.PartitionUUIDs(), nil
	}}
}
