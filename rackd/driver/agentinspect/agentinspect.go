// Package agentinspect is the inspect interface "agent": the ramdisk's agent
// reports what the machine is made of.
//
// It may import rackd/driver, rackd/driver/bringup and protocol. What the agent
// reports is data of a machine that may be anybody's: it is bounded here and
// interpreted by central.
package agentinspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// maxInventory bounds an inventory, in bytes of JSON: it travels in one event.
const maxInventory = 512 << 10

// Interface implements driver.Inspect. Immutable, safe for concurrent use.
type Interface struct{ set bringup.Settings }

// New returns the interface.
func New(s bringup.Settings) Interface { return Interface{s} }

// Properties is empty: nothing of the node is read.
func (Interface) Properties() map[string]string { return nil }

// Validate accepts every node: nothing of it is read here.
func (Interface) Validate(*node.Document) error { return nil }

// ValidateWith asks for a boot interface that can boot the ramdisk, as Ironic does by default. An inspection is refused without one in any
// case, for its first step boots: here validate says so before.
func (Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	return h.Validate("boot", n)
}

// InspectSteps boot the ramdisk, take the inventory and switch the machine off.
func (i Interface) InspectSteps(*node.Document) []driver.Step {
	step := func(name string, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "inspect", Name: name, Kind: kind, Retries: 4, Pause: 5 * time.Second, Run: run}
	}
	boot := step("boot_ramdisk", driver.Reattachable, i.bootRamdisk)
	boot.Boots = true
	return []driver.Step{
		boot,
		step("take_inventory", driver.Repeatable, takeInventory),
		step("power_off", driver.Repeatable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if err := i.set.Off(ctx, t); err != nil {
				return driver.Outcome{}, err
			}
			return driver.Done(), t.Hardware.Boot().CleanUpRamdisk(ctx, t)
		}),
	}
}

// factSent says that the ramdisk has sent its inventory of its own accord.
const factSent = "inventory_sent"

// bootRamdisk boots the ramdisk until its agent calls, or sends what it has found
// without being asked, as ramdisks do that know where inspection data goes.
func (i Interface) bootRamdisk(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if t.Inspected != nil {
		if inv := t.Inspected(); inv != nil {
			t.Facts[factSent] = "yes"
			keep(t, *inv)
			return driver.Done(), nil
		}
	}
	return i.set.Ramdisk(ctx, t)
}

func takeInventory(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if t.Facts[factSent] != "" {
		return driver.Done(), nil
	}
	cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/inventory", agentapi.CmdGetInventory, struct{}{})
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: ask the agent for the inventory: %w", t.Node.Label(), err)
	}
	inv, err := parse(cmd.Result)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the agent's inventory: %w", t.Node.Label(), err)
	}
	keep(t, inv)
	return driver.Done(), nil
}

func keep(t *driver.Task, inv agentapi.Inventory) {
	t.Record.Inventory(inv)
	t.Record.Phase("inventory", fmt.Sprintf("%d CPUs, %d MiB, %d disks, %d NICs", inv.CPU.Count, inv.Memory.PhysicalMB, len(inv.Disks), len(inv.Interfaces)))
}

// parse reads an inventory, bare or under the key "inventory".
func parse(raw json.RawMessage) (inv agentapi.Inventory, err error) {
	if len(raw) > maxInventory {
		return inv, fmt.Errorf("it takes %d bytes, more than %d", len(raw), maxInventory)
	}
	var wrapped struct {
		Inventory json.RawMessage `json:"inventory"`
	}
	if err := json.Unmarshal(raw, &wrapped); err != nil {
		return inv, fmt.Errorf("it cannot be read: %w", err)
	}
	if len(wrapped.Inventory) > 0 && !bytes.Equal(wrapped.Inventory, []byte("null")) {
		raw = wrapped.Inventory
	}
	if err := inv.Read(raw, nil); err != nil {
		return inv, fmt.Errorf("it cannot be read: %w", err)
	}
	if inv.CPU.Count == 0 && len(inv.Interfaces) == 0 && len(inv.Disks) == 0 {
		return inv, fmt.Errorf("it holds neither a CPU nor a NIC nor a disk")
	}
	return inv, nil
}
