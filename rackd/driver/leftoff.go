package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long, and how often, a machine is looked at that a reset may have left off.
const (
	offShowsWithin = 10 * time.Second
	offShowsEvery  = time.Second
)

// LeftOff reports whether a reset that may have been cut short has left the machine off: hardware without a reset is switched off and on,
// and the rackd that was to switch it on may have died in between. A machine that is still on may be on its way to off, so it is looked
// at for a while. Errors are the BMC's; where nothing tells the machine's power, it is not known to be off.
func (t *Task) LeftOff(ctx context.Context) (bool, error) {
	if !t.Hardware.Can(PowerOff) {
		return false, nil
	}
	for end := time.Now().Add(offShowsWithin); ; {
		state, err := t.Hardware.Power().PowerState(ctx, t.Node)
		switch over := time.Now().After(end); {
		case err == nil && state == PowerOff:
			return true, nil
		case err != nil && (over || !errors.Is(err, ErrUnreachable)):
			return false, fmt.Errorf("read the power state after a reset that may have been cut short: %w", err)
		case over:
			return false, nil
		}
		if err := Pause(ctx, offShowsEvery); err != nil {
			return false, err
		}
	}
}
