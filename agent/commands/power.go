package commands

import (
	"context"
	"errors"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/halt"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// runImage starts the written instance. The answer is out before the machine goes
// down: Power waits a moment.
func runImage(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdRunImage, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		halt.Sync(d.Log)
		return "rebooting into the written image", d.Power.Reboot(ctx)
	}}
}

func powerOff(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdPowerOff, Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
		halt.Sync(d.Log)
		return "powering off", d.Power.PowerOff(ctx)
	}}
}

func syncDisks(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdSync, Run: func(context.Context, command.Call) (any, error) {
		if !halt.Sync(d.Log) {
			return nil, errors.New("a disk hangs: it does not accept the data that is still to be written. Look at the kernel's log on the machine's console")
		}
		return "everything written is on the disks", nil
	}}
}
