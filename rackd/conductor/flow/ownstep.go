package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/plan"
)

// ownStep returns the step behind a name that every node has, whatever its hardware:
// power changes, a pause, a hold, and steps that run on child nodes. They run with the
// ramdisk unless the request forbids that: a hold is there for a look at it.
func (c *Catalog) ownStep(a driver.AskedStep) (driver.Step, bool) {
	s := driver.Step{Interface: a.Interface, Name: a.Step, Kind: driver.Reattachable, Retries: 2, Pause: 2 * time.Second}
	if a.OnChildren {
		s.OnChildren, s.Run = true, c.onChildren(a)
		return s, true
	}
	switch a.Step {
	case "power_on":
		s.Run = c.powerStep(driver.PowerOn)
	case "power_off":
		s.Run = c.powerStep(driver.PowerOff)
	case "reboot":
		s.Run = c.powerStep(driver.PowerOff, driver.PowerOn)
	case "hold":
		s.Abortable, s.Apart, s.Run = true, true, hold
	case "wait":
		s.Abortable, s.Apart, s.Run = true, true, new(wait).run
		s.Takes = map[string]driver.Argument{"seconds": {Description: "How long to wait, from 0 to 1800 seconds. Left out: until the agent calls again."}}
	default:
		return driver.Step{}, false
	}
	return s, true
}

// powering is the handle of a power step.
type powering struct {
	Reached int `json:"reached"` // goals behind it
	// On is when power was asked for: an agent that calls later runs since then.
	On time.Time `json:"on_at,omitzero"`
	// Asked: a reset is about to be asked for, or has been. Reset: it was accepted.
	Asked bool `json:"reset_asked,omitempty"`
	Reset bool `json:"reset,omitempty"`
}

// powerStep brings the machine to one power state after the other. Where the ramdisk
// runs, and is to run again, it then waits for its agent.
func (c *Catalog) powerStep(goals ...driver.PowerState) func(context.Context, *driver.Task) (driver.Outcome, error) {
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		var h powering
		if raw := t.Record.Handle(); raw != nil {
			if err := json.Unmarshal(raw, &h); err != nil {
				return driver.Outcome{}, fmt.Errorf("node %s: the power step's handle %q cannot be read: %w", t.Node.Label(), raw, err)
			}
		}
		for ; h.Reached < len(goals); h.Reached++ {
			if err := c.powerGoal(ctx, t, &h, goals[h.Reached], len(goals) > 1); err != nil {
				return driver.Outcome{}, err
			}
		}
		if !h.On.IsZero() && t.Facts[driver.FactBoot] == driver.BootRamdisk && !t.Agent.Booted(h.On) {
			return driver.Wait(0), t.Record.SaveHandle(ctx, h)
		}
		return driver.Done(), nil
	}
}

// powerGoal reaches one goal. A machine that must not be switched off is reset where
// a reboot is asked for.
func (c *Catalog) powerGoal(ctx context.Context, t *driver.Task, h *powering, goal driver.PowerState, reboot bool) error {
	if goal == driver.PowerOff {
		if !t.StaysOn() {
			_, err := c.reach(ctx, t, goal, goal, powerChangeTimeout)
			return err
		}
		if reboot {
			return nil
		}
		if !t.Node.DisablePowerOff {
			return fmt.Errorf("node %s: step power_off: %s: %w", t.Node.Label(), t.Unswitched(), driver.ErrUnsupported)
		}
		return fmt.Errorf("node %s: disable_power_off forbids step power_off: %w", t.Node.Label(), driver.ErrInvalid)
	}
	if reboot && t.StaysOn() {
		if err := resetGoal(ctx, t, h); err != nil || !t.Hardware.Can(driver.PowerOff) {
			return err
		}
	} else {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		if err != nil {
			return fmt.Errorf("read the power state: %w", err)
		}
		if h.On.IsZero() && state != goal {
			if err := starting(ctx, t, h); err != nil {
				return err
			}
		}
	}
	_, err := c.reach(ctx, t, goal, goal, powerChangeTimeout)
	return err
}

// starting prepares for a boot that is about to be caused, and counts it.
func starting(ctx context.Context, t *driver.Task, h *powering) error {
	if t.Facts[driver.FactBoot] == driver.BootRamdisk {
		// It was asked for one boot, which is behind it.
		if err := t.Hardware.Boot().PrepareRamdisk(ctx, t); err != nil {
			return err
		}
	}
	h.On = t.Record.Now()
	t.Record.AgentGone()
	return t.Record.SaveHandle(ctx, *h)
}

// resetGoal resets the machine, once. Where the ramdisk runs a second reset does no harm, and
// the agent's call shows that there was one; elsewhere one that is in doubt is not repeated.
func resetGoal(ctx context.Context, t *driver.Task, h *powering) error {
	inRamdisk := t.Facts[driver.FactBoot] == driver.BootRamdisk
	switch {
	case h.Reset, inRamdisk && h.Asked && t.Agent.Booted(h.On):
		return nil
	case h.Asked && !inRamdisk:
		return resetLeft(ctx, t, h, fmt.Errorf("node %s: a reset was asked for and %w: look at the machine, and ask again if it has not", t.Node.Label(), errInDoubt))
	}
	h.Asked = true
	if !t.Hardware.Can(driver.PowerOff) { // its agent, which is over once the boot is counted
		there, err := t.ByAgent(ctx, agentapi.CmdRunImage)
		if err != nil {
			return err
		}
		if h.Reset = there; there {
			return starting(ctx, t, h)
		}
	}
	if err := starting(ctx, t, h); err != nil {
		return err
	}
	err := resetOnce(ctx, t, driver.Rebooting)
	if inRamdisk && errors.Is(err, errInDoubt) {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if errors.Is(err, errInDoubt) {
		return resetLeft(ctx, t, h, err)
	}
	if h.Asked, h.Reset = err == nil || !MayPass(err), err == nil; err != nil && h.Asked {
		return err
	}
	return errors.Join(err, t.Record.SaveHandle(ctx, *h))
}

// resetLeft returns err, of a reset in doubt, unless that has left the machine off: to switch it on is the rest of the reset.
func resetLeft(ctx context.Context, t *driver.Task, h *powering, err error) error {
	off, readErr := t.LeftOff(ctx)
	if readErr != nil && MayPass(readErr) {
		return fmt.Errorf("%w; %w", err, readErr) // the step is run again, and looks again
	}
	if h.Reset = off; !off {
		return err
	}
	noteLeftOff(t)
	return t.Record.SaveHandle(ctx, *h)
}

// The bounds of a step that waits.
const (
	longestWait = 30 * time.Minute
	// agentless is how often a step looks that waits for an agent's call where there is
	// no agent.
	agentless = 30 * time.Second
)

// keepEvery is how often a step that waits keeps how long it still has to.
const keepEvery = 30 * time.Second

// waiting is the handle of a step that waits: until when, or since when for a call of
// the agent's.
type waiting struct {
	Until time.Time `json:"until,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// Left is how long it had to wait when this was written. A successor goes by that, for the clocks of two rackds differ.
	Left time.Duration `json:"left,omitempty"`
}

// wait is the step that waits for the seconds it is told, or for the agent's next call.
type wait struct {
	// until is the end as this process measures it: by the monotonic clock, so that a step
	// of the wall clock moves it neither way. Zero when the process has not run it yet.
	until time.Time
}

func (w *wait) run(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	length, given, err := secondsOf(t.Node, t.Args)
	if err != nil {
		return driver.Outcome{}, err
	}
	raw := t.Record.Handle()
	if raw == nil {
		var h waiting
		if !given && t.Facts[driver.FactBoot] == driver.BootRamdisk {
			h.Since = t.Record.Now()
		} else {
			w.until = time.Now().Add(length)
			h.Until, h.Left = w.until.UTC(), length
		}
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
		raw = t.Record.Handle()
	}
	var h waiting
	if err := json.Unmarshal(raw, &h); err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a wait cannot be read: %w", t.Node.Label(), raw, err)
	}
	switch {
	case !h.Since.IsZero():
		if t.Agent.Booted(h.Since) {
			return driver.Done(), nil
		}
		return driver.Wait(0), nil
	case w.until.IsZero():
		// Another rackd began it, whose clock this one can only believe so far.
		left := min(h.Left, length)
		if h.Left == 0 { // of a rackd that kept no such time
			left = time.Until(h.Until)
		}
		if left > length {
			left = length
			h.Until = time.Now().UTC().Add(left)
			if err := t.Record.SaveHandle(ctx, h); err != nil {
				return driver.Outcome{}, err
			}
		}
		w.until = time.Now().Add(left)
	}
	left := time.Until(w.until)
	if left <= 0 {
		return driver.Done(), nil
	}
	if h.Left-left >= keepEvery {
		h.Until, h.Left = time.Now().UTC().Add(left), left
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
	}
	return driver.Wait(min(left, keepEvery)), nil
}

// waits refuses steps that are to wait for longer than a step may.
func waits(t *driver.Task, steps []work.Step) error {
	for _, s := range steps {
		if s.Step == "wait" && !s.OnChildren {
			if _, _, err := secondsOf(t.Node, s.Args); err != nil {
				return err
			}
		}
	}
	return nil
}

// secondsOf reads the argument "seconds"; agentless when it is not given.
func secondsOf(n *node.Document, args map[string]any) (length time.Duration, given bool, err error) {
	v, given := args["seconds"]
	if !given || v == nil || v == plan.Withheld {
		return agentless, false, nil
	}
	seconds, ok := v.(float64)
	if !ok || !(seconds >= 0 && seconds <= longestWait.Seconds()) {
		return 0, false, fmt.Errorf("node %s: step wait: its argument seconds is %v: give a number from 0 to %g: %w", n.Label(), v, longestWait.Seconds(), driver.ErrInvalid)
	}
	return time.Duration(seconds * float64(time.Second)), true, nil
}

// holding is the handle of a hold: by which work the flow had been let go before.
type holding struct {
	LetGo string `json:"let_go"`
}

// hold parks the node until an operator lets it go: then the flow goes on under
// another piece of work, which says so.
func hold(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h holding
	if raw := t.Record.Handle(); raw == nil {
		if err := t.Record.SaveHandle(ctx, holding{LetGo: t.LetGo}); err != nil {
			return driver.Outcome{}, err
		}
	} else if err := json.Unmarshal(raw, &h); err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a hold cannot be read: %w", t.Node.Label(), raw, err)
	} else if h.LetGo != t.LetGo {
		return driver.Done(), nil
	}
	return driver.Hold(), nil
}
