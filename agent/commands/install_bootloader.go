package commands

import (
	"context"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

func installBootloader(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdInstallBoot, Async: true, Run: func(ctx context.Context, c command.Call) (any, error) {
		var p struct {
			RootUUID     string `json:"root_uuid"`
			BootMode     string `json:"target_boot_mode"`
			NetworkFirst bool   `json:"ironyard_network_first"`
			// Skipped are hints for the disks that are never written to.
			Skipped any `json:"ironyard_skip_block_devices"`
		}
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		kept, err := hints.ParseKept(p.Skipped)
		if err != nil {
			return nil, &deploy.ParamError{Reason: err.Error()}
		}
		return d.Deployer.InstallBootEntry(ctx, p.RootUUID, kept, efiboot.Place(p.NetworkFirst), p.BootMode == "uefi")
	}}
}
