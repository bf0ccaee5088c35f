package conductor

import (
	"context"
	"errors"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// events tells central what works and their steps do and see, for the flows and the runners of c.
type events struct{ c *Conductor }

// Insist sends an event, trying until the context ends: events are few, the next step must
// not overtake them, and no step fails because the bus is away. One that is too large for the
// bus is an error at once.
func (t events) Insist(ctx context.Context, e work.Event) error {
	c := t.c
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
func (t events) NotePower(e work.Event, err error) { t.c.notePower(e, err) }

// NoteHardware implements flow.Events.
func (t events) NoteHardware(node string, o *hardware.Observation, err error) {
	t.c.noteHardware(node, o, err)
}
