package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func getHardwareInfo(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdGetInventory, Run: func(context.Context, command.Call) (any, error) {
		return d.Inventory(), nil
	}}
}
