package conductor

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// service is what c does for its flows and its runners.
type service struct{ c *Conductor }

// Insist sends an event, trying until the context ends: events are few, the next step must
// not overtake them, and no step fails because the bus is away. One that is too large for the
// bus is an error at once.
func (s service) Insist(ctx context.Context, e work.Event) error {
	c := s.c
	e.Cut()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := c.cfg.Documents.Publish(attempt, e)
		cancel()
		if errors.Is(err, bus.ErrTooLarge) {
			return err
		}
		c.away.Tried(c.log, "publishing events", err, "node", e.Node, "kind", string(e.Kind), "event", e.ID)
		if err == nil {
			return nil
		}
		if err := driver.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// NotePower implements flow.Events.
func (s service) NotePower(e work.Event, err error) { s.c.notePower(e, err) }

// NoteHardware implements flow.Events.
func (s service) NoteHardware(node string, o *hardware.Observation, err error) {
	s.c.noteHardware(node, o, err)
}

// ForgetPower implements runner.Conductor.
func (s service) ForgetPower(e work.Event) { s.c.forgetPower(e) }

// NoteStart implements flow.Events.
func (s service) NoteStart(node string) { s.c.noteStart(node) }

// NoteReported implements runner.Conductor.
func (s service) NoteReported(e work.Event) {
	s.c.noteReported(e)
	s.c.noteFlowEnded(e)
}

// Addresses implements runner.Conductor.
func (s service) Addresses(n *node.Document, boot work.Boot) []netip.Addr {
	return s.c.addresses(n, boot)
}

// Refused implements runner.Conductor.
func (s service) Refused(call, why string, details ...any) { s.c.refused(call, why, details...) }
