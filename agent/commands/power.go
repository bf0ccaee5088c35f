package commands

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// runImage starts the written instance. The answer is out before the machine goes
// down: Power waits a moment.
func runImage(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdRunImage, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		unix.Sync()
		return "rebooting into the written image", d.Power.Reboot(ctx)
	}}
}

func powerOff(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdPowerOff, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		unix.Sync()
		return "powering off", d.Power.PowerOff(ctx)
	}}
}

func syncDisks(Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdSync, Run: func(context.Context, command.Call) (any, error) {
		unix.Sync()
		return "everything written is on the disks", nil
	}}
}
