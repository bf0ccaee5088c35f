package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// reset is the step that reboots a machine whose power must not be switched off. It is on again within some time. A reset
// leaves no trace to read back, so one that may have happened is not asked for again.
func (c *Catalog) reset(ask driver.PowerState, within time.Duration) driver.Step {
	return driver.Step{Interface: "power", Name: "reset", Kind: driver.Neither, Retries: 2, Pause: 2 * time.Second,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if err := resetOnce(ctx, t, ask); err != nil {
				return driver.Outcome{}, c.notOff(ctx, t, err, within)
			}
			c.cfg.Events.NoteStart(t.Node.UUID)
			if !t.Hardware.Can(driver.PowerOff) { // nothing tells its state
				return driver.Done(), nil
			}
			out, err := c.reach(ctx, t, driver.PowerOn, driver.PowerOn, within)
			if MayPass(err) { // the step would be run again, and reset the machine once more
				return c.awaitPower(ctx, t, ask, driver.PowerOn, time.Now().Add(within))
			}
			return out, err
		}}
}

// resetInDoubt ends a reset that another rackd has begun. A machine that was left off is switched on: that is the rest of a reset which
// its driver makes of off and on.
func (c *Catalog) resetInDoubt(ask driver.PowerState, within time.Duration) func(context.Context, *driver.Task) (driver.Outcome, error) {
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		off, err := t.LeftOff(ctx)
		switch {
		case err != nil:
			return driver.Outcome{}, err
		case !off:
			return driver.Outcome{}, fmt.Errorf("node %s: %q was asked for by a rackd that was lost since, and %w: look at the machine, and ask again if it has not", t.Node.Label(), ask, errInDoubt)
		}
		noteLeftOff(t)
		return c.reach(ctx, t, driver.PowerOn, driver.PowerOn, within)
	}
}

// noteLeftOff tells that a machine is switched on which a reset has left off.
func noteLeftOff(t *driver.Task) {
	t.Record.Phase("restart", "the machine was found off in the middle of its reset, and is switched on")
}

// errInDoubt is the error of a reset that is not known to have happened or not.
var errInDoubt = errors.New("may have happened")

// resetOnce asks for a reset. Only an error that says that nothing was sent may be followed
// by another attempt.
func resetOnce(ctx context.Context, t *driver.Task, ask driver.PowerState) error {
	if !t.Hardware.Can(driver.PowerOff) {
		if there, err := t.ByAgent(ctx, agentapi.CmdRunImage); there || err != nil {
			return err
		}
	}
	err := t.SetPower(ctx, ask)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrFenced):
		return fmt.Errorf("node %s: %q was asked for and %w (%v): look at the machine, and ask again if it has not", t.Node.Label(), ask, errInDoubt, err)
	}
	return notReset{fmt.Errorf("ask for %q: %w", ask, err)}
}

// notReset is the error of a reset that has not happened.
type notReset struct{ error }

func (e notReset) Unwrap() error { return e.error }

// NotReset reports whether err says that a reset was asked for and has not happened.
func NotReset(err error) bool { return errors.As(err, new(notReset)) }

// notOff returns err, of a reset that may have happened. Hardware that makes a reset of off and on may have ended between the
// two. A machine that is off then is switched on, for that was asked for too.
func (c *Catalog) notOff(ctx context.Context, t *driver.Task, err error, within time.Duration) error {
	if !errors.Is(err, errInDoubt) || !t.Hardware.Can(driver.PowerOff) {
		return err
	}
	if state, readErr := t.Hardware.Power().PowerState(ctx, t.Node); readErr != nil || state != driver.PowerOff {
		return err
	}
	switch _, onErr := c.reach(ctx, t, driver.PowerOn, driver.PowerOn, within); {
	case errors.Is(onErr, driver.ErrFenced):
		return onErr
	case onErr != nil: // the step is not to be run again
		return fmt.Errorf("%w; the machine was found switched off: %v", err, onErr)
	}
	return fmt.Errorf("%w; the machine was found switched off, and was switched on", err)
}
