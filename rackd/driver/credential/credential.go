// Package credential is what a step does that gives the account of a BMC another password: driver_info follows, and whatever dies in
// between, the next owner of the work can find out which password counts.
//
// It may import rackd/driver and protocol. A driver says how its BMC is told and how it is asked (Change); the rest is the same for all.
// Invariants:
//   - The BMC is told nothing before the checkpoint has the new password.
//   - A password counts as set once the BMC has let a login in with it.
//   - After an unknown outcome both are tried, the new one first: a session of before says nothing of the old one.
//   - The step ends when the node's document shows the new password.
//   - The argument with a password is named like the field that it replaces, and the field that asks for one as seal.AsksFor wants it.
//
// Everything exported is safe for concurrent use.
package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Change is how one kind of BMC gets another password.
type Change struct {
	// Field of driver_info that holds the password.
	Field string
	// Asks is the field of driver_info that may ask for another one (seal.AsksFor); it goes with it. Empty: there is none.
	Asks string
	// Tell gives the account that driver_info names the password, with one write behind the fence. Its errors hold neither password.
	Tell func(ctx context.Context, f driver.Fence, n *node.Document, password string) error
	// Accepts logs in with what n has, and reads something. Its error wraps driver.ErrDenied if the BMC refuses the login.
	Accepts func(ctx context.Context, n *node.Document) error
}

// looking is the handle of the step.
type looking struct {
	// Refused is how often the BMC has accepted the new password and then refused a login with it.
	Refused int `json:"refused,omitempty"`
	// Rests is when the BMC may be asked again.
	Rests time.Time `json:"rests,omitzero"`
}

const (
	// poll is how often the step looks whether central has written the password.
	poll = 2 * time.Second
	// again is how long a BMC gets to take in a password that it has accepted. Credentials that were refused rest for a minute.
	again = 70 * time.Second
	// mostRefused is how many times the BMC is told the password before the step fails.
	mostRefused = 3
)

// Run is a run of the step, which is driver.Reattachable. password is what is to be set.
func (c Change) Run(ctx context.Context, t *driver.Task, password string) (driver.Outcome, error) {
	for name := range t.Args { // central knows by these names who may choose a password
		if seal.IsSecret(name) && name != c.Field {
			return driver.Outcome{}, fmt.Errorf("node %s: argument %s is not named like %s, which it would replace: %w", t.Node.Label(), name, c.Field, driver.ErrInvalid)
		}
	}
	kept, sure, err := t.Secrets.Replacing(c.Field)
	switch {
	case c.Asks != "" && seal.AsksFor(c.Asks) != c.Field:
		return driver.Outcome{}, fmt.Errorf("node %s: field %s is not named like one that asks for another %s: %w", t.Node.Label(), c.Asks, c.Field, driver.ErrInvalid)
	case err != nil:
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	case sure:
		return c.shown(ctx, t)
	case kept == "" && t.Node.DriverString(c.Field) == password:
		return c.same(ctx, t, password)
	case kept == "":
		if err := t.Secrets.Replace(ctx, c.Field, password, c.asks()...); err != nil {
			return driver.Outcome{}, err
		}
		return c.tell(ctx, t, password, looking{}, false)
	}
	var h looking
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a change of a password cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if rests := time.Until(h.Rests); rests > 0 && rests <= again {
		return driver.Wait(rests), nil
	}
	// The rackd that kept it may have told the BMC.
	err = c.Accepts(ctx, c.with(t.Node, kept))
	switch {
	case err == nil:
		return c.settle(ctx, t)
	case !errors.Is(err, driver.ErrDenied):
		return driver.Outcome{}, err
	}
	return c.tell(ctx, t, kept, h, true)
}

// same is a run for the password that driver_info has. A login that works says that the BMC is to be told nothing; the field that asks
// for it goes.
func (c Change) same(ctx context.Context, t *driver.Task, password string) (driver.Outcome, error) {
	if err := c.Accepts(ctx, t.Node); err != nil || t.Node.DriverString(c.Asks) != password {
		return driver.Done(), err
	}
	if err := t.Secrets.Replace(ctx, c.Field, password, c.asks()...); err != nil {
		return driver.Outcome{}, err
	}
	return c.settle(ctx, t)
}

func (c Change) asks() []string {
	if c.Asks == "" {
		return nil
	}
	return []string{c.Asks}
}

// with is n with another password.
func (c Change) with(n *node.Document, password string) *node.Document {
	now := *n
	now.DriverInfo = map[string]any{}
	for name, v := range n.DriverInfo {
		now.DriverInfo[name] = v
	}
	now.DriverInfo[c.Field] = password
	return &now
}

// tell has the BMC take the password, and sees whether it does. refused: it has just refused a login with it.
func (c Change) tell(ctx context.Context, t *driver.Task, password string, h looking, refused bool) (driver.Outcome, error) {
	t.Record.Busy("a new " + c.Field)
	err := c.Tell(ctx, t.Fence, t.Node, password)
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrDenied):
		return c.denied(ctx, t, password, refused, err)
	case errors.Is(err, driver.ErrFenced), errors.Is(err, driver.ErrUnknown), errors.Is(err, driver.ErrUnreachable), ctx.Err() != nil:
		return driver.Outcome{}, err
	default:
		return driver.Outcome{}, c.refused(ctx, t, err)
	}
	err = c.Accepts(ctx, c.with(t.Node, password))
	switch {
	case err == nil:
		return c.settle(ctx, t)
	case !errors.Is(err, driver.ErrDenied):
		return driver.Outcome{}, err
	}
	if h.Refused++; h.Refused >= mostRefused {
		t.Record.Idle()
		return driver.Outcome{}, fmt.Errorf("the BMC has accepted a new %s %d times, and refuses each login with it: look at its log, and put the password that it takes into driver_info: %w", c.Field, h.Refused, err)
	}
	h.Rests = time.Now().Add(again)
	return driver.Wait(again), t.Record.SaveHandle(ctx, h)
}

// denied finds out what it means that the BMC has refused the order, or the login with the password in driver_info. refused: it has just
// refused one with the new password.
func (c Change) denied(ctx context.Context, t *driver.Task, password string, refused bool, cause error) (driver.Outcome, error) {
	switch old := c.Accepts(ctx, t.Node); {
	case old == nil:
		return driver.Outcome{}, c.refused(ctx, t, cause) // the user may log in, and may not do that
	case !errors.Is(old, driver.ErrDenied):
		return driver.Outcome{}, old
	case refused: // what Replace has kept stays: the order may have been carried out
		t.Record.Idle()
		return driver.Outcome{}, c.neither(cause)
	}
	// Perhaps a work before has told it.
	switch other := c.Accepts(ctx, c.with(t.Node, password)); {
	case other == nil:
		return c.settle(ctx, t)
	case !errors.Is(other, driver.ErrDenied):
		return driver.Outcome{}, other
	}
	return driver.Outcome{}, c.refused(ctx, t, c.neither(cause))
}

// neither says that no password is known that counts.
func (c Change) neither(cause error) error {
	return fmt.Errorf("neither the password in driver_info %s nor the new one is accepted: put the one that the BMC takes into driver_info: %w", c.Field, cause)
}

// refused ends the step with the BMC as it was.
func (c Change) refused(ctx context.Context, t *driver.Task, cause error) error {
	t.Record.Idle()
	return errors.Join(cause, t.Secrets.Forget(ctx, c.Field))
}

// settle keeps that the BMC takes the password.
func (c Change) settle(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if err := t.Secrets.Replaced(ctx, c.Field); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Idle()
	t.Record.Phase("new password", "the BMC takes it; driver_info "+c.Field+" follows")
	return c.shown(ctx, t)
}

// shown waits until central has written the password.
func (c Change) shown(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	there, err := t.Secrets.Shown(ctx, c.Field)
	if err != nil || there {
		return driver.Done(), err
	}
	return driver.Wait(poll), nil
}
