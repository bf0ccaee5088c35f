package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Times of power changes (Ironic's defaults).
const (
	powerChangeTimeout = 60 * time.Second
	softOffTimeout     = 600 * time.Second
	powerPoll          = time.Second
)

// SoftTimeout is how long a machine may take to switch itself off.
func SoftTimeout(a *work.Args) time.Duration {
	return timeout(a, softOffTimeout)
}

// hardTimeout is how long a BMC may take to switch a machine.
func hardTimeout(a *work.Args) time.Duration { return timeout(a, powerChangeTimeout) }

// timeout is the one that the request asks for, usual where it asks for none.
func timeout(a *work.Args, usual time.Duration) time.Duration {
	if a.TimeoutSeconds == 0 {
		return usual
	}
	return time.Duration(a.TimeoutSeconds) * time.Second
}

// verifyPower reads the machine's power and identity: the credentials work.
func (c *Catalog) verifyPower() driver.Step {
	return driver.Step{Interface: "power", Name: "verify", Kind: driver.Repeatable, Retries: 2, Pause: 2 * time.Second,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			defer t.Keep() // of a first use of a BMC, whatever came of it
			state, err := t.Hardware.Power().PowerState(ctx, t.Node)
			if err != nil {
				return driver.Done(), fmt.Errorf("read the power state: %w", err)
			}
			if err := c.reportPower(ctx, t.Node.UUID, t.Node.Group, state); err != nil {
				return driver.Done(), err
			}
			id, err := t.Hardware.Management().Identity(ctx, t.Node)
			if err != nil && !errors.Is(err, driver.ErrUnsupported) {
				return driver.Done(), fmt.Errorf("read the machine's identity: %w", err)
			}
			if id.Manufacturer != "" || id.Serial != "" {
				machine := strings.TrimSpace(id.Manufacturer + " " + id.Model)
				if id.Serial != "" {
					machine += ", serial number " + id.Serial
				}
				t.Record.Phase("identity", strings.TrimPrefix(machine, ", "))
			}
			return driver.Done(), nil
		}}
}

// reportPower publishes a power state that was read from the machine.
func (c *Catalog) reportPower(ctx context.Context, node, group string, s driver.PowerState) error {
	if s == "" {
		return nil // nothing tells it
	}
	e := work.Event{Kind: work.PowerObserved, Node: node, Group: group, Rackd: c.cfg.Name, Time: time.Now().UTC(), Power: string(s)}
	err := c.cfg.Events.Insist(ctx, e)
	c.cfg.Events.NotePower(e, err)
	return err
}

// powerFlow brings the machine to the power state of the request. A reboot is two
// goals, so that a successor knows whether the machine has been off.
func powerFlow(c *Catalog, d *work.Document, t *driver.Task) ([]Step, error) {
	target := driver.PowerState(d.Args.PowerTarget)
	soft, hard := SoftTimeout(&d.Args), hardTimeout(&d.Args)
	goal := func(name string, ask, want driver.PowerState, limit time.Duration) Step {
		return Step{Off: want == driver.PowerOff, Step: driver.Step{Interface: "power", Name: name, Kind: driver.Repeatable, Retries: 2, Pause: 2 * time.Second,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return c.reach(ctx, t, ask, want, limit)
			}}}
	}
	steps := []Step{validateStep("power")}
	if m, keeps := t.Hardware.KeepsMedia(t.Node); keeps && target != driver.PowerOff && target != driver.SoftPowerOff {
		steps = append(steps, Step{Step: driver.Step{Interface: "boot", Name: "keep_media", Kind: driver.Repeatable, Retries: 2, Pause: 2 * time.Second,
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return driver.Done(), m.KeepInstance(ctx, t) // the machine is about to boot from them
			}}})
	}
	if t.StaysOn() && (target == driver.Rebooting || target == driver.SoftReboot) {
		return append(steps, Step{Step: c.reset(target, hard), Doubt: c.resetInDoubt(target, hard), Resets: true}), nil
	}
	switch target {
	case driver.PowerOn:
		steps = append(steps, goal("power_on", driver.PowerOn, driver.PowerOn, hard))
	case driver.PowerOff:
		steps = append(steps, goal("power_off", driver.PowerOff, driver.PowerOff, hard))
	case driver.SoftPowerOff:
		steps = append(steps, goal("soft_power_off", driver.SoftPowerOff, driver.PowerOff, soft))
	case driver.Rebooting:
		steps = append(steps, goal("power_off", driver.PowerOff, driver.PowerOff, hard),
			goal("power_on", driver.PowerOn, driver.PowerOn, hard))
	case driver.SoftReboot:
		steps = append(steps, goal("soft_power_off", driver.SoftPowerOff, driver.PowerOff, soft),
			goal("power_on", driver.PowerOn, driver.PowerOn, hard))
	default:
		return nil, fmt.Errorf("node %s: unknown power target %q", t.Node.Label(), target)
	}
	return steps, nil
}

// reach asks for a power state unless the machine is in it, and waits until it is. A
// successor does the same: asking again for what was asked for changes nothing.
func (c *Catalog) reach(ctx context.Context, t *driver.Task, ask, want driver.PowerState, limit time.Duration) (driver.Outcome, error) {
	p, until := t.Hardware.Power(), time.Now().Add(limit)
	state, err := p.PowerState(ctx, t.Node)
	if err != nil {
		return driver.Done(), fmt.Errorf("read the power state: %w", err)
	}
	if state != want || !t.Hardware.Can(driver.PowerOff) { // what nothing tells is asked for again
		asked := t.Facts[driver.FactOnAsked] != "" // and not seen to be on: a refusal takes back no order before it
		if want == driver.PowerOn {
			t.OnAsked()
		}
		if err := t.SetPower(ctx, ask); err != nil {
			if want == driver.PowerOn && !asked && !MayPass(err) {
				delete(t.Facts, driver.FactOnAsked) // it was refused
			}
			return driver.Done(), fmt.Errorf("ask for %q: %w", ask, err)
		}
	}
	return c.awaitPower(ctx, t, ask, want, until)
}

// awaitPower waits until the machine is in a power state that was asked for. A BMC may be silent meanwhile; none of its
// errors has the step run again.
func (c *Catalog) awaitPower(ctx context.Context, t *driver.Task, ask, want driver.PowerState, until time.Time) (driver.Outcome, error) {
	limit := time.Until(until)
	for {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		switch {
		case err == nil && state == want:
			if want == driver.PowerOn && t.Facts[driver.FactOnAsked] != "" {
				delete(t.Facts, driver.FactOnAsked)
				c.cfg.Events.NoteStart(t.Node.UUID)
			}
			return driver.Done(), c.reportPower(ctx, t.Node.UUID, t.Node.Group, state)
		case time.Now().After(until):
			return driver.Done(), fmt.Errorf("node %s: still %q %s after %q was asked for (last error: %v); look at the BMC", t.Node.Label(), state, limit.Round(time.Second), ask, driver.Unnamed(t.Node, err))
		}
		if err := driver.Pause(ctx, powerPoll); err != nil {
			return driver.Done(), err
		}
	}
}
