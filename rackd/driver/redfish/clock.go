package redfish

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// clockOff is by how much a clock may be off and count as right: most tell whole seconds, and are set to whole seconds.
const clockOff = 2 * time.Second

// Clock implements driver.Clock.
func (d *Driver) Clock(ctx context.Context, n *node.Document) (at time.Time, err error) {
	err = d.change(ctx, nil, n, "read the clock", func(s *System, c *gofish.APIClient) error {
		m, err := managerOf(c, s)
		if err == nil {
			at, err = m.clock()
		}
		return err
	})
	return at, err
}

// SetClock implements driver.Clock. A clock that is right, in the offset that is asked for, is left alone.
func (d *Driver) SetClock(ctx context.Context, f driver.Fence, n *node.Document, at time.Time, offset string) error {
	read := time.Now()
	return d.change(ctx, f, n, "set the clock", func(s *System, c *gofish.APIClient) error {
		m, err := managerOf(c, s)
		if err != nil {
			return err
		}
		is, err := m.clock()
		if err != nil {
			return err
		}
		if isNow(is, at, read, read) && (offset == "" || offset == m.DateTimeLocalOffset) {
			return nil
		}
		sent := time.Now()
		body := map[string]any{"DateTime": at.Add(sent.Sub(read)).Truncate(time.Second).Format("2006-01-02T15:04:05-07:00")}
		if offset != "" {
			body["DateTimeLocalOffset"] = offset
		}
		if _, err := patch(c, makerOf(c, s), m.Path, body); err != nil {
			return err
		}
		if m, err = managerOf(c, s); err == nil {
			is, err = m.clock()
		}
		switch {
		case err != nil:
			return fmt.Errorf("read the clock back: %w", err)
		case !isNow(is, at, read, sent):
			return fmt.Errorf("it accepted the time and shows %s: a time server that it follows may have set it", m.DateTime)
		case offset != "" && m.DateTimeLocalOffset != "" && m.DateTimeLocalOffset != offset:
			return fmt.Errorf("it accepted the offset %s and shows %s", offset, m.DateTimeLocalOffset)
		}
		return nil
	})
}

// isNow reports whether a clock shows the time that was at when read was now. It was set, if at all, after sent: it may be late by
// how long the order took.
func isNow(shown, at, read, sent time.Time) bool {
	ahead := shown.Sub(at.Add(time.Since(read)))
	return ahead <= clockOff && ahead >= -clockOff-time.Since(sent)
}

// offsetPattern is what Redfish calls an offset.
var offsetPattern = regexp.MustCompile(`^[+-](0[0-9]|1[0-4]):[0-5][0-9]$`)

func checkClock(n *node.Document, args map[string]any) error {
	_, _, err := clockArgs(n, args)
	return err
}

// clockArgs reads the arguments of set_bmc_clock; a zero time is now.
func clockArgs(n *node.Document, args map[string]any) (at time.Time, offset string, err error) {
	if v := args["target_datetime"]; v != nil {
		text, _ := v.(string)
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return at, "", invalid(n, "target_datetime is %.40v: give a time such as 2026-01-31T12:00:00+00:00", v)
		}
	}
	if v := args["datetime_local_offset"]; v != nil {
		if offset, _ = v.(string); !offsetPattern.MatchString(offset) {
			return at, "", invalid(n, "datetime_local_offset is %.40v: give an offset such as +02:00", v)
		}
	}
	return at, offset, nil
}

// setClock is the steps set_bmc_clock and verify_bmc_clock. Without arguments the time is that of rackd.
func (m Management) setClock(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	at, offset, err := clockArgs(t.Node, t.Args)
	if err != nil {
		return driver.Outcome{}, err
	}
	if at.IsZero() {
		at = time.Now().UTC()
	}
	was, err := m.Clock(ctx, t.Node)
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := m.SetClock(ctx, t.Fence, t.Node, at, offset); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("BMC clock", fmt.Sprintf("it was off by %s", time.Until(was).Round(time.Second)))
	return driver.Done(), nil
}
