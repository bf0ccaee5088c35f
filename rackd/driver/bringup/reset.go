package bringup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// resetting is the handle of a step that resets a machine into its instance.
type resetting struct {
	// Asked: a reset is about to be asked for, or has been.
	Asked bool `json:"reset_asked"`
}

// IntoInstance starts the instance: it switches the machine on or, where the node's
// disable_power_off forbids to switch it off before or nothing can, resets it. It is the last part of a
// reattachable step. A reset that may have happened is not repeated into the first boot of
// the instance: ramdisk says whether the step is preceded by the ramdisk, whose agent then
// shows by its answer that there was no reset; elsewhere doubt is an error, but for a machine that the reset has left off.
// An instance whose media were at a rackd that has gone is started from others.
func (s Settings) IntoInstance(ctx context.Context, t *driver.Task, ramdisk bool) error {
	if err := s.fromLiving(ctx, t); err != nil {
		return err
	}
	if !t.StaysOn() {
		return s.Reach(ctx, t, driver.PowerOn)
	}
	var h resetting
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("node %s: the handle %q of a reset cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if h.Asked && !ramdisk {
		off, err := t.LeftOff(ctx)
		switch {
		case err != nil:
			return err
		case off: // in the middle of the reset
			return s.Reach(ctx, t, driver.PowerOn)
		}
	}
	if h.Asked {
		switch there, err := s.agentStays(ctx, t, ramdisk); {
		case err != nil:
			return err
		case !there:
			return s.Reach(ctx, t, driver.PowerOn)
		}
	}
	h.Asked = true
	if err := t.Record.SaveHandle(ctx, h); err != nil {
		return err
	}
	err := s.reset(ctx, t)
	if err == nil || ramdisk || errors.Is(err, driver.ErrUnknown) || !errors.Is(err, driver.ErrUnreachable) {
		return err
	}
	return errors.Join(err, t.Record.SaveHandle(ctx, resetting{})) // nothing was sent
}

// agentStays reports whether the agent of the ramdisk still answers when a reset that may
// have been asked for would have ended it.
func (s Settings) agentStays(ctx context.Context, t *driver.Task, ramdisk bool) (bool, error) {
	if !ramdisk {
		return false, fmt.Errorf("node %s: a reset into the instance was asked for and may have happened: look at the machine, and ask for a reboot if it has not", t.Node.Label())
	}
	for end := time.Now().Add(s.softOff()); ; {
		if _, err := t.Agent.Commands(ctx); errors.Is(err, driver.ErrUnreachable) {
			return false, nil
		}
		if time.Now().After(end) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(s.powerPoll()):
		}
	}
}
