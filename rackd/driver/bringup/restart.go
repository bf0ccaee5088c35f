package bringup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/rackd/driver"
)

// restarting is the handle of a restart into whatever the machine boots.
type restarting struct {
	// Was is the power state before.
	Was driver.PowerState `json:"was"`
	// Off: the machine has been switched off. Asked: a reset is about to be asked for, or has been.
	Off   bool `json:"off,omitempty"`
	Asked bool `json:"reset_asked,omitempty"`
	// Over: the machine is on since.
	Over bool `json:"over,omitempty"`
}

// Restart restarts the machine once, for what its BMC does only then. Where the ramdisk runs, it runs
// again afterwards, and the restart is over when its agent has called. Elsewhere the machine boots
// whatever it boots, and the restart is over when it is on. It is a part of a reattachable step and keeps a
// handle of its own (driver.Part): a rackd that goes on with the step restarts nothing a second time.
//
// A reset cannot be read back. One that may have happened is not repeated into something else than the ramdisk: the
// caller sees by its effect whether it has.
func (s Settings) Restart(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if t.Facts[driver.FactBoot] == driver.BootRamdisk {
		return s.Ramdisk(ctx, t)
	}
	h, err := s.before(ctx, t)
	if err != nil || h.Over {
		return driver.Done(), err
	}
	if t.Node.DisablePowerOff && h.Was == driver.PowerOn {
		err = s.resetOnce(ctx, t, &h)
	} else {
		err = s.cycle(ctx, t, &h)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("power on", "a restart, because the BMC carries out its order only then")
	h.Over = true
	return driver.Done(), t.Record.SaveHandle(ctx, h)
}

// before returns the restart's handle; at first it notes the machine's power.
func (s Settings) before(ctx context.Context, t *driver.Task) (h restarting, err error) {
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return h, fmt.Errorf("node %s: the handle %q of a restart cannot be read: %w", t.Node.Label(), raw, err)
		}
		return h, nil
	}
	if h.Was, err = t.Hardware.Power().PowerState(ctx, t.Node); err != nil {
		return h, fmt.Errorf("read the power state before a restart: %w", err)
	}
	return h, t.Record.SaveHandle(ctx, h)
}

// cycle switches the machine off and on. Both can be read back, so that each is asked for until it is so.
func (s Settings) cycle(ctx context.Context, t *driver.Task, h *restarting) error {
	if h.Was != driver.PowerOff && !h.Off {
		if err := s.Reach(ctx, t, driver.PowerOff); err != nil {
			return err
		}
		h.Off = true
		if err := t.Record.SaveHandle(ctx, *h); err != nil {
			return err
		}
	}
	return s.Reach(ctx, t, driver.PowerOn)
}

// resetOnce resets the machine. A reset in doubt is no error: what it was for shows whether it has happened. One that hardware made of
// off and on may have ended between the two.
func (s Settings) resetOnce(ctx context.Context, t *driver.Task, h *restarting) error {
	const doubt = "a reset was asked for. It is not known whether it has happened, so rackd does not ask again"
	if h.Asked {
		t.Record.Phase("restart in doubt", doubt)
		return s.onAgain(ctx, t)
	}
	h.Asked = true
	if err := t.Record.SaveHandle(ctx, *h); err != nil {
		return err
	}
	err := s.reset(ctx, t)
	switch {
	case errors.Is(err, driver.ErrUnknown):
		t.Record.Phase("restart in doubt", doubt)
		return s.onAgain(ctx, t)
	case errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced): // nothing was sent
		h.Asked = false
		return errors.Join(err, t.Record.SaveHandle(ctx, *h))
	}
	return err
}

// onAgain switches on a machine that a reset in doubt has left off. Some BMCs switch it off for a moment themselves. Where its state cannot
// be read nothing is done.
func (s Settings) onAgain(ctx context.Context, t *driver.Task) error {
	if !t.Hardware.Can(driver.PowerOff) { // nothing tells its state
		return nil
	}
	if err := s.await(ctx, t, driver.PowerOn, s.softOff()); err == nil {
		return nil
	} else if ctx.Err() != nil {
		return err
	}
	if state, err := t.Hardware.Power().PowerState(ctx, t.Node); err != nil || state != driver.PowerOff {
		return nil
	}
	return s.Reach(ctx, t, driver.PowerOn)
}
