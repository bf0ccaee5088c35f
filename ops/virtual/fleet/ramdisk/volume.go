package ramdisk

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// minVolumeSecret and maxVolumeSecret bound a secret that firmware takes, as the real agent says.
const minVolumeSecret, maxVolumeSecret = 12, 16

// exportVolume makes the disk a volume of another machine, by a target of its own.
func (r *run) exportVolume(ctx context.Context, args json.RawMessage) (any, error) {
	var p agentapi.ExportVolumeArgs
	if err := decode(args, &p); err != nil {
		return nil, err
	}
	switch n := len(p.Secret); {
	case r.Scratch == "":
		return nil, &deploy.ParamError{Reason: "this machine is simulated and exports no disk"}
	case n < minVolumeSecret || n > maxVolumeSecret:
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("auth_password has %d characters: give %d to %d", n, minVolumeSecret, maxVolumeSecret)}
	case p.IQN == "" || p.TargetUser != "":
		return nil, &deploy.ParamError{Reason: "this machine is simulated: give target_iqn, and no mutual_auth_username"}
	}
	r.takeBack()
	target, err := r.export(ctx, agentapi.StartISCSIParams{IQN: p.IQN, Initiator: p.Initiator, User: p.User, Secret: p.Secret})
	if err != nil {
		return nil, err
	}
	r.lent = target
	r.volume.Store(&p.IQN)
	disk := r.Inventory.Disks[0]
	return agentapi.ExportedVolume{Portal: net.JoinHostPort(r.Listen.Addr().String(), strconv.Itoa(target.port)), IQN: p.IQN, LUN: 1, Disk: disk.Name, Bytes: int64(disk.Size)}, nil
}

// takeBack ends the volume of another machine: each command that has to do with disks does, and the agent's end.
func (r *run) takeBack() {
	r.lent.kill()
	r.lent = nil
	r.volume.Store(nil)
}
