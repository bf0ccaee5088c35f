package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/wallclock"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/protocol/bus"
)

// repair undoes a fault.
type repair func(ctx context.Context) error

// inflict does what f says and returns how to undo it, nil if that is not needed.
func inflict(ctx context.Context, t *topology.Topology, f Fault) (repair, error) {
	switch f.Kind {
	case KillCentral, StopCentral:
		return end(t.Central[f.Which].Process, f.Kind == KillCentral)
	case KillHub:
		return end(t.Hub.Servers[f.Which].Process, true)
	case PauseHub:
		return pause(t.Hub.Servers[f.Which].Process)
	case KillDB, StopDB:
		return end(t.Database.Process, f.Kind == KillDB)
	case UnplugDB:
		return unplug(t.Database.Host())
	}
	s := t.Sites[f.Site]
	switch f.Kind {
	case KillRackd, StopRackd, PauseRackd, UnplugRackd, BlockRackd, StepRackd:
		return inflictRackd(s, s.Rackds[f.Which], f)
	case KillServer:
		return end(s.Bus.Servers[f.Which].Process, true)
	case KillServers:
		return killTwo(s, f.Which)
	case PauseServer:
		return pause(s.Bus.Servers[f.Which].Process)
	case WipeServer:
		return wipe(s.Bus.Servers[f.Which])
	case PurgeWork, PurgeNodes, DropWork, DropNodes:
		return nil, lose(ctx, s, f.Kind)
	case CutWAN:
		return func(context.Context) error { return s.WAN.Join() }, s.WAN.Cut()
	case SlowWAN:
		delay := time.Duration(f.Amount) * time.Millisecond
		s.WAN.Set(network.Trouble{Delay: delay, Jitter: delay / 2, Loss: 0.02})
		return func(context.Context) error { s.WAN.Set(network.Trouble{}); return nil }, nil
	}
	return inflictMachine(ctx, s.Machines.Client, f)
}

func inflictRackd(s *topology.Site, r *topology.Rackd, f Fault) (repair, error) {
	switch f.Kind {
	case KillRackd, StopRackd:
		return end(r.Process, f.Kind == KillRackd)
	case PauseRackd:
		return pause(r.Process)
	case UnplugRackd:
		return unplug(r.Host())
	case BlockRackd:
		servers := s.Bus.Hosts()
		return func(context.Context) error { return r.Host().Unblock(servers...) }, r.Host().Block(servers...)
	}
	pid := r.PID()
	return func(context.Context) error {
		if r.PID() != pid {
			return nil // it ended by itself; its successor reads the right clock
		}
		return wallclock.Step(pid, 0)
	}, wallclock.Step(pid, time.Duration(f.Amount)*time.Second)
}

// end ends a daemon and starts it again as repair.
func end(p *process.Process, kill bool) (repair, error) {
	again := func(context.Context) error { return p.Start() }
	if kill {
		p.Kill()
		return again, nil
	}
	return again, p.Stop()
}

// pause stops a daemon in the middle of whatever it does.
func pause(p *process.Process) (repair, error) {
	return func(context.Context) error { return p.Signal(syscall.SIGCONT) }, p.Signal(syscall.SIGSTOP)
}

// unplug makes a host unreachable, and no connection know of it.
func unplug(h *network.Host) (repair, error) {
	return func(context.Context) error { return h.Plug() }, h.Unplug()
}

func killTwo(s *topology.Site, first int) (repair, error) {
	a, b := s.Bus.Servers[first], s.Bus.Servers[(first+1)%len(s.Bus.Servers)]
	a.Kill()
	b.Kill()
	return func(context.Context) error { return errors.Join(a.Start(), b.Start()) }, nil
}

func wipe(s *topology.Server) (repair, error) {
	s.Kill()
	return func(context.Context) error { return s.Start() }, s.Wipe()
}

// lose makes a bucket lose all it has, or itself.
func lose(ctx context.Context, s *topology.Site, k Kind) error {
	name := "KV_" + bus.NodesBucket
	if k == PurgeWork || k == DropWork {
		name = "KV_" + bus.WorkBucket
	}
	return s.JetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		if k == DropWork || k == DropNodes {
			return js.DeleteStream(ctx, name)
		}
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		return stream.Purge(ctx)
	})
}

func inflictMachine(ctx context.Context, c *control.Client, f Fault) (repair, error) {
	machines, err := c.Machines(ctx)
	if err != nil {
		return nil, err
	}
	name := machines[f.Which].Name
	if f.Kind == Glitch {
		return nil, c.Glitch(ctx, name)
	}
	on, off := true, false
	var ill, well control.Faults
	switch f.Kind {
	case HangBMC:
		ill.BMCHang, well.BMCHang = &on, &off
	case RefuseBMC:
		ill.BMCRefuse, well.BMCRefuse = &on, &off
	case FailBMC:
		ill.BMCErrors = &f.Amount
	case Isolate:
		ill.Isolate, well.Isolate = &on, &off
	case FailDisk:
		once := 1
		ill.FailWrites = &once
	default:
		return nil, fmt.Errorf("fault of unknown kind %q", f.Kind)
	}
	return func(ctx context.Context) error { return c.SetFaults(ctx, name, well) }, c.SetFaults(ctx, name, ill)
}
