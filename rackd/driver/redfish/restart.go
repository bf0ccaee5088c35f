package redfish

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// An order that a BMC only stages is carried out when the machine restarts. The step restarts it, once for an
// order, and tells nothing as made before the machine shows it.

// Bounds, in looks that are jobPoll apart. A step is also run at each call of the machine's agent, so that
// there they pass sooner: then the machine is up already.
const (
	// settles is for how many looks a task must stand still, unbegun, until it counts as staged.
	settles = 6
	// begins is how many looks a task may take to begin once the machine was restarted.
	begins = 180
	// restarted is how many looks an effect may take to show once the machine was restarted.
	restarted = 90
	// longest is for how many looks, a day, a task is followed that says something new each time.
	longest = 8640
)

// restart is the part of an order's handle that tells of the restart which it needs.
type restart struct {
	// Due: the machine is to be restarted, or has been. Boot is the handle of that, and Up says that it is over.
	Due  bool            `json:"restart,omitempty"`
	Boot json.RawMessage `json:"restart_handle,omitempty"`
	Up   bool            `json:"restarted,omitempty"`
	// Still is for how many looks the task has said no more than Far, which is that it has not begun.
	Still int    `json:"still,omitempty"`
	Far   string `json:"far,omitempty"`
	// Unbegun counts all looks at which the task had not begun, since the restart if there was one. Followed counts all.
	Unbegun  int `json:"unbegun,omitempty"`
	Followed int `json:"followed,omitempty"`
}

// stands takes in that the order's task has not begun. Before the restart one that stands still is staged; after it the
// BMC counts as at work, for it may write while the machine starts.
func (r *restart) stands(t *driver.Task, far string) (is progress, err error) {
	if r.Far != far {
		r.Far, r.Still = far, 0
	}
	r.Still++
	r.Unbegun++
	switch {
	case r.Due && r.Up && r.Unbegun > begins:
		return running, fmt.Errorf("its %s, %.0f minutes after the machine was restarted for it: the BMC does not begin it. It may begin at a later restart: if that is not wanted, delete the task at the BMC. Then repeat the request",
			far, (begins * jobPoll).Minutes())
	case r.Due && r.Boot == nil:
		t.Record.Idle() // it waits for us, and we for the end of the maintenance
		return running, nil
	case r.Due:
		t.Record.Busy(far + ", the machine was restarted")
		return running, nil
	case r.Still < settles && r.Unbegun < begins:
		t.Record.Busy(far)
		return running, nil
	}
	t.Record.Idle() // it waits for us
	return staged, nil
}

// need notes that the order waits for a restart, and why.
func (r *restart) need(t *driver.Task, why string) {
	r.Due = true
	t.Record.Phase("restart needed", why)
}

// bring brings the restart forward, if one is needed and not over. save saves the step's handle. It is called
// outside of a turn at the BMC: it takes turns of its own.
func (r *restart) bring(ctx context.Context, t *driver.Task, b bringup.Settings, save func(context.Context) error) error {
	if !r.Due || r.Up || r.Boot == nil && t.HandsOff() {
		return nil
	}
	part := *t
	part.Record = driver.Part{Recorder: t.Record, Kept: &r.Boot, Save: save}
	out, err := b.Restart(ctx, &part)
	if err != nil {
		return fmt.Errorf("restart the machine, because its BMC carries out the order only then: %w", err)
	}
	if _, waits := out.Waiting(); !waits {
		r.Up, r.Unbegun = true, 0
	}
	return nil
}

// pending reports whether the restart has still to end.
func (r *restart) pending() bool { return r.Due && !r.Up }

// sinceRestart adds to what an error says that the machine was restarted.
func (r *restart) sinceRestart() string {
	if !r.Due {
		return ""
	}
	return fmt.Sprintf(", also %.0f minutes after the machine was restarted", (restarted * jobPoll).Minutes())
}

// restored is the machine's power before the step has restarted it.
type restored struct {
	// Noted: Off tells it.
	Noted bool `json:"power_noted,omitempty"`
	Off   bool `json:"was_off,omitempty"`
}

// note notes the machine's power before the first restart. Where the ramdisk runs, it is on afterwards.
func (p *restored) note(ctx context.Context, t *driver.Task) error {
	if p.Noted || t.Facts[driver.FactBoot] == driver.BootRamdisk {
		return nil
	}
	state, err := t.Hardware.Power().PowerState(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("read the power state before a restart: %w", err)
	}
	p.Noted, p.Off = true, state == driver.PowerOff
	return nil
}

// restore switches a machine off again that was off before the step.
func (p *restored) restore(ctx context.Context, t *driver.Task, b bringup.Settings) error {
	if !p.Off {
		return nil
	}
	return b.Off(ctx, t)
}
