package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func getHardwareInfo(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdGetInventory, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		return d.Inventory(ctx)
	}}
}
