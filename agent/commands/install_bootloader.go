package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func installBootloader(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdInstallBoot, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p struct {
			RootUUID     string `json:"root_uuid"`
			BootMode     string `json:"target_boot_mode"`
			NetworkFirst bool   `json:"ironyard_network_first"`
		}
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		return d.Deployer.InstallBootEntry(ctx, p.RootUUID, efiboot.Place(p.NetworkFirst), p.BootMode == "uefi")
	}}
}
