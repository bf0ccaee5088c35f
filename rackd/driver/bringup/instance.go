package bringup

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/rackd/driver"
)

// starting is the handle of a step that starts the instance of a machine that is switched off before. That of a machine that is reset is
// resetting.
type starting struct {
	// Prepared: the machine was off and is told what to boot. From then on it may run the instance.
	Prepared bool `json:"prepared"`
}

// Instance has down bring the machine down, makes the start of the instance ready and starts it. It is the run of a reattachable step:
// a rackd that goes on with the step does not bring down an instance that may run already. One whose media were at a rackd that has gone
// may not have started: it is started again, from others. ramdisk is that of IntoInstance.
func (s Settings) Instance(ctx context.Context, t *driver.Task, ramdisk bool, down func(context.Context, *driver.Task) error) error {
	var h starting
	if raw := t.Record.Handle(); raw != nil && !t.StaysOn() {
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("node %s: the handle %q of the instance's start cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if m, makes := t.Hardware.Boot().(driver.InstanceMediumMaker); makes && t.Record.Handle() != nil && m.DesertedInstance(t) {
		if h.Prepared || t.StaysOn() {
			t.Record.Phase("virtual media", "the rackd that served the instance's media has gone, and the machine may not have read them: it is started again, with others")
		}
		h = starting{}
		if err := t.Record.SaveHandle(ctx, h); err != nil { // a rackd that goes on with this start finds it not begun
			return err
		}
	}
	if !h.Prepared {
		if err := down(ctx, t); err != nil {
			return err
		}
	}
	if err := t.Hardware.Boot().PrepareInstance(ctx, t); err != nil {
		return err
	}
	if !h.Prepared && !t.StaysOn() {
		if err := t.Record.SaveHandle(ctx, starting{Prepared: true}); err != nil {
			return err
		}
	}
	return s.IntoInstance(ctx, t, ramdisk)
}

// fromLiving makes the start of the instance ready once more where its media were at a rackd that has gone. A machine that was told to
// start since may not have read them: it is brought down. The flow that starts it is not over, so nothing has told of the instance yet.
func (s Settings) fromLiving(ctx context.Context, t *driver.Task) error {
	m, makes := t.Hardware.Boot().(driver.InstanceMediumMaker)
	if !makes || !m.DesertedInstance(t) {
		return nil
	}
	t.Record.Phase("virtual media", "the rackd that served the instance's media has gone, and the machine may not have read them: it is started from others")
	if t.StaysOn() {
		if err := t.Record.SaveHandle(ctx, resetting{}); err != nil { // a reset that was asked for was into those of before
			return err
		}
	} else if err := s.Off(ctx, t); err != nil {
		return err
	}
	return t.Hardware.Boot().PrepareInstance(ctx, t)
}
