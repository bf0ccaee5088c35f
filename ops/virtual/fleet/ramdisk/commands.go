package ramdisk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/commands"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/shacrypt"
)

// simulated are the commands that would touch a machine. Those that only tell
// something are the agent's own.
var simulated = map[string]func(r *run, ctx context.Context, by disk.By, c command.Call) (any, error){
	agentapi.CmdPrepareImage:    (*run).prepareImage,
	agentapi.CmdExecDeployStep:  (*run).deployStep,
	agentapi.CmdExecCleanStep:   (*run).cleanStep,
	agentapi.CmdExecServiceStep: (*run).serviceStep,
	agentapi.CmdInstallBoot:     (*run).installBoot,
	agentapi.CmdSync:            (*run).sync,
	agentapi.CmdRunImage: func(r *run, _ context.Context, _ disk.By, _ command.Call) (any, error) {
		return "rebooting into the written image", r.end(Reboot)
	},
	agentapi.CmdPowerOff: func(r *run, _ context.Context, _ disk.By, _ command.Call) (any, error) {
		return "powering off", r.end(PowerOff)
	},
	agentapi.CmdFinalizeRescue: (*run).rescue,
	agentapi.CmdStartISCSI:     (*run).startISCSI,
	agentapi.CmdFinishISCSI:    (*run).finishISCSI,
	agentapi.CmdStopISCSI:      (*run).stopISCSI,
	agentapi.CmdCollectLogs: func(*run, context.Context, disk.By, command.Call) (any, error) {
		return map[string]string{"system_logs": ""}, nil
	},
}

// telling are the agent's own commands that only tell something.
var telling = map[string]bool{agentapi.CmdGetDeploySteps: true, agentapi.CmdGetCleanSteps: true, agentapi.CmdGetServiceSteps: true, agentapi.CmdGetInventory: true}

// lacking are the commands that a simulated machine refuses, with the reason.
var lacking = map[string]string{
	agentapi.CmdPartitionUUIDs: "it tells the partitions when it has written the image",
}

// specs are the agent's commands as its registry lists them.
func (r *run) specs() []command.Spec {
	list := commands.All(commands.Deps{Log: r.Log, Inventory: func(context.Context) (agentapi.Inventory, error) { return r.Inventory, nil }})
	for i := range list {
		spec := &list[i]
		act, ok := simulated[spec.Name]
		own := spec.Run
		spec.Run = func(ctx context.Context, c command.Call) (result any, err error) {
			work, _, _ := strings.Cut(c.ID, "/") // rackd's ids are WORK/what
			by := disk.By{Boot: r.boot, Work: work, Command: c.ID}
			r.note(journal.CommandBegun, by, spec.Name)
			switch {
			case ok:
				result, err = act(r, ctx, by, c)
			case telling[spec.Name]:
				if result, err = own(ctx, c); err == nil && spec.Name == agentapi.CmdGetDeploySteps && r.Podman {
					result, err = withBootc(result)
				}
			case lacking[spec.Name] != "":
				err = errors.New("this machine is simulated and refuses " + spec.Name + ": " + lacking[spec.Name])
			default:
				err = errors.New("this machine is simulated and does not know " + spec.Name)
			}
			if ctx.Err() == nil {
				outcome := "succeeded"
				if err != nil {
					outcome = err.Error()
				}
				r.note(journal.CommandEnded, by, spec.Name+": "+outcome)
			}
			return result, err
		}
	}
	return list
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return &deploy.ParamError{Reason: "the command's params cannot be read: " + err.Error()}
	}
	return nil
}

func (r *run) prepareImage(ctx context.Context, by disk.By, c command.Call) (any, error) {
	var p agentapi.PrepareImageParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	return r.write(ctx, by, p.ImageInfo, c.Report)
}

// write brings the image to the disk as fast as the machine's pace allows.
func (r *run) write(ctx context.Context, by disk.By, info agentapi.ImageInfo, report func(agentapi.Progress)) (any, error) {
	r.takeBack()
	if err := r.refusesParts(info.Partitions, 0); err != nil {
		return nil, err
	}
	began := time.Now()
	var last agentapi.Progress
	r.begins(by, info.HashValue, info.Partitions)
	err := r.Disk.End(ctx, by, info.HashValue, r.transfer(ctx, info, func(done, total int64) {
		s := max(time.Since(began).Seconds(), 0.001)
		last = agentapi.Progress{DoneBytes: done, TotalBytes: total, Seconds: s, MBPerSec: float64(done) / 1e6 / s}
		report(last)
	}))
	if err != nil {
		return nil, err
	}
	result := agentapi.PrepareImageResult{RootDevice: r.Inventory.Disks[0].Name, Written: last}
	if info.Partitions != nil {
		r.partitioned(info.Partitions, &result)
	}
	return result, nil
}

func (r *run) deployStep(ctx context.Context, by disk.By, c command.Call) (any, error) {
	return r.step(c, "deploy", func(name string, args json.RawMessage) (any, error) {
		switch name {
		case "write_image":
			var p agentapi.PrepareImageParams
			if err := decode(args, &p); err != nil {
				return nil, err
			}
			return r.write(ctx, by, p.ImageInfo, c.Report)
		case "erase_devices_metadata":
			return nil, r.erase(ctx, by)
		case bootcStep:
			if r.Podman {
				return r.bootc(ctx, by, args)
			}
		}
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("this agent has no deploy step %q", name)}
	})
}

func (r *run) cleanStep(ctx context.Context, by disk.By, c command.Call) (any, error) {
	return r.step(c, "clean", func(name string, args json.RawMessage) (any, error) {
		switch name {
		case agentapi.StepExportVolume:
			return r.exportVolume(ctx, args)
		case "erase_devices_metadata", "erase_devices":
			return nil, r.erase(ctx, by)
		}
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("this agent has no clean step %q", name)}
	})
}

func (r *run) serviceStep(ctx context.Context, by disk.By, c command.Call) (any, error) {
	return r.step(c, "service", func(name string, args json.RawMessage) (any, error) {
		switch name {
		case agentapi.StepExportVolume:
			return r.exportVolume(ctx, args)
		case "write_image":
		default:
			return nil, &deploy.ParamError{Reason: fmt.Sprintf("this agent has no service step %q", name)}
		}
		var p agentapi.PrepareImageParams
		if err := decode(args, &p); err != nil {
			return nil, err
		}
		return r.write(ctx, by, p.ImageInfo, c.Report)
	})
}

// step runs a step and answers in the form of ironic-python-agent.
func (r *run) step(c command.Call, kind string, do func(name string, args json.RawMessage) (any, error)) (any, error) {
	var p agentapi.StepParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	args, err := json.Marshal(p.Step["args"])
	if err != nil {
		return nil, err
	}
	name, _ := p.Step["step"].(string)
	result, err := do(name, args)
	if err != nil {
		return nil, err
	}
	return map[string]any{kind + "_result": result, kind + "_step": p.Step}, nil
}

func (r *run) erase(ctx context.Context, by disk.By) error {
	r.takeBack()
	return r.Disk.Erase(ctx, by, func() error {
		if err := r.Pace.Sleep(ctx, r.Pace.Step); err != nil {
			return err
		}
		return r.Faults.Erase()
	})
}

func (r *run) installBoot(ctx context.Context, _ disk.By, c command.Call) (any, error) {
	if content, _ := r.Disk.Holds(); content != disk.Image {
		return nil, &deploy.ParamError{Reason: "no image was written since the agent started: run standby.prepare_image first"}
	}
	var p struct {
		RootUUID string `json:"root_uuid"`
	}
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	if r.rootUUID != "" && p.RootUUID != r.rootUUID {
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("the disk's root file system is %s, and not %q", r.rootUUID, p.RootUUID)}
	}
	return "boot entry made", r.Pace.Sleep(ctx, r.Pace.Step)
}

func (r *run) sync(ctx context.Context, _ disk.By, _ command.Call) (any, error) {
	return "everything written is on the disks", r.Pace.Sleep(ctx, r.Pace.Step/4)
}

// rescue serves no SSH: it answers as the real agent does, which goes on answering for a while.
func (r *run) rescue(ctx context.Context, _ disk.By, c command.Call) (any, error) {
	var p agentapi.FinalizeRescueParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	if err := shacrypt.Check(p.Password); err != nil || !p.Hashed {
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("the password is not hashed: %v", err)}
	}
	return agentapi.FinalizeRescueResult{SSH: []string{r.Listen.Addr().String() + ":22"}, HostKey: "SHA256:simulated"}, r.Pace.Sleep(ctx, r.Pace.Step)
}
