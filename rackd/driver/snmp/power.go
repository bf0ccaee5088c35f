package snmp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// PowerTargets lists the supported targets. A PDU asks no system to shut down, so there are no soft ones.
func (d *Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting}
}

// PowerState reads the outlet. One on its way between states counts as still in the one that it leaves.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(s *session, t target) error {
		_, is, err := s.outlet(ctx, t)
		if err != nil {
			return err
		}
		d.saw(t, is)
		state = is.power()
		return nil
	})
	return state, err
}

// power is the state that the contract knows.
func (r reading) power() driver.PowerState {
	if r == on || r == goingOff {
		return driver.PowerOn
	}
	return driver.PowerOff
}

// SetPower switches the outlet, if it is not there or on its way. A reboot switches it off, waits until it is and for Hold, and
// switches it on.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	switch goal {
	case driver.PowerOn, driver.PowerOff:
		return d.switchTo(ctx, f, n, goal)
	case driver.Rebooting:
		return d.reboot(ctx, f, n)
	}
	return fmt.Errorf("node %s: an outlet of a PDU knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
}

func (d *Driver) switchTo(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	for {
		var wait time.Duration
		err := d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(s *session, t target) error {
			m, is, err := s.outlet(ctx, t)
			if err != nil {
				return err
			}
			d.saw(t, is)
			if goal == driver.PowerOff {
				return d.turnOff(ctx, f, s, t, m, is)
			}
			if is == on || is == goingOn {
				return nil
			}
			if wait = d.held(t); wait > 0 {
				return nil // others have their turn meanwhile
			}
			return s.order(ctx, f, m.on, t.outlet)
		})
		if err != nil || wait <= 0 {
			return err
		}
		if err := driver.Pause(ctx, wait); err != nil {
			return fmt.Errorf("node %s: waiting until its outlet has been off for %s: %w", n.Label(), d.opts.Hold, err)
		}
	}
}

func (d *Driver) turnOff(ctx context.Context, f driver.Fence, s *session, t target, m model, is reading) error {
	if is == off || is == goingOff {
		return nil
	}
	err := s.order(ctx, f, m.off, t.outlet)
	if err == nil || isLost(err) {
		d.toldOff(t)
	}
	return err
}

func isLost(err error) bool {
	_, lost := errors.AsType[*bmc.Lost](err)
	return lost
}

// reboot repeats a write whose outcome is unknown: its first half would leave the machine off. Of a machine that is off it is the
// second half alone, which its caller can read back.
func (d *Driver) reboot(ctx context.Context, f driver.Fence, n *node.Document) error {
	state, err := d.PowerState(ctx, n)
	if err != nil {
		return err
	}
	if state == driver.PowerOff {
		return d.switchTo(ctx, f, n, driver.PowerOn)
	}
	if err := driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOff) }); err != nil {
		return err
	}
	err = d.awaitOff(ctx, n)
	if err == nil {
		err = driver.Settle(func() error { return d.switchTo(ctx, f, n, driver.PowerOn) })
	}
	if err != nil && !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnknown) {
		err = fmt.Errorf("%w; the outlet was told to go off for a reboot, and not yet to go on again: %w", err, driver.ErrUnknown)
	}
	return err
}

// awaitOff waits until the outlet is off.
func (d *Driver) awaitOff(ctx context.Context, n *node.Document) error {
	for end := time.Now().Add(d.opts.PowerTimeout); ; {
		state, err := d.PowerState(ctx, n)
		switch {
		case err == nil && state == driver.PowerOff:
			return nil
		case err != nil && !errors.Is(err, driver.ErrUnreachable):
			return err
		case time.Now().After(end) && err != nil:
			return err
		case time.Now().After(end):
			return fmt.Errorf("node %s: its outlet was told to go off for a reboot, and after %s it is still on: look at the PDU", n.Label(), d.opts.PowerTimeout)
		}
		if err := driver.Pause(ctx, d.opts.PowerPoll); err != nil {
			return fmt.Errorf("node %s: waiting for its outlet to go off: %w", n.Label(), err)
		}
	}
}

// outlet reads the state of the node's outlet, and which model its PDU is.
func (s *session) outlet(ctx context.Context, t target) (m model, is reading, err error) {
	known := s.identity != ""
	if m, is, err = s.outletOf(ctx, t); !errors.Is(err, snmpclient.ErrAbsent) || t.model != auto || !known {
		return m, is, err
	}
	s.identity = "" // a PDU of another type may be in its place
	return s.outletOf(ctx, t)
}

// outletOf is outlet of a PDU that is what it said last.
func (s *session) outletOf(ctx context.Context, t target) (m model, is reading, err error) {
	list := named(t.model)
	if t.model == auto {
		if list, err = s.identify(ctx); err != nil {
			return model{}, unknown, err
		}
	}
	var value int
	for _, m = range list {
		if value, err = s.Number(ctx, at(m.state, t.outlet)); !errors.Is(err, snmpclient.ErrAbsent) {
			break
		}
	}
	switch {
	case errors.Is(err, snmpclient.ErrAbsent):
		return m, unknown, fmt.Errorf("has no outlet %d as those of the type %s are (no object %s): check %s and %s: %w", t.outlet, m.name, at(m.state, t.outlet), fieldOutlet, fieldDriver, absent{driver.ErrInvalid})
	case err != nil:
		return m, unknown, err
	}
	switch is = m.states[value]; is {
	case unknown:
		return m, is, &bmc.Failure{Said: fmt.Sprintf("that outlet %d is in the state %d, which the type %s does not know", t.outlet, value, m.name)}
	case between:
		return m, is, &bmc.Failure{Class: bmc.Busy, Said: fmt.Sprintf("that outlet %d is between two states (%d)", t.outlet, value)}
	}
	return m, is, nil
}

// identify asks the PDU what it is, once for each socket.
func (s *session) identify(ctx context.Context) ([]model, error) {
	if s.identity == "" || s.identified != s.Sockets() {
		v, err := s.Get(ctx, sysObjectID)
		if err != nil && !errors.Is(err, snmpclient.ErrAbsent) {
			return nil, err
		}
		said, _ := v.Value.(string)
		if s.identity = identified(said); s.identity == "" {
			return nil, fmt.Errorf("SNMPDriverAuto: no driver matching %s: name the type of the PDU in %s: %w", said, fieldDriver, driver.ErrInvalid)
		}
		s.identified = s.Sockets()
		s.log.Debug("the PDU says what it is", "pdu", s.host, "sysObjectID", said, "type", s.identity)
	}
	return named(s.identity), nil
}

// with runs do when it is the caller's turn at the node's PDU, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(*session, target) error) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, t.Account().Of(n), func(ctx context.Context) (*session, error) {
		wire, err := snmpclient.Open(ctx, t.Target, snmpclient.Options{AnswerTimeout: d.opts.AnswerTimeout, Tries: d.opts.Tries, SetTimeout: d.opts.SetTimeout, Networks: d.opts.Networks})
		if err != nil {
			return nil, err
		}
		return &session{Session: wire, log: d.opts.Log, host: t.Host}, nil
	}, func(s *session) error { return do(s, t) })
	return bmc.Attempt{Node: n, Doing: doing, Device: "PDU", BMC: t.Address(), User: t.User, Secrets: t.Secrets(), Fields: pduNames.Fields}.Explain(err)
}
