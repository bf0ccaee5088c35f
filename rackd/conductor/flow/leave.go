package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Parting is what the end of a flow still does to its machine. It is done in the order of the fields: the medium goes
// once nothing can run from it.
type Parting struct {
	// Off: switch the machine off.
	Off bool
	// CleanUp: take back the boot into the ramdisk, and its medium.
	CleanUp bool
	// Instance: take back what makes the machine boot an instance, which is not to be.
	Instance bool
	// Reset: reset a machine that must not be switched off, which ends whatever its agent does.
	Reset bool
}

// BootsFromMedium reports whether the machine may read from the ramdisk's medium as long as it runs.
func BootsFromMedium(t *driver.Task) bool {
	m, may := t.Hardware.Boot().(driver.MediumBooter)
	return may && m.BootsFromMedium()
}

// keptMedium says which medium a machine that is still on may run from, of those that p takes out; empty: from none.
func (p Parting) keptMedium(t *driver.Task) string {
	m, may := t.Hardware.Boot().(driver.MediumBooter)
	switch {
	case !may:
		return ""
	case m.BootsFromMedium() && p.CleanUp:
		return "The medium of its ramdisk"
	case p.Instance && m.InstanceOnMedium(t.Node, t.Facts):
		return "The medium of its instance"
	}
	return ""
}

// TakesBackInstance reports whether d's flow, if it ends without an instance, takes back the boot of one: of that which it has made ready.
// A rebuild that has booted the ramdisk takes back that of the instance before, which is given up.
func TakesBackInstance(d *work.Document, t *driver.Task) bool {
	return t.Facts[driver.FactPrepared] != "" || d.Flow() == work.Rebuild && t.Facts[driver.FactBooted] != ""
}

// The places where a rackd may die while it leaves a machine; the detail is VERB/INTERFACE.STEP.
var (
	pointOff     = failpoint.New("conductor.off")     // the machine is off, or could not be switched off
	pointCleaned = failpoint.New("conductor.cleaned") // the boot into the ramdisk is taken back, and that of the instance
)

// How long the end of a flow tries to switch its machine off, then to take the ramdisk's boot back, and then the instance's.
const (
	leaveWithin = 40 * time.Second
	leaveTries  = 5
	leavePause  = 2 * time.Second
	offWithin   = 30 * time.Second
)

// Leave does p to t's machine, and returns for people what could not be done. A BMC that refuses or is silent keeps no
// flow from its end, so that the only errors are the fence's and that of the context. at names the place for failpoints.
func (c *Catalog) Leave(ctx context.Context, t *driver.Task, p Parting, at string) (undone string, err error) {
	medium := BootsFromMedium(t)
	if p.Off {
		failed := c.offForGood(ctx, t)
		if err := LostFor(ctx, failed); err != nil {
			return "", err
		}
		pointOff.Hit(at)
		if failed != nil {
			undone = fmt.Sprintf("The machine could not be switched off: %v", failed)
			if kept := p.keptMedium(t); kept != "" {
				undone += ". " + kept + " was left in its drive, for the machine may run from it: switch the machine off, then detach the medium"
				if p.Instance {
					undone += ", and undeploy the node, for what makes the machine boot its instance was left too"
				}
				return undone, nil
			}
		}
	}
	left := ""
	if p.CleanUp {
		failed := tryAgain(ctx, func(ctx context.Context) error { return driver.TakeBackRamdisk(ctx, t) })
		if err := LostFor(ctx, failed); err != nil {
			return "", err
		}
		if failed != nil {
			what := "The machine's boot into the ramdisk could not be taken back"
			if medium {
				what = "The medium of the ramdisk could not be taken out of the machine's drive: detach it"
			}
			left = fmt.Sprintf("%s: %v", what, failed)
		}
	}
	if p.Instance {
		failed := tryAgain(ctx, func(ctx context.Context) error { return driver.TakeBackInstance(ctx, t) })
		if err := LostFor(ctx, failed); err != nil {
			return "", err
		}
		if failed != nil {
			left = Joined(left, fmt.Sprintf("The machine's boot into its instance could not be taken back, and its medium or its volume may be there yet: undeploy the node: %v", driver.Unnamed(t.Node, failed)))
		}
	}
	if p.CleanUp || p.Instance {
		pointCleaned.Hit(at)
	}
	if left != "" {
		return Joined(undone, left), nil
	}
	if p.Reset { // once more does no harm: what it boots then is not the ramdisk
		failed := tryAgain(ctx, func(ctx context.Context) error {
			return t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.Rebooting)
		})
		if err := LostFor(ctx, failed); err != nil {
			return "", err
		}
		if failed != nil {
			undone = Joined(undone, fmt.Sprintf("The machine could not be reset, and may run the ramdisk: %v", failed))
		}
	}
	return undone, nil
}

// How long a machine is looked at that may still switch on by itself, and how often. iLO delays an order by up to two
// minutes. That counts from when the flow ends: the order's time is perhaps by another clock, or by one that has been set since.
const (
	lateOn    = 150 * time.Second
	lateEvery = 2 * time.Second
)

// offForGood switches the machine off. One that was asked to switch on and is not on yet may come on after that: it is looked at
// until it does or has had its time.
func (c *Catalog) offForGood(ctx context.Context, t *driver.Task) error {
	off := func() error { return tryAgain(ctx, func(ctx context.Context) error { return c.switchOff(ctx, t) }) }
	if t.Facts[driver.FactOnAsked] == "" {
		return off()
	}
	state, err := t.Hardware.Power().PowerState(ctx, t.Node)
	if err != nil || state != driver.PowerOff {
		return off()
	}
	for end := time.Now().Add(lateOn); time.Now().Before(end); {
		if err := driver.Pause(ctx, lateEvery); err != nil {
			return err
		}
		if state, err = t.Hardware.Power().PowerState(ctx, t.Node); err == nil && state != driver.PowerOff {
			t.Record.Phase("late power on", "the machine has switched on after its flow had given up, and is switched off")
			return off()
		}
	}
	if err != nil {
		return fmt.Errorf("it was asked to switch on and may do so yet, and its power cannot be read: %w", driver.Unnamed(t.Node, err))
	}
	return nil
}

// switchOff returns once the machine is off.
func (c *Catalog) switchOff(ctx context.Context, t *driver.Task) error {
	if !t.Hardware.Can(driver.PowerOff) {
		there, err := t.ByAgent(ctx, agentapi.CmdPowerOff)
		if err == nil && !there {
			err = fmt.Errorf("%s: %w", t.Unswitched(), driver.ErrUnsupported)
		}
		return err
	}
	until := time.Now().Add(offWithin)
	_, err := c.reach(ctx, t, driver.PowerOff, driver.PowerOff, offWithin)
	if errors.Is(err, driver.ErrUnknown) {
		_, err = c.awaitPower(ctx, t, driver.PowerOff, driver.PowerOff, until)
	}
	return err
}

// LostFor returns the error with which another owner has to go on, nil for none.
func LostFor(ctx context.Context, err error) error {
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

// Joined are two sentences, either of which may be empty.
func Joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimSuffix(a, ".") + ". " + b
}

// abortStep is the last step of an abort: it leaves the machine. What it could not do is told with the abort's end.
func (c *Catalog) abortStep(d *work.Document, name string, p Parting) []Step {
	s := driver.Step{Interface: "power", Name: name, Kind: driver.Repeatable}
	at := string(d.Verb) + "/" + Step{Step: s}.ID()
	s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		undone, err := c.Leave(ctx, t, p, at)
		if undone != "" {
			t.Facts[FactUndone] = undone
		}
		return driver.Done(), err
	}
	return []Step{{Step: s}}
}

// FactUndone is what an abort could not do to its machine, for people.
const FactUndone = "left_undone"
