package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func installBootloader(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdInstallBoot, Async: true, Run: func(context.Context, command.Call) (any, error) {
		return d.Deployer.InstallBootEntry()
	}}
}
