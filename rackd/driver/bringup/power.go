// Package bringup brings a machine up in its ramdisk and down again: the part that
// deploying, cleaning and inspecting have in common. It turns the power
// interface's "accepted" into "reached", and an outcome that nobody knows into
// one that was read back.
//
// It may import rackd/driver and protocol. Invariants: every write goes through
// the hardware's interfaces with the task's fence, and once the fence is lost no
// further write is tried; a wait for power is bounded by Settings.PowerWait.
package bringup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Settings of the waits; zero values mean the defaults. Immutable once in use.
type Settings struct {
	// PowerWait bounds the wait for a power state; default 60 s.
	PowerWait time.Duration
	// PowerPoll is how often the power state is read; default 1 s. At first it is read more often: most machines
	// are there in a moment.
	PowerPoll time.Duration
	// SoftOff is how long a machine that was asked to switch itself off may take
	// before the BMC cuts its power; default 10 s.
	SoftOff time.Duration
}

// firstPoll is the first pause between two reads of a power state; each is twice as long, up to PowerPoll.
const firstPoll = 100 * time.Millisecond

func (s Settings) powerWait() time.Duration { return or(s.PowerWait, 60*time.Second) }
func (s Settings) powerPoll() time.Duration { return or(s.PowerPoll, time.Second) }
func (s Settings) softOff() time.Duration   { return or(s.SoftOff, 10*time.Second) }

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// askAgain is how often a power state is asked for when the answer to the
// question got lost.
const askAgain = 3

// Reach brings the machine to driver.PowerOn or driver.PowerOff and returns once
// the BMC reports it. A write whose outcome is unknown is read back before it is
// repeated. Errors wrap what the power interface answered; a machine that does
// not get there in time is an error of its own.
func (s Settings) Reach(ctx context.Context, t *driver.Task, target driver.PowerState) error {
	return s.reach(ctx, t, target, asked(t))
}

// asked reports whether an order to switch on may still be carried out.
func asked(t *driver.Task) bool { return t.Facts[driver.FactOnAsked] != "" }

// reach is Reach. before says that an order to switch on was sent before, or may have been, and the machine was not seen to be on: a
// refusal does not take that back.
func (s Settings) reach(ctx context.Context, t *driver.Task, target driver.PowerState, before bool) error {
	if target == driver.PowerOn && !t.Hardware.Can(target) {
		t.Record.Phase("power on", driver.ByHand)
		return nil
	}
	started := time.Now()
	var unknown error
	for range askAgain {
		err := t.SetPower(ctx, target)
		switch {
		case err == nil:
			return noteOn(t, target, s.await(ctx, t, target, s.powerWait()-time.Since(started)))
		case !errors.Is(err, driver.ErrUnknown):
			if unknown == nil && !before && !errors.Is(err, driver.ErrUnreachable) && target == driver.PowerOn {
				delete(t.Facts, driver.FactOnAsked) // it was refused
			}
			return err
		}
		unknown = err
		if err := noteOn(t, target, s.await(ctx, t, target, s.powerWait()/(2*askAgain))); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("node %s: asked %d times for %q, and the machine has not reached that state: %w", t.Node.Label(), askAgain, target, driver.Unnamed(t.Node, unknown))
}

// noteOn notes, of an order to switch on, whether the machine was seen to be on. It returns err.
func noteOn(t *driver.Task, target driver.PowerState, err error) error {
	switch {
	case target != driver.PowerOn:
	case err == nil:
		delete(t.Facts, driver.FactOnAsked)
	default:
		t.OnAsked()
	}
	return err
}

// Await waits until the BMC reports target, at most for d.
func (s Settings) await(ctx context.Context, t *driver.Task, target driver.PowerState, d time.Duration) error {
	deadline := time.NewTimer(max(d, 0))
	defer deadline.Stop()
	pause := min(firstPoll, s.powerPoll())
	tick := time.NewTimer(pause)
	defer tick.Stop()
	for {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		if err == nil && state == target {
			return nil
		}
		if err != nil && !errors.Is(err, driver.ErrUnreachable) {
			return err
		}
		select {
		case <-tick.C:
			pause = min(2*pause, s.powerPoll())
			tick.Reset(pause)
		case <-ctx.Done():
			return fmt.Errorf("node %s: waiting for %q: %w", t.Node.Label(), target, context.Cause(ctx))
		case <-deadline.C:
			if err != nil {
				return fmt.Errorf("node %s: asked for %q, but its state cannot be read: %w", t.Node.Label(), target, driver.Unnamed(t.Node, err))
			}
			return fmt.Errorf("node %s: asked for %q and the BMC accepted it, but after %s it still reports %q: look at the machine and its BMC's log",
				t.Node.Label(), target, d.Round(time.Second), state)
		}
	}
}

// Off switches the machine off, unless the node's disable_power_off forbids it. A machine that nothing can switch off is switched
// off by its agent, and where there is none it runs on.
func (s Settings) Off(ctx context.Context, t *driver.Task) error {
	if t.Node.DisablePowerOff {
		return nil
	}
	if !t.Hardware.Can(driver.PowerOff) {
		there, err := t.ByAgent(ctx, agentapi.CmdPowerOff)
		switch {
		case err != nil:
			return err
		case there:
			t.Record.Phase("power off", "by the agent")
		default:
			t.Record.Phase("power off", t.Unswitched())
		}
		return nil
	}
	return s.Reach(ctx, t, driver.PowerOff)
}

// OffAfter gives a machine that was asked to switch itself off the time to do so,
// then cuts its power.
func (s Settings) OffAfter(ctx context.Context, t *driver.Task) error {
	if t.StaysOn() {
		return nil
	}
	if err := s.await(ctx, t, driver.PowerOff, s.softOff()); err == nil {
		return nil
	} else if ctx.Err() != nil {
		return err
	}
	return s.Reach(ctx, t, driver.PowerOff)
}

// reset cannot be read back, so an unknown outcome is returned as it is. An error that is ErrUnreachable and not
// ErrUnknown says that nothing was sent. What nothing else can restart its agent restarts, or a person.
func (s Settings) reset(ctx context.Context, t *driver.Task) error {
	if !t.Hardware.Can(driver.PowerOff) {
		if there, err := s.restartByAgent(ctx, t); there || err != nil {
			return err
		}
		if !t.Hardware.Can(driver.PowerOn) {
			t.Record.Phase("power on", driver.ByHand)
			return nil
		}
		return t.SetPower(ctx, driver.Rebooting)
	}
	if err := t.SetPower(ctx, driver.Rebooting); err != nil {
		return err
	}
	err := s.await(ctx, t, driver.PowerOn, s.powerWait())
	if errors.Is(err, driver.ErrUnreachable) {
		err = fmt.Errorf("%w: %w", err, driver.ErrUnknown)
	}
	return err
}

// restartByAgent has the agent reboot the machine, and returns once the agent is gone; there is false where none answers.
func (s Settings) restartByAgent(ctx context.Context, t *driver.Task) (there bool, err error) {
	if there, err = t.ByAgent(ctx, agentapi.CmdRunImage); !there || err != nil {
		return there, err
	}
	t.Record.Phase("restart", "by the agent")
	for end := time.Now().Add(s.powerWait()); ; {
		if _, err := t.Agent.Commands(ctx); errors.Is(err, driver.ErrUnreachable) {
			return true, nil
		}
		if time.Now().After(end) {
			return true, fmt.Errorf("node %s: its agent was asked to reboot the machine, and %s later it still answers: look at the machine's console", t.Node.Label(), s.powerWait())
		}
		if err := driver.Pause(ctx, s.powerPoll()); err != nil {
			return true, fmt.Errorf("node %s: waiting until its agent has rebooted the machine: %w", t.Node.Label(), err)
		}
	}
}
