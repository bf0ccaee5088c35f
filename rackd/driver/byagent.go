package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Can reports whether the power interface knows a target. Where it does not know PowerOff, nothing but the machine's agent can
// end what the machine runs, and nothing tells its power state.
func (h *Hardware) Can(target PowerState) bool {
	return slices.Contains(h.Power().PowerTargets(), target)
}

// StaysOn reports whether flows leave the machine's power on: the node's disable_power_off says so, or nothing can
// switch it off.
func (t *Task) StaysOn() bool { return t.Node.DisablePowerOff || !t.Hardware.Can(PowerOff) }

// ByAgent has the agent end what the machine runs: agentapi.CmdPowerOff switches it off, agentapi.CmdRunImage reboots it.
// there is false where no agent answers; then nothing was sent.
func (t *Task) ByAgent(ctx context.Context, command string) (there bool, err error) {
	if t.Agent == nil {
		return false, nil
	}
	if _, err := t.Agent.Commands(ctx); errors.Is(err, ErrUnreachable) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("node %s: ask its agent before %s: %w", t.Node.Label(), command, err)
	}
	if _, err := t.Agent.Start(ctx, t.Fence, t.WorkID+"/"+command, command, struct{}{}); err != nil && !errors.Is(err, ErrUnreachable) {
		return true, fmt.Errorf("node %s: its agent was asked for %s: %w", t.Node.Label(), command, err)
	}
	return true, nil // an agent that went silent meanwhile has begun to obey
}

// ByHand is what a person has to do where nothing else switches the machine on.
const ByHand = "by hand: nothing here can switch this machine on. Switch it on, or restart it, so that it boots from the network"

// Unswitched is why a machine is not switched off, for its history.
func (t *Task) Unswitched() string {
	return fmt.Sprintf("not possible: the power interface %s cannot switch a machine off, and no agent answers. What it runs goes on; switch it off by hand if it must not",
		t.Hardware.Kinds()["power"].Name)
}
