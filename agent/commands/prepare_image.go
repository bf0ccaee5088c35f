package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func prepareImage(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdPrepareImage, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p agentapi.PrepareImageParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		return d.Deployer.Prepare(ctx, p, c.Report)
	}}
}
