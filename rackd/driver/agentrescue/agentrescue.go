// Package agentrescue is the rescue interface "agent": the machine boots a ramdisk, whose agent sets the password of the
// user "rescue" and lets people in. Both our agent and ironic-python-agent can.
//
// It may import rackd/driver, rackd/driver/bringup and protocol. Invariants: the password leaves rackd hashed only; a medium of the
// ramdisk stays in its drive while the machine may run from it, and goes with whatever ends the rescue.
package agentrescue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/shacrypt"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// FieldPassword of instance_info is the password, with Ironic's name. Central seals it, and takes it away when the rescue ends.
const FieldPassword = "rescue_password"

// Settings of the interface.
type Settings struct {
	Bringup bringup.Settings
}

// Interface implements driver.Rescuer. Immutable, safe for concurrent use.
type Interface struct{ set Settings }

// New returns the interface.
func New(s Settings) Interface { return Interface{s} }

// Properties is empty: the boot interface reads which ramdisk it is.
func (Interface) Properties() map[string]string { return nil }

// InstanceFields names what is read of instance_info.
func (Interface) InstanceFields() []string { return []string{FieldPassword} }

// Validate asks for the password, which comes with the request. The words are Ironic's.
func (Interface) Validate(n *node.Document) error {
	password, there := n.InstanceInfo[FieldPassword].(string)
	switch {
	case !there:
		return driver.Refuse("Node %s is missing 'instance_info/rescue_password'. It is required for rescuing node.", n.UUID)
	case strings.TrimSpace(password) == "":
		return driver.Refuse("The 'instance_info/rescue_password' is an empty string for node %s. The 'rescue_password' must be a non-empty string value.", n.UUID)
	}
	return nil
}

// ValidateWith asks for a boot interface that can boot a ramdisk for rescues.
func (i Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if err := h.Validate("boot", n); err != nil {
		return err
	}
	b, can := h.Boot().(driver.RescueBooter)
	if !can {
		return driver.Unsupported(n, "boot", "validate_rescue")
	}
	return b.ValidateRescue(n)
}

func step(name string, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
	return driver.Step{Interface: "rescue", Name: name, Kind: kind, Retries: 4, Pause: 5 * time.Second, Run: run}
}

// RescueSteps boot the ramdisk and have its agent let the user in.
func (i Interface) RescueSteps(*node.Document) []driver.Step {
	boot := step("rescue", driver.Reattachable, i.boot)
	boot.Boots = true
	return []driver.Step{boot, step("finalize_rescue", driver.Repeatable, finalize)}
}

// UnrescueSteps switch the machine off, which ends all logins in the ramdisk, and start the instance.
func (i Interface) UnrescueSteps(*node.Document) []driver.Step {
	return []driver.Step{step("unrescue", driver.Repeatable, i.leave), step("boot_instance", driver.Reattachable, i.bootInstance)}
}

// boot boots the ramdisk. The task's node has the state of its work, by which boot interfaces know which ramdisk is meant.
func (i Interface) boot(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if t.Facts[driver.FactBoot] != driver.BootRamdisk {
		// No key of the firmware's has signed the ramdisk.
		if err := driver.SetSecureBoot(ctx, t, false); err != nil {
			return driver.Outcome{}, err
		}
	}
	booting, n := *t, *t.Node
	n.State = provision.Rescuing
	booting.Node = &n
	return i.set.Bringup.Ramdisk(ctx, &booting)
}

// finalize has the agent set the password. One that has begun already answers as before.
func finalize(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	password, _ := t.Node.InstanceInfo[FieldPassword].(string)
	if strings.TrimSpace(password) == "" {
		return driver.Outcome{}, fmt.Errorf("node %s: the password of its rescue is gone: ask for the rescue again: %w", t.Node.Label(), driver.ErrInvalid)
	}
	hash, err := shacrypt.Hash(password)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w: %w", t.Node.Label(), err, driver.ErrInvalid)
	}
	cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/finalize_rescue", agentapi.CmdFinalizeRescue, agentapi.FinalizeRescueParams{Password: hash, Hashed: true})
	if failed, refused := errors.AsType[*driver.FailedError](err); refused {
		// An agent that repeats what it was sent tells no hash here.
		failed.Text = strings.ReplaceAll(failed.Text, hash, "…")
	}
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: set the password of the user \"rescue\" in the ramdisk (ironic-python-agent 6.0 or newer can): %w", t.Node.Label(), err)
	}
	var told agentapi.FinalizeRescueResult
	if len(cmd.Result) > 0 {
		if err := json.Unmarshal(cmd.Result, &told); err != nil {
			told = agentapi.FinalizeRescueResult{} // ironic-python-agent tells nothing of use
		}
	}
	t.Record.Phase("rescue", describe(told))
	return driver.Done(), nil
}

// Bounds on what an agent tells of its SSH server, for a line of history.
const (
	maxAddresses = 8
	maxWord      = 100
)

// describe says where the user may log in, as the agent tells it.
func describe(told agentapi.FinalizeRescueResult) string {
	if len(told.SSH) == 0 || told.HostKey == "" {
		return "the ramdisk lets the user \"rescue\" in; its agent does not tell its SSH host key"
	}
	var at []string
	for _, a := range told.SSH[:min(len(told.SSH), maxAddresses)] {
		at = append(at, fmt.Sprintf("%.*s", maxWord, a))
	}
	return fmt.Sprintf("the ramdisk lets the user \"rescue\" in: SSH at %s, host key %.*s", strings.Join(at, ", "), maxWord, told.HostKey)
}

// leave takes the machine out of the ramdisk and makes it boot its instance from now on.
func (i Interface) leave(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if err := i.set.Bringup.Off(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	if err := t.Hardware.Boot().CleanUpRamdisk(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	if err := driver.SetSecureBoot(ctx, t, true); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Done(), t.Hardware.Boot().PrepareInstance(ctx, t)
}

func (i Interface) bootInstance(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if err := i.set.Bringup.IntoInstance(ctx, t, false); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("reboot", "out of the rescue into the instance, boot mode "+t.Node.BootMode())
	return driver.Done(), nil
}
