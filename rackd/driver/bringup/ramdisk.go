package bringup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// booting is the handle of a step that boots the ramdisk.
type booting struct {
	// Since: an agent that called after this time runs in the new ramdisk.
	Since time.Time `json:"booting_since"`
	// Powered: the machine has been switched on since.
	Powered bool `json:"powered,omitempty"`
	// Restarted: the agent of the boot before restarts the machine, which nothing else can.
	Restarted bool `json:"restarted,omitempty"`
}

// Ramdisk boots the machine into its ramdisk; it is the Run of a reattachable
// step. It is done when an agent has called that booted after the machine was
// switched off, whichever rackd then runs the step.
func (s Settings) Ramdisk(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	lost := deserted(t)
	if lost {
		t.Record.Phase("virtual media", "the rackd that served the ramdisk's medium has gone: the machine is started again, with another")
	} else {
		var err error
		if lost, err = lostMedium(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
	}
	h, err := s.boot(ctx, t, lost)
	if err != nil {
		return driver.Outcome{}, err
	}
	if t.Agent.Booted(h.Since) {
		delete(t.Facts, driver.FactOnAsked) // the machine is on, though its BMC may never have said so
		foundMedium(t)
		t.Record.Phase("agent", "the ramdisk's agent has called")
		return driver.Done(), nil
	}
	return driver.Wait(poll(t)), nil
}

// Unattended boots the machine into its ramdisk, once for a handle, and does not wait for an agent: it is for an installer. another
// has it boot once more.
func (s Settings) Unattended(ctx context.Context, t *driver.Task, another bool) error {
	_, err := s.boot(ctx, t, another)
	return err
}

// boot starts the machine into its ramdisk, unless an agent has called already.
func (s Settings) boot(ctx context.Context, t *driver.Task, another bool) (h booting, err error) {
	// A step that runs again, under this rackd or the next, may have asked before. begin notes the order that comes after it.
	again, before := t.Record.Handle() != nil, asked(t)
	if h, err = s.begin(ctx, t, another); err != nil || h.Powered || t.Agent.Booted(h.Since) {
		return h, err
	}
	if again && !another {
		if err := s.prepareAgain(ctx, t, h); err != nil {
			return h, err
		}
	}
	if err := s.start(ctx, t, h.Restarted, before); err != nil {
		return h, err
	}
	if !h.Restarted && t.Hardware.Can(driver.PowerOn) {
		t.Record.Phase("power on", fmt.Sprintf("into the ramdisk, boot mode %s", t.Node.BootMode()))
	}
	if t.StaysOn() && !h.Restarted {
		h.Since = t.Record.Now() // an agent ran until the reset; its calls do not count
	}
	h.Powered = true
	return h, t.Record.SaveHandle(ctx, h)
}

// prepareAgain makes the boot ready once more before the machine is started. A reset that may have happened has used up what was set for
// one boot. A machine that is still off may have a BMC that has forgotten it by now, or a driver of another rackd that does not know of it.
// One that is on already boots what was made ready. A medium that rackd makes belongs to a boot of its own, which is counted first.
func (s Settings) prepareAgain(ctx context.Context, t *driver.Task, h booting) error {
	if !t.StaysOn() {
		if state, err := t.Hardware.Power().PowerState(ctx, t.Node); err != nil || state != driver.PowerOff {
			return err
		}
	}
	if err := t.Hardware.Boot().PrepareRamdisk(ctx, t); err != nil || !t.Hardware.TellsBoot(t.Node) {
		return err
	}
	t.Record.AgentGone()
	return t.Record.SaveHandle(ctx, h)
}

// deserted reports whether the machine boots from a medium whose rackd has gone, and no agent has called yet. An agent that
// has called needs its medium no more.
func deserted(t *driver.Task) bool {
	m, makes := t.Hardware.Boot().(driver.MediumMaker)
	var h booting
	return makes && t.Record.Handle() != nil && m.Deserted(t) && json.Unmarshal(t.Record.Handle(), &h) == nil && !t.Agent.Booted(h.Since)
}

// begin returns the step's handle. On the first run, and for another boot, it makes the boot ready and has
// the machine switched off. Only then does it fix the time, so that no agent of an
// earlier boot counts.
func (s Settings) begin(ctx context.Context, t *driver.Task, another bool) (h booting, err error) {
	if raw := t.Record.Handle(); raw != nil && !another {
		if err := json.Unmarshal(raw, &h); err != nil {
			return h, fmt.Errorf("node %s: the handle %q of the ramdisk's boot cannot be read: %w", t.Node.Label(), raw, err)
		}
		return h, nil
	}
	t.Facts[driver.FactReadied] = "yes"
	if err := t.Hardware.Boot().PrepareRamdisk(ctx, t); err != nil {
		return h, err
	}
	if t.Hardware.Can(driver.PowerOff) {
		err = s.Off(ctx, t)
	} else if h.Restarted, err = t.ByAgent(ctx, agentapi.CmdRunImage); h.Restarted && err == nil {
		t.Record.Phase("restart", "by the agent")
	}
	if err != nil {
		return h, err
	}
	t.Facts[driver.FactBooted] = "yes"
	if !t.StaysOn() {
		t.OnAsked() // with the checkpoint that comes before the order
	}
	t.Record.AgentGone() // a boot of its own, also where the ramdisk has run before
	h.Since = t.Record.Now()
	return h, t.Record.SaveHandle(ctx, h)
}

// start starts the machine. before is reach's.
func (s Settings) start(ctx context.Context, t *driver.Task, restarted, before bool) error {
	switch {
	case restarted:
		return nil
	case t.StaysOn():
		return s.reset(ctx, t)
	}
	return s.reach(ctx, t, driver.PowerOn, before)
}
