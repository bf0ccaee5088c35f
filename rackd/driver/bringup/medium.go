package bringup

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Facts of a flow whose ramdisk boots from a medium: how often the machine was started again because it had none, and since when it may
// have none now.
const (
	factLost    = "medium_lost"
	factMissing = "medium_missing"
)

const (
	// mostLost is how often a machine is started again because its medium was lost.
	mostLost = 2
	// mediumLook is how often it is looked whether a machine still has the medium that its ramdisk boots from.
	mediumLook = 30 * time.Second
	// mediumGrace is how long a machine may take to show that it has read its medium before that was taken out.
	mediumGrace = 3 * time.Minute
)

// poll is how often the boot is looked at while no agent has called; 0: never.
func poll(t *driver.Task) time.Duration {
	if _, watches := t.Hardware.Boot().(driver.MediumWatcher); !watches {
		return 0
	}
	return mediumLook
}

// lostMedium reports whether the machine has to be started again, with another medium: it has lost the one that it was to boot its ramdisk
// from. One that may have read it before gets the time to call. It fails where that has happened before too often.
func lostMedium(ctx context.Context, t *driver.Task) (bool, error) {
	w, watches := t.Hardware.Boot().(driver.MediumWatcher)
	var h booting
	if raw := t.Record.Handle(); !watches || raw == nil || json.Unmarshal(raw, &h) != nil || !h.Powered || t.Agent.Booted(h.Since) || node.Attended(t.Node.Maintenance, t.Node.Fault) {
		return false, nil
	}
	lack, err := w.MediumLack(ctx, t)
	if err != nil { // a BMC that does not answer says nothing against the boot
		return false, nil
	}
	since, err := time.Parse(time.RFC3339Nano, t.Facts[factMissing])
	missed := err == nil
	if missed && since.After(time.Now()) { // the clock was set back since, or that of the rackd before was ahead
		since = time.Now().UTC()
		t.Facts[factMissing] = since.Format(time.RFC3339Nano)
	}
	switch {
	case !missed && lack.Why == "":
		return false, nil
	case !missed:
		since = time.Now().UTC()
		t.Facts[factMissing] = since.Format(time.RFC3339Nano)
		if !lack.Sure {
			t.Record.Phase("virtual media", fmt.Sprintf("%s; unless the ramdisk's agent calls within %s the machine is started again", lack.Why, mediumGrace))
		}
	}
	if !lack.Sure && t.Since(since) < mediumGrace {
		return false, nil
	}
	why := lack.Why
	if why == "" {
		why = "the medium was missing at " + since.Format(time.TimeOnly) + " UTC, and no agent has called"
	}
	times, _ := strconv.Atoi(t.Facts[factLost])
	if times >= mostLost {
		return false, fmt.Errorf("node %s: the machine does not boot its ramdisk from its virtual medium, although it was started %d times: %s. The BMC's log may say what empties the drive, or why the BMC does not read from rackd. Mend that, then send the request again",
			t.Node.Label(), times+1, why)
	}
	// What the BMC still shows of it has to go, or it would be left in its drive.
	if err := t.Hardware.Boot().CleanUpRamdisk(ctx, t); err != nil {
		return false, fmt.Errorf("take out the medium that the machine does not boot from (%s): %w", why, err)
	}
	delete(t.Facts, factMissing)
	t.Facts[factLost] = strconv.Itoa(times + 1)
	t.Record.Phase("virtual media", fmt.Sprintf("%s: the machine is started again (%d of %d), with the medium put in again", why, times+1, mostLost))
	return true, nil
}

// foundMedium forgets what lostMedium has noted: the ramdisk runs, and needs its medium no more.
func foundMedium(t *driver.Task) {
	delete(t.Facts, factMissing)
	delete(t.Facts, factLost)
}
