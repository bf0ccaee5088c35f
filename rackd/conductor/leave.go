package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// parting is what the end of a flow still does to its machine. It is done in the order of the fields: the medium goes
// once nothing can run from it.
type parting struct {
	off     bool // switch the machine off
	cleanUp bool // take back the boot into the ramdisk, and its medium
	reset   bool // of a machine that must not be switched off: end whatever its agent does
}

// bootsFromMedium reports whether the machine may read from the ramdisk's medium as long as it runs.
func bootsFromMedium(t *driver.Task) bool {
	_, does := t.Hardware.Boot().(driver.MediumBooter)
	return does
}

// partingOf is how the failure l leaves the machine of r's flow (docs/flows.md). Power is left alone where this flow has not booted
// the machine, and while its BMC is at work.
func (r *runner) partingOf(l *work.Leaving) (p parting) {
	if r.task == nil {
		return p
	}
	p.cleanUp = r.hasBooted() || r.hasReadied()
	if !r.hasBooted() || r.busyWith() != nil {
		p.cleanUp = p.cleanUp && (r.busyWith() == nil || !bootsFromMedium(r.task))
		return p
	}
	switch l.State {
	case provision.DeployFail, // a half-written disk must not boot
		provision.CleanFail, provision.InspectFail, provision.RescueFail:
		p.off = !r.node.DisablePowerOff
		p.reset = r.node.DisablePowerOff && l.Aborted
	case provision.ServiceFail: // an operator is to look at it, in the ramdisk where that needs no medium
		p.off = bootsFromMedium(r.task) && !r.node.DisablePowerOff
	}
	return p
}

// How long the end of a flow tries to switch its machine off, and then to take the ramdisk's boot back.
const (
	leaveWithin = 40 * time.Second
	leaveTries  = 5
	leavePause  = 2 * time.Second
	offWithin   = 30 * time.Second
)

// left does p to t's machine, and returns for people what could not be done. A BMC that refuses or is silent keeps no
// flow from its end, so that the only errors are the fence's and that of the context. at names the place for failpoints.
func (c *Conductor) left(ctx context.Context, t *driver.Task, p parting, at string) (undone string, err error) {
	medium := bootsFromMedium(t)
	if p.off {
		failed := tryAgain(ctx, func(ctx context.Context) error { return c.switchOff(ctx, t) })
		if err := lostFor(ctx, failed); err != nil {
			return "", err
		}
		pointOff.Hit(at)
		if failed != nil {
			undone = fmt.Sprintf("The machine could not be switched off: %v", failed)
			if medium {
				return undone + ". The medium of its ramdisk was left in its drive, for the machine may run from it: switch the machine off, then detach the medium", nil
			}
		}
	}
	if p.cleanUp {
		failed := tryAgain(ctx, func(ctx context.Context) error { return t.Hardware.Boot().CleanUpRamdisk(ctx, t) })
		if err := lostFor(ctx, failed); err != nil {
			return "", err
		}
		pointCleaned.Hit(at)
		if failed != nil {
			what := "The machine's boot into the ramdisk could not be taken back"
			if medium {
				what = "The medium of the ramdisk could not be taken out of the machine's drive: detach it"
			}
			return joined(undone, fmt.Sprintf("%s: %v", what, failed)), nil
		}
	}
	if p.reset { // once more does no harm: what it boots then is not the ramdisk
		failed := tryAgain(ctx, func(ctx context.Context) error {
			return t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.Rebooting)
		})
		if err := lostFor(ctx, failed); err != nil {
			return "", err
		}
		if failed != nil {
			undone = joined(undone, fmt.Sprintf("The machine could not be reset, and may run the ramdisk: %v", failed))
		}
	}
	return undone, nil
}

// switchOff returns once the machine is off.
func (c *Conductor) switchOff(ctx context.Context, t *driver.Task) error {
	until := time.Now().Add(offWithin)
	_, err := c.reach(ctx, t, driver.PowerOff, driver.PowerOff, offWithin)
	if errors.Is(err, driver.ErrUnknown) {
		_, err = c.awaitPower(ctx, t, driver.PowerOff, driver.PowerOff, until)
	}
	return err
}

// lostFor returns the error with which another owner has to go on, nil for none.
func lostFor(ctx context.Context, err error) error {
	if errors.Is(err, driver.ErrFenced) {
		return err
	}
	return ctx.Err()
}

// tryAgain does something to a BMC that may be silent or busy, within leaveWithin. Each try has to read before it writes.
func tryAgain(ctx context.Context, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	for range leaveTries {
		if err = do(ctx); err == nil {
			return nil
		}
		for _, final := range []error{driver.ErrFenced, driver.ErrDenied, driver.ErrInvalid, driver.ErrUnsupported} {
			if errors.Is(err, final) {
				return err
			}
		}
		if driver.Pause(ctx, leavePause) != nil {
			return err
		}
	}
	return err
}

// joined are two sentences, either of which may be empty.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimSuffix(a, ".") + ". " + b
}

// abortStep is the last step of an abort: it leaves the machine. What it could not do is told with the abort's end.
func (c *Conductor) abortStep(d *work.Document, name string, p parting) []flowStep {
	s := driver.Step{Interface: "power", Name: name, Kind: driver.Repeatable}
	at := string(d.Verb) + "/" + flowStep{Step: s}.id()
	s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		undone, err := c.left(ctx, t, p, at)
		if undone != "" {
			t.Facts[factUndone] = undone
		}
		return driver.Done(), err
	}
	return []flowStep{{Step: s}}
}

// factUndone is what an abort could not do to its machine, for people.
const factUndone = "left_undone"
